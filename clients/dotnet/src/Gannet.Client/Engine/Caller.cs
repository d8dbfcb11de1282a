using System;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>Sends the calls of one cache, and drops the copies of the values that they change.</summary>
    internal sealed class Caller
    {
        public Caller(ClientEngine engine, Scope scope)
        {
            Engine = engine;
            Scope = scope;
        }

        public ClientEngine Engine { get; }

        public Scope Scope { get; }

        public Task<TResult> Send<TResult>(
            Call<TResult> call,
            IRequest request,
            TimeSpan? deadline,
            CancellationToken cancellationToken,
            int replies = 1)
        {
            byte[] frame;
            try
            {
                frame = Wire.Frame(request);
            }
            catch (EncoderFallbackException)
            {
                return Task.FromResult(call.Fail(ErrorFactory.OfText(call.Name)));
            }
            var sent = Engine.CallAsync(call, frame, Scope, deadline, cancellationToken, replies);
            return Engine.Near == null ? sent : DropAfterAsync(Engine.Near, sent, call, request);
        }

        /// <summary>
        /// Drops the copies that a call may have changed when it has ended, whatever its result: a change that got no
        /// reply may have been executed.
        /// </summary>
        private async Task<TResult> DropAfterAsync<TResult>(
            NearCache near, Task<TResult> sent, Call call, IRequest request)
        {
            try
            {
                return await sent.ConfigureAwait(false);
            }
            finally
            {
                near.DropChanged(call, Scope, request);
            }
        }
    }
}
