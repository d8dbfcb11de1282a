using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>
    /// Sends the requests of one client within the cap, repeats failed ones, and observes calls.
    /// <code>
    ///     caller -> Before (middleware) -> queue -> connection -> reply -> result
    ///                                        ^                      |
    ///                                        +---- delay &lt;- retry &lt;-+
    /// </code>
    /// Threads: calls run on those of their callers and of the thread pool. The locks of the limiter, of a connection
    /// and of the retry budget are never held while another one is taken, nor across a wait.
    /// </summary>
    internal sealed class ClientEngine
    {
        private const string Disposed = "the client is disposed of";
        private const string CreateNew = "create a new client";

        private readonly CancellationTokenSource closed = new CancellationTokenSource();
        private readonly TaskCompletionSource<bool> drained =
            new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);

        private readonly Connection[] connections;
        private readonly Limiter<Connection> limiter;
        private readonly TokenBucket budget;
        private readonly Recorder? recorder;
        private readonly IReadOnlyList<Middleware> middleware;
        private long retries;
        private long hedges;
        private long resumes;

        // The calls that have no result yet, and one for the client itself until it is disposed of.
        private int pending = 1;
        private int isDisposed;

        public ClientEngine(Target target, Configuration configuration)
        {
            Target = target;
            Configuration = configuration;
            connections = Enumerable.Range(0, configuration.ConnectionsMax)
                .Select(_ => new Connection(target, configuration)).ToArray();
            limiter = new Limiter<Connection>(
                connections,
                configuration.RequestsInFlightMax,
                configuration.RequestsQueuedMax,
                configuration.StreamsPerConnection);
            budget = new TokenBucket(configuration.RetryBudget);
            recorder = configuration.Metrics ? new Recorder() : null;
            middleware = configuration.Middleware;
            Streams = new StreamPool(target, configuration);
        }

        public Target Target { get; }

        public Configuration Configuration { get; }

        /// <summary>The connections of subscriptions and watches.</summary>
        public StreamPool Streams { get; }

        /// <summary>The copies of values, or null without a near cache.</summary>
        public NearCache? Near { get; private set; }

        /// <summary>Cancelled when the client is disposed of.</summary>
        public CancellationToken Closed => closed.Token;

        /// <summary>
        /// The time without an event after which a stream counts as broken: three heartbeats of the server.
        /// </summary>
        public TimeSpan StreamSilenceMax { get; set; } = TimeSpan.FromSeconds(15);

        /// <summary>A snapshot of the metrics.</summary>
        public Metrics Metrics
        {
            get
            {
                var (inFlight, queued) = limiter.Counts;
                return new Metrics(
                    inFlight,
                    queued,
                    closed.IsCancellationRequested ? 0 : connections.Length,
                    Streams.Count,
                    Interlocked.Read(ref resumes),
                    Interlocked.Read(ref retries),
                    Interlocked.Read(ref hedges),
                    recorder?.Snapshot() ?? new Dictionary<string, MethodMetrics>(),
                    Near?.Metrics);
            }
        }

        /// <summary>
        /// Opens all connections, and returns true if they are open before the time has passed. With
        /// <paramref name="once"/>, makes one attempt only.
        /// </summary>
        public async Task<bool> ConnectAsync(TimeSpan timeout, bool once, CancellationToken cancellation)
        {
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(closed.Token, cancellation);
            limit.CancelAfter(timeout);
            var opened = await Task.WhenAll(
                connections.Select(each => OpenAsync(each, once, limit.Token))).ConfigureAwait(false);
            cancellation.ThrowIfCancellationRequested();
            return opened.All(each => each);
        }

        /// <summary>Ends all calls, closes the connections, and waits until the calls have ended.</summary>
        public Task CloseAsync()
        {
            if (Interlocked.Exchange(ref isDisposed, 1) == 0)
            {
                closed.Cancel();
                foreach (var connection in connections)
                {
                    connection.Dispose();
                }
                Streams.Close();
                Leave();
            }
            return drained.Task;
        }

        /// <summary>Executes a call. The server sends <paramref name="expected"/> replies.</summary>
        public Task<TResult> CallAsync<TResult>(
            Call<TResult> call,
            byte[] frame,
            Scope scope,
            TimeSpan? deadline,
            CancellationToken cancellation,
            int expected = 1)
        {
            var limit = LimitOf(deadline);
            var execution = new Execution(call, frame, scope, expected, limit, cancellation);
            return recorder == null && middleware.Count == 0 ? RunAsync(execution, call) : ObserveAsync(
                execution, call);
        }

        /// <summary>Starts the near cache of the client's cache if the configuration has one.</summary>
        public void BeginNearCache(Scope scope)
        {
            if (Configuration.NearCache is NearCacheSettings settings)
            {
                Near = new NearCache(this, scope, settings);
                _ = Task.Run(Near.WatchAsync);
            }
        }

        /// <summary>Counts a stream that was continued after it broke.</summary>
        public void NoteResume() => Interlocked.Increment(ref resumes);

        /// <summary>Returns the time for a call. Throws if it is out of its range.</summary>
        public TimeSpan LimitOf(TimeSpan? deadline)
        {
            var limit = deadline ?? Configuration.Deadline;
            return limit >= TimeSpan.Zero && limit <= TimeSpan.FromMilliseconds(int.MaxValue)
                ? limit
                : throw new ArgumentOutOfRangeException(
                    nameof(deadline),
                    $"cannot use deadline {limit}: it is out of range; give a time from zero to 24 days");
        }

        private static async Task<bool> OpenAsync(Connection connection, bool once, CancellationToken limit)
        {
            while (true)
            {
                var attempt = connection.ConnectAsync();
                if (!await attempt.OrCancelled(limit).ConfigureAwait(false))
                {
                    return false;
                }
                if ((await attempt.ConfigureAwait(false)).Transport != null)
                {
                    return true;
                }
                if (once || limit.IsCancellationRequested)
                {
                    return false;
                }
                await Task.Delay(TimeSpan.FromMilliseconds(10), limit).OrCancelled(limit).ConfigureAwait(false);
            }
        }

        private void Leave()
        {
            if (Interlocked.Decrement(ref pending) == 0)
            {
                drained.TrySetResult(true);
            }
        }

        private async Task<TResult> ObserveAsync<TResult>(Execution execution, Call<TResult> call)
        {
            var started = Stopwatch.GetTimestamp();
            var start = new CallStart(call.Name, execution.Scope.Cache, execution.Frame.Length - Wire.HeadSize);
            foreach (var each in middleware)
            {
                each.Before(start);
            }
            var result = await RunAsync(execution, call).ConfigureAwait(false);
            var duration = Clock.Since(started);
            var error = (result as IErrorResult)?.Details;
            recorder?.Record(call.Name, duration, error);
            if (middleware.Count > 0)
            {
                var end = new CallEnd(
                    start, error, duration, Clock.TimeOf(execution.QueuedTicks), execution.Retries, execution.IsHedged);
                for (var at = middleware.Count - 1; at >= 0; at--)
                {
                    middleware[at].After(end);
                }
            }
            return result;
        }

        private async Task<TResult> RunAsync<TResult>(Execution execution, Call<TResult> call)
        {
            Interlocked.Increment(ref pending);
            try
            {
                budget.Add();
                while (true)
                {
                    var connection = limiter.Acquire(out var waiter);
                    if (connection == null)
                    {
                        connection = waiter == null ? null : await WaitAsync(execution, waiter).ConfigureAwait(false);
                        if (connection == null)
                        {
                            return call.Fail(NotSent(execution, waiter == null));
                        }
                    }
                    var outcome = await AttemptAsync(execution, connection).ConfigureAwait(false);
                    if (execution.Refusal != null)
                    {
                        return call.Fail(execution.Refusal);
                    }
                    if (outcome.Status == GrpcStatus.Ok)
                    {
                        return Parse(call, outcome);
                    }
                    if (!await RetriesAsync(execution, outcome).ConfigureAwait(false))
                    {
                        var bytes = execution.Frame.Length - Wire.HeadSize;
                        return call.Fail(execution.Refusal
                            ?? ErrorFactory.OfOutcome(
                                outcome, call.Method, Target, bytes, execution.AttemptLimit));
                    }
                }
            }
            finally
            {
                Leave();
            }
        }

        private static TResult Parse<TResult>(Call<TResult> call, Outcome outcome)
        {
            try
            {
                return call.Parse(outcome.Replies);
            }
            catch (BadReplyException exception)
            {
                return call.Fail(ErrorFactory.OfClient(
                    ErrorCode.Internal, call.Name, exception.Message, "use a server and a client of one version"));
            }
        }

        /// <summary>Waits in the queue. Returns null if the call ended there.</summary>
        private async Task<Connection?> WaitAsync(Execution execution, Waiter<Connection> waiter)
        {
            var entered = Stopwatch.GetTimestamp();
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(closed.Token, execution.Cancellation);
            limit.CancelAfter(execution.Remaining);
            using var registration = limit.Token.Register(() => limiter.Leave(waiter));
            var connection = await waiter.Granted.ConfigureAwait(false);
            execution.QueuedTicks += Stopwatch.GetTimestamp() - entered;
            return connection;
        }

        /// <summary>Returns the error of a request that no connection was granted to.</summary>
        private CacheError NotSent(Execution execution, bool isFull)
        {
            var name = execution.Call.Name;
            if (Ended(execution) is CacheError error)
            {
                return error;
            }
            return isFull
                ? ErrorFactory.OfClient(
                    ErrorCode.ClientQueueFull,
                    name,
                    $"{Configuration.RequestsQueuedMax} requests wait in the client's queue, which is its maximum")
                : ErrorFactory.OfClient(
                    ErrorCode.ClientQueueTimeout,
                    name,
                    "the deadline passed while the request waited in the client's queue");
        }

        /// <summary>
        /// Returns the error of a call that its caller cancelled or whose client is disposed of, or null.
        /// </summary>
        private CacheError? Ended(Execution execution) => Ended(execution.Call.Name, execution.Cancellation);

        /// <summary>
        /// Returns the error of a call that was cancelled, or whose client is disposed of, or null.
        /// </summary>
        public CacheError? Ended(string method, CancellationToken cancellation) =>
            closed.IsCancellationRequested ? ErrorFactory.OfClient(ErrorCode.Cancelled, method, Disposed, CreateNew)
            : cancellation.IsCancellationRequested
                ? ErrorFactory.OfClient(ErrorCode.Cancelled, method, "the caller cancelled it")
            : null;

        /// <summary>
        /// Sends the request on a connection, which it releases. Sets the refusal if the call ends here.
        /// </summary>
        private ValueTask<Outcome> AttemptAsync(Execution execution, Connection connection)
        {
            if (Configuration.HedgingDelay is TimeSpan delay && execution.Call.IsHedged)
            {
                return new ValueTask<Outcome>(HedgedAsync(execution, connection, delay));
            }
            return SendAsync(execution, connection, default);
        }

        private async ValueTask<Outcome> SendAsync(Execution execution, Connection connection, CancellationToken loser)
        {
            CancellationTokenSource? cancellation = null;
            Transport? transport = null;
            try
            {
                transport = connection.Ready;
                if (transport == null)
                {
                    var opened = await OpenAsync(execution, connection, loser).ConfigureAwait(false);
                    transport = opened.Transport;
                    if (transport == null)
                    {
                        return opened.Failure;
                    }
                }
                var limit = LimitOf(execution);
                if (limit <= TimeSpan.Zero)
                {
                    execution.Refusal = ErrorFactory.OfClient(
                        ErrorCode.ClientQueueTimeout,
                        execution.Call.Name,
                        "the deadline passed before the request was sent");
                    return Outcome.Failed(GrpcStatus.DeadlineExceeded, string.Empty);
                }
                cancellation = loser.CanBeCanceled
                    ? CancellationTokenSource.CreateLinkedTokenSource(transport.Broken, execution.Cancellation, loser)
                    : CancellationTokenSource.CreateLinkedTokenSource(transport.Broken, execution.Cancellation);
                cancellation.CancelAfter(limit);
                // Rounded up: the client's own timer ends the call.
                var ms = (limit.Ticks + TimeSpan.TicksPerMillisecond - 1) / TimeSpan.TicksPerMillisecond;
                var outcome = await transport
                    .SendAsync(
                        Target.UriOf(execution.Call.Method),
                        execution.Frame,
                        execution.Scope,
                        ms,
                        execution.Expected,
                        cancellation.Token)
                    .ConfigureAwait(false);
                if (outcome.Exception != null)
                {
                    connection.Suspect(transport);
                }
                return outcome;
            }
            catch (OperationCanceledException) when (cancellation != null)
            {
                return OfCancellation(execution, transport!);
            }
            finally
            {
                cancellation?.Dispose();
                limiter.Release(connection);
            }
        }

        /// <summary>Returns the time that one attempt may take.</summary>
        private TimeSpan LimitOf(Execution execution)
        {
            var remaining = execution.Remaining;
            if (Configuration.RetryStrategy.ResponseTimeout is TimeSpan response && response < remaining)
            {
                execution.AttemptLimit = response;
                return response;
            }
            execution.AttemptLimit = execution.Limit;
            return remaining;
        }

        /// <summary>
        /// Returns the outcome of an attempt that was cancelled: by the caller, the client, or a timer.
        /// </summary>
        private Outcome OfCancellation(Execution execution, Transport transport)
        {
            if (Ended(execution) is CacheError error)
            {
                execution.Refusal = error;
                return Outcome.Failed(GrpcStatus.Cancelled, string.Empty);
            }
            return transport.Broken.IsCancellationRequested
                ? Outcome.Broken(transport.Cause, null, true)
                : Outcome.Failed(GrpcStatus.DeadlineExceeded, string.Empty);
        }

        /// <summary>
        /// Waits until the connection is open, the attempt to open it has failed, or the call has ended.
        /// </summary>
        private async Task<Opened> OpenAsync(Execution execution, Connection connection, CancellationToken loser)
        {
            var opening = connection.ConnectAsync();
            if (!opening.IsCompleted)
            {
                using var limit = CancellationTokenSource.CreateLinkedTokenSource(
                    closed.Token, execution.Cancellation, loser);
                limit.CancelAfter(execution.Remaining);
                if (!await opening.OrCancelled(limit.Token).ConfigureAwait(false))
                {
                    if (!loser.IsCancellationRequested)
                    {
                        execution.Refusal = Ended(execution)
                            ?? ErrorFactory.NoConnection(execution.Call.Name, Target, execution.Limit);
                    }
                    return new Opened(Outcome.Failed(GrpcStatus.DeadlineExceeded, string.Empty));
                }
            }
            if (Ended(execution) is CacheError error)
            {
                execution.Refusal = error;
                return new Opened(Outcome.Failed(GrpcStatus.Cancelled, string.Empty));
            }
            return await opening.ConfigureAwait(false);
        }

        /// <summary>
        /// Sends the request, and again if no reply arrives within the delay. The first good outcome decides, or the
        /// last bad one. The other request is cancelled, and awaited, so that its place is free.
        /// </summary>
        private async Task<Outcome> HedgedAsync(Execution execution, Connection connection, TimeSpan delay)
        {
            using var loser = new CancellationTokenSource();
            var first = SendAsync(execution, connection, loser.Token).AsTask();
            using (var timer = CancellationTokenSource.CreateLinkedTokenSource(loser.Token))
            {
                timer.CancelAfter(delay);
                if (await first.OrCancelled(timer.Token).ConfigureAwait(false))
                {
                    return await first.ConfigureAwait(false);
                }
            }
            var other = limiter.AcquireBeside(connection);
            if (other == null || !budget.Take())
            {
                if (other != null)
                {
                    limiter.Release(other);
                }
                return await first.ConfigureAwait(false);
            }
            Interlocked.Increment(ref hedges);
            execution.IsHedged = true;
            var second = SendAsync(execution, other, loser.Token).AsTask();
            var winner = await Task.WhenAny(first, second).ConfigureAwait(false);
            var slower = winner == first ? second : first;
            var outcome = await winner.ConfigureAwait(false);
            if (outcome.Status != GrpcStatus.Ok)
            {
                return await slower.ConfigureAwait(false);
            }
            loser.Cancel();
            await slower.ConfigureAwait(false);
            return outcome;
        }

        /// <summary>
        /// Decides about a retry, and waits for its time. Returns false if the call ends with the outcome.
        /// </summary>
        private async Task<bool> RetriesAsync(Execution execution, Outcome outcome)
        {
            var strategy = Configuration.RetryStrategy;
            var gaveUp = strategy.ResponseTimeout != null && outcome.Status == GrpcStatus.DeadlineExceeded;
            // After these statuses, the server did not execute the request, or failed.
            var mayRepeat = outcome.Status == GrpcStatus.Unavailable || outcome.Status == GrpcStatus.Internal || gaveUp;
            if (!execution.Call.IsIdempotent || !mayRepeat)
            {
                return false;
            }
            var delay = strategy.Delay(execution.Retries, execution.PreviousDelay);
            if (delay == null || delay.Value >= execution.Remaining || !budget.Take())
            {
                return false;
            }
            execution.Retries++;
            execution.PreviousDelay = delay.Value;
            Interlocked.Increment(ref retries);
            if (delay.Value > TimeSpan.Zero)
            {
                using var limit = CancellationTokenSource.CreateLinkedTokenSource(closed.Token, execution.Cancellation);
                // Timers round down to whole milliseconds.
                var ms = Math.Ceiling(delay.Value.TotalMilliseconds);
                await Task.Delay(TimeSpan.FromMilliseconds(ms), limit.Token).OrCancelled(
                    limit.Token).ConfigureAwait(false);
            }
            execution.Refusal = Ended(execution);
            return execution.Refusal == null;
        }
    }

    /// <summary>The state of one call.</summary>
    internal sealed class Execution
    {
        private readonly long deadline;

        public Execution(
            Call call, byte[] frame, Scope scope, int expected, TimeSpan limit, CancellationToken cancellation)
        {
            Call = call;
            Frame = frame;
            Scope = scope;
            Expected = expected;
            Limit = AttemptLimit = limit;
            deadline = Stopwatch.GetTimestamp() + Clock.TicksOf(limit);
            Cancellation = cancellation;
        }

        public Call Call { get; }

        public byte[] Frame { get; }

        public Scope Scope { get; }

        /// <summary>Number of replies.</summary>
        public int Expected { get; }

        public CancellationToken Cancellation { get; }

        /// <summary>The time of the call.</summary>
        public TimeSpan Limit { get; }

        /// <summary>The time that ended the latest attempt: that of the call, or of the retry strategy.</summary>
        public TimeSpan AttemptLimit { get; set; }

        public int Retries { get; set; }

        public TimeSpan PreviousDelay { get; set; }

        public long QueuedTicks { get; set; }

        public bool IsHedged { get; set; }

        /// <summary>The error with which the client itself ends the call.</summary>
        public CacheError? Refusal { get; set; }

        /// <summary>The time until the deadline, at least zero.</summary>
        public TimeSpan Remaining
        {
            get
            {
                var ticks = deadline - Stopwatch.GetTimestamp();
                return ticks > 0 ? Clock.TimeOf(ticks) : TimeSpan.Zero;
            }
        }
    }

    internal static class TaskExtensions
    {
        /// <summary>Waits for a task, and returns false if the token is cancelled first. Does not throw.</summary>
        public static async Task<bool> OrCancelled(this Task task, CancellationToken cancellation)
        {
            if (!task.IsCompleted)
            {
                var cancelled = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
                using var registration = cancellation.Register(() => cancelled.TrySetResult(true));
                await Task.WhenAny(task, cancelled.Task).ConfigureAwait(false);
            }
            return task.IsCompleted && !task.IsCanceled;
        }
    }
}
