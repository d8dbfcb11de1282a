using System;
using Gannet.Client.Protocol;
using Gannet.V1.Replies;

namespace Gannet.Client.Engine
{
    /// <summary>A kind of query of graphs, which is a call of its own or a part of a batch.</summary>
    internal sealed class GraphKind<TRequest, TReply, TResult>
        where TRequest : class, IRequest
        where TReply : class
        where TResult : GraphResult
    {
        public GraphKind(
            Call<TResult> call,
            Calls.Decoder<TReply> read,
            Action<V1.Requests.GraphQuery, TRequest> put,
            Func<GraphQueryResult, TReply?> part,
            Func<TReply, TResult> make,
            Action<TRequest, TReply>? check = null)
        {
            Call = call;
            Read = read;
            Put = put;
            Part = part;
            Make = make;
            Check = check;
        }

        /// <summary>The call of the query alone.</summary>
        public Call<TResult> Call { get; }

        public Calls.Decoder<TReply> Read { get; }

        /// <summary>Adds the request to a batch.</summary>
        public Action<V1.Requests.GraphQuery, TRequest> Put { get; }

        /// <summary>Returns the reply from the reply to a batch, or null if that is one of another kind.</summary>
        public Func<GraphQueryResult, TReply?> Part { get; }

        public Func<TReply, TResult> Make { get; }

        /// <summary>
        /// Throws <see cref="BadReplyException"/> if a reply does not fit its request; null for none.
        /// </summary>
        public Action<TRequest, TReply>? Check { get; }

        /// <summary>Returns the result of a reply to this request.</summary>
        public TResult ResultOf(TRequest request, TReply reply)
        {
            Check?.Invoke(request, reply);
            return Make(reply);
        }
    }
}
