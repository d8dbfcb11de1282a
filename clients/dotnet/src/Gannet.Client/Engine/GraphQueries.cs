using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;
using Gannet.V1.Replies;
using Gannet.V1.Requests;

namespace Gannet.Client.Engine
{
    /// <summary>A query with its kind. Its request is created for the graph that executes it.</summary>
    internal sealed class GraphQueryOf<TRequest, TReply, TResult> : GraphQuery
        where TRequest : class, IRequest
        where TReply : class
        where TResult : GraphResult
    {
        private readonly GraphKind<TRequest, TReply, TResult> kind;
        private readonly Func<Bytes, TRequest> request;
        private readonly string? graph;

        public GraphQueryOf(
            GraphKind<TRequest, TReply, TResult> kind, Func<Bytes, TRequest> request, string? graph = null)
        {
            this.kind = kind;
            this.request = request;
            this.graph = graph;
        }

        /// <inheritdoc/>
        public override GraphQuery InGraph(string name) =>
            new GraphQueryOf<TRequest, TReply, TResult>(kind, request, GraphQueries.NameOf(name, nameof(name)));

        /// <summary>Executes the query alone.</summary>
        public Task<TResult> SendAsync(
            Caller caller, string executing, TimeSpan? deadline, CancellationToken cancellationToken)
        {
            var sent = request(graph ?? executing);
            var call = kind.Check == null
                ? kind.Call
                : kind.Call.With(replies => kind.ResultOf(sent, Calls.Decode(replies[0], kind.Read)));
            return caller.Send(call, sent, deadline, cancellationToken);
        }

        internal override V1.Requests.GraphQuery ToMessage()
        {
            var message = new V1.Requests.GraphQuery();
            kind.Put(message, request(graph ?? string.Empty));
            return message;
        }

        internal override GraphResult ResultOf(GraphQueryResult result, Target target)
        {
            if (result.Error != null)
            {
                var outcome = Outcome.Failed((int)result.Error.Code, result.Error.Message);
                return kind.Call.Fail(ErrorFactory.OfOutcome(outcome, kind.Call.Method, target, 0, null));
            }
            var reply = kind.Part(result)
                ?? throw new BadReplyException($"the result of {kind.Call.Name} is one of another query");
            return kind.ResultOf(request(string.Empty), reply);
        }
    }

    /// <summary>Makes queries, and checks their arguments.</summary>
    internal static class GraphQueries
    {
        public static GraphQueryOf<GetEdgesRequest, GetEdgesReply, EdgesResult> GetEdges(
            ulong source, Bytes type, IEnumerable<ulong> destinations)
        {
            var nodes = NodesOf(destinations);
            return new GraphQueryOf<GetEdgesRequest, GetEdgesReply, EdgesResult>(
                Calls.GraphGetEdges,
                graph => new GetEdgesRequest { Graph = graph, Source = source, Type = type, Destinations = nodes });
        }

        public static GraphQueryOf<GraphCountRequest, GraphCountReply, NodeCountResult> Count(ulong node, Bytes type) =>
            new GraphQueryOf<GraphCountRequest, GraphCountReply, NodeCountResult>(
                Calls.GraphCount, graph => new GraphCountRequest { Graph = graph, Node = node, Type = type });

        public static GraphQueryOf<GraphRangeRequest, NeighbourPage, NeighbourPageResult> Neighbours(
            ulong node,
            Bytes type,
            Bytes cursor,
            int? limit,
            (long FirstMs, long LastMs)? times,
            bool reverse,
            bool withAttributes,
            EdgeState state)
        {
            var nodesMax = Positive(nameof(limit), limit);
            var range = times == null ? null : new TimeRange
            {
                FirstMs = Times.SinceEpochMs(nameof(times), times.Value.FirstMs),
                LastMs = Times.SinceEpochMs(nameof(times), times.Value.LastMs),
            };
            return new GraphQueryOf<GraphRangeRequest, NeighbourPage, NeighbourPageResult>(
                Calls.GraphRange,
                graph => new GraphRangeRequest
                {
                    Graph = graph,
                    Node = node,
                    Type = type,
                    Cursor = cursor,
                    Limit = nodesMax,
                    Times = range,
                    Reverse = reverse,
                    WithAttributes = withAttributes,
                    State = (V1.EdgeState)state,
                });
        }

        public static GraphQueryOf<MutualRequest, MutualReply, MutualNodesResult> Mutual(
            ulong first, ulong second, Bytes type, int? limit, int? budget)
        {
            var (nodesMax, edgesMax) = (Positive(nameof(limit), limit), Positive(nameof(budget), budget));
            return new GraphQueryOf<MutualRequest, MutualReply, MutualNodesResult>(
                Calls.GraphMutual,
                graph => new MutualRequest
                {
                    Graph = graph, First = first, Second = second, Type = type, Limit = nodesMax, Budget = edgesMax,
                });
        }

        public static GraphQueryOf<MutualRequest, MutualReply, NodeCountResult> MutualCount(
            ulong first, ulong second, Bytes type, int? budget)
        {
            var edgesMax = Positive(nameof(budget), budget);
            return new GraphQueryOf<MutualRequest, MutualReply, NodeCountResult>(
                Calls.GraphMutualCount,
                graph => new MutualRequest
                {
                    Graph = graph, First = first, Second = second, Type = type, CountOnly = true, Budget = edgesMax,
                });
        }

