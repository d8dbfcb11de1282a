using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>The request of a stream, and the events that it makes of replies.</summary>
    internal interface IEventSource<out TEvent>
        where TEvent : class
    {
        Method Method { get; }

        /// <summary>Returns the request that continues the stream after the events so far.</summary>
        IRequest Request();

        /// <summary>
        /// Returns the event of a reply, or null for one of a later schema. Throws <see cref="BadReplyException"/>.
        /// </summary>
        TEvent? EventOf(ReadOnlyMemory<byte> reply);
    }

    /// <summary>
    /// A stream of events that is opened again when it breaks.
    /// <code>
    ///     Begin ---> open ---- event ----> open
    ///                  |  ^
    ///     connection   |  +---- delay is over ----+
    ///     is broken    +------> waiting ----------+
    ///                  |
    ///                  +------> ended: closed, cancelled, or an error that does not pass
    /// </code>
    /// One caller reads at a time. <see cref="Close"/> may be called at any time.
    /// </summary>
    internal sealed class EventStream<TEvent>
        where TEvent : class
    {
        private readonly ClientEngine engine;
        private readonly IEventSource<TEvent> source;
        private readonly Scope scope;
        private readonly CancellationTokenSource ended;
        private readonly CancellationToken end;
        private ServerStream? stream;
        private TEvent? first;
        private bool hasBegun;
        private int failures;
        private int isReading;

        public EventStream(
            ClientEngine engine, IEventSource<TEvent> source, Scope scope, CancellationToken cancellation)
        {
            this.engine = engine;
            this.source = source;
            this.scope = scope;
            ended = CancellationTokenSource.CreateLinkedTokenSource(engine.Closed, cancellation);
            end = ended.Token;
        }

        /// <summary>The error after which the stream has ended, or null.</summary>
        public CacheError? Error { get; private set; }

        /// <summary>Called when the stream breaks, before it is opened again.</summary>
        public Action? Broken { get; set; }

        /// <summary>
        /// Opens the stream, and waits for its first event. Attempts are repeated as those of idempotent calls. Returns
        /// the error of the last attempt, or null.
        /// </summary>
        public async Task<CacheError?> BeginAsync(TimeSpan limit)
        {
            Enter();
            try
            {
                var failure = await AttemptsAsync(limit).ConfigureAwait(false);
                var error = Error ?? (failure is Outcome outcome ? ErrorOf(outcome) : null);
                if (error != null)
                {
                    Cancel();
                }
                return error;
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Returns the next event, or null when the stream has ended.</summary>
        public async ValueTask<TEvent?> ReadAsync()
        {
            if (!Enter())
            {
                return null;
            }
            try
            {
                while (!end.IsCancellationRequested && Error == null)
                {
                    if (first != null)
                    {
                        var found = first;
                        first = null;
                        return found;
                    }
                    var outcome = stream == null
                        ? await ReopenAsync().ConfigureAwait(false)
                        : await NextAsync(engine.StreamSilenceMax).ConfigureAwait(false);
                    if (outcome is Outcome failure && !end.IsCancellationRequested)
                    {
                        failures++;
                        Error ??= GrpcStatus.IsLasting(failure.Status) ? ErrorOf(failure) : null;
                    }
                }
                return null;
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Ends the stream, and the call of <see cref="ReadAsync"/> that waits.</summary>
        public void Close()
        {
            Cancel();
            if (Interlocked.CompareExchange(ref isReading, 1, 0) == 0)
            {
                Leave();
            }
        }

        private CacheError ErrorOf(Outcome outcome) => engine.Ended(source.Method.Name, end)
            ?? ErrorFactory.OfOutcome(outcome, source.Method, engine.Target, 0, null);

        // Returns false if the stream ends: Close takes the place of the reader for a moment.
        private bool Enter()
        {
            if (Interlocked.CompareExchange(ref isReading, 1, 0) == 0)
            {
                return true;
            }
            if (end.IsCancellationRequested)
            {
                return false;
            }
            throw new InvalidOperationException(
                "cannot read a stream of events: another reader waits for its next event; use one reader");
        }

        private void Leave()
        {
            var isOver = end.IsCancellationRequested || Error != null;
            if (isOver)
            {
                Drop();
                ended.Dispose();
            }
            Volatile.Write(ref isReading, 0);
            // A call of Close since the test above has left the end to this reader.
            if (!isOver && end.IsCancellationRequested && Interlocked.CompareExchange(ref isReading, 1, 0) == 0)
            {
                Leave();
            }
        }

        private void Cancel()
        {
            try
            {
                ended.Cancel();
            }
            catch (ObjectDisposedException)
            {
                // It has ended before.
            }
        }

        private void Drop() => Interlocked.Exchange(ref stream, null)?.Dispose();

        private async Task<Outcome?> AttemptsAsync(TimeSpan limit)
        {
            var started = Stopwatch.GetTimestamp();
            var delay = TimeSpan.Zero;
            for (var attempt = 0; ; attempt++)
            {
                var remaining = limit - Clock.Since(started);
                var failure = await OpenAsync(remaining > TimeSpan.Zero ? remaining : TimeSpan.Zero)
                    .ConfigureAwait(false);
                var mayPass = failure?.Status == GrpcStatus.Unavailable || failure?.Status == GrpcStatus.Internal;
                var next = mayPass ? engine.Configuration.RetryStrategy.Delay(attempt, delay) : null;
                if (next == null || next >= limit - Clock.Since(started))
                {
                    return failure;
                }
                delay = next.Value;
                var ms = TimeSpan.FromMilliseconds(Math.Ceiling(delay.TotalMilliseconds));
                await Task.Delay(ms, end).OrCancelled(end).ConfigureAwait(false);
            }
        }

        private async Task<Outcome?> ReopenAsync()
        {
            if (failures > 0)
            {
                var delay = engine.Configuration.ReconnectDelayAfter(failures - 1);
                await Task.Delay(delay, end).OrCancelled(end).ConfigureAwait(false);
                if (end.IsCancellationRequested)
                {
                    return null;
                }
            }
            var hasBegun = this.hasBegun;
            var failure = await OpenAsync(engine.Configuration.Deadline).ConfigureAwait(false);
            if (failure == null && hasBegun)
            {
                engine.NoteResume();
            }
            return failure;
        }

        /// <summary>Opens the stream, and reads its first event. Returns the failure, or null.</summary>
        private async Task<Outcome?> OpenAsync(TimeSpan limit)
        {
            var (opened, failure) = await engine.Streams
                .OpenAsync(source.Method, Wire.Frame(source.Request()), scope, limit, end)
                .ConfigureAwait(false);
            if (opened == null)
            {
                return failure;
            }
            Volatile.Write(ref stream, opened);
            hasBegun = true;
            return await NextAsync(limit).ConfigureAwait(false);
        }

        /// <summary>Reads the next event into <see cref="first"/>. Returns the failure, or null.</summary>
        private async Task<Outcome?> NextAsync(TimeSpan silenceMax)
        {
            var (reply, outcome) = await stream!.ReadAsync(silenceMax).ConfigureAwait(false);
            if (reply == null)
            {
                Broken?.Invoke();
                Drop();
                return outcome.Status == GrpcStatus.Ok
                    ? Outcome.Broken("the server ended the stream", null, true)
                    : outcome;
            }
            try
            {
                first = source.EventOf(reply.Value);
                failures = 0;
            }
            catch (BadReplyException exception)
            {
                Error = ErrorFactory.OfClient(
                    ErrorCode.Internal,
                    source.Method.Name,
                    exception.Message,
                    "use a server and a client of one version");
            }
            return null;
        }
    }
}