        public static GraphQueryOf<CombineRequest, NodePage, NodePageResult> Combine(
            CombineOperation operation, IEnumerable<NodeList> lists, Bytes cursor, int? limit)
        {
            var nodesMax = Positive(nameof(limit), limit);
            var sent = (lists ?? throw new ArgumentNullException(nameof(lists)))
                .Select(each => new V1.Requests.NodeList { Node = each.Node, Type = each.Type }).ToList();
            return new GraphQueryOf<CombineRequest, NodePage, NodePageResult>(
                Calls.GraphCombine,
                graph => new CombineRequest
                {
                    Graph = graph,
                    Operation = (V1.CombineRequestOperation)operation,
                    Lists = sent,
                    Cursor = cursor,
                    Limit = nodesMax,
                });
        }

        public static GraphQueryOf<DistanceRequest, DistanceReply, DistancesResult> Distances(
            ulong source, Bytes type, IEnumerable<ulong> destinations, int? max, int? budget)
        {
            var nodes = NodesOf(destinations);
            var (distanceMax, edgesMax) = (Positive(nameof(max), max), Positive(nameof(budget), budget));
            return new GraphQueryOf<DistanceRequest, DistanceReply, DistancesResult>(
                Calls.GraphDistance,
                graph => new DistanceRequest
                {
                    Graph = graph,
                    Source = source,
                    Type = type,
                    Destinations = nodes,
                    Max = distanceMax,
                    Budget = edgesMax,
                });
        }

        public static GraphQueryOf<PathRequest, PathReply, PathsResult> Paths(
            ulong source, ulong destination, Bytes type, int? max, int? k, int? budget)
        {
            var (lengthMax, pathsMax) = (Positive(nameof(max), max), Positive(nameof(k), k));
            var edgesMax = Positive(nameof(budget), budget);
            return new GraphQueryOf<PathRequest, PathReply, PathsResult>(
                Calls.GraphPath,
                graph => new PathRequest
                {
                    Graph = graph,
                    Source = source,
                    Destination = destination,
                    Type = type,
                    Max = lengthMax,
                    K = pathsMax,
                    Budget = edgesMax,
                });
        }

        public static GraphQueryOf<SecondDegreeRequest, SecondDegreeReply, NodePageResult> SecondDegree(
            ulong node, Bytes type, Bytes cursor, int? limit, int? budget, int? stale)
        {
            var (nodesMax, edgesMax) = (Positive(nameof(limit), limit), Positive(nameof(budget), budget));
            var changesMax = Positive(nameof(stale), stale);
            return new GraphQueryOf<SecondDegreeRequest, SecondDegreeReply, NodePageResult>(
                Calls.GraphSecondDegree,
                graph => new SecondDegreeRequest
                {
                    Graph = graph,
                    Node = node,
                    Type = type,
                    Cursor = cursor,
                    Limit = nodesMax,
                    Budget = edgesMax,
                    Stale = changesMax,
                });
        }

        public static GraphQueryOf<SecondDegreeRequest, SecondDegreeReply, NodeCountResult> SecondDegreeCount(
            ulong node, Bytes type, int? budget, int? stale)
        {
            var (edgesMax, changesMax) = (Positive(nameof(budget), budget), Positive(nameof(stale), stale));
            return new GraphQueryOf<SecondDegreeRequest, SecondDegreeReply, NodeCountResult>(
                Calls.GraphSecondDegreeCount,
                graph => new SecondDegreeRequest
                {
                    Graph = graph, Node = node, Type = type, CountOnly = true, Budget = edgesMax, Stale = changesMax,
                });
        }

        public static GraphQueryOf<SuggestRequest, SuggestReply, SuggestionsResult> Suggest(
            ulong node, Bytes type, int? k, int? budget)
        {
            var (nodesMax, edgesMax) = (Positive(nameof(k), k), Positive(nameof(budget), budget));
            return new GraphQueryOf<SuggestRequest, SuggestReply, SuggestionsResult>(
                Calls.GraphSuggest,
                graph => new SuggestRequest
                {
                    Graph = graph, Node = node, Type = type, K = nodesMax, Budget = edgesMax,
                });
        }

        /// <summary>Checks the name of a graph. An empty one would stand for another graph or the store.</summary>
        public static string NameOf(string name, string argument) => string.IsNullOrEmpty(name)
            ? throw new ArgumentException("cannot use graph: its name is empty; give a name", argument)
            : name;

        private static List<ulong> NodesOf(IEnumerable<ulong> nodes) =>
            (nodes ?? throw new ArgumentNullException(nameof(nodes))).ToList();

        /// <summary>Returns a number from 1 on, or 0 for null, which the server takes for its default.</summary>
        private static uint Positive(string name, int? number)
        {
            if (number == null)
            {
                return 0;
            }
            return number >= 1
                ? (uint)number.Value
                : throw new ArgumentOutOfRangeException(
                    name, $"cannot use {name} {number}: it is too low; give at least 1, or null");
        }
    }
}
