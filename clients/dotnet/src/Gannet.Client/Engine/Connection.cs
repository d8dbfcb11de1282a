using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>The end of an attempt to open a connection: its transport, or the failure.</summary>
    internal readonly struct Opened
    {
        public Opened(Transport transport)
        {
            Transport = transport;
            Failure = default;
        }

        public Opened(Outcome failure)
        {
            Transport = null;
            Failure = failure;
        }

        /// <summary>The open connection, or null.</summary>
        public Transport? Transport { get; }

        /// <summary>The failure if there is no transport.</summary>
        public Outcome Failure { get; }
    }

    /// <summary>
    /// One connection to the server, which is opened again after it has failed.
    /// <code>
    ///     idle ---- first request ----> connecting ---- reply to a check ----> ready
    ///      ^                                |                                    |
    ///      |                             failure                     failure of a request,
    ///      |                                v                        silence after a check
    ///      +------- delay is over ------- failed                                 |
    ///      +---------------------------------------------------------------------+
    /// </code>
    /// A check is the call of gRPC's health service, which needs no token. The runtime opens a connection with its
    /// first request, and reports neither this nor its end. In the state "failed", requests fail at once, until the
    /// delay is over.
    /// </summary>
    internal sealed class Connection : IStreams, IDisposable
    {
        private const string CheckPath = "/grpc.health.v1.Health/Check";
        private static readonly byte[] CheckFrame = new byte[Wire.HeadSize];
        private static readonly Scope CheckScope = new Scope(string.Empty, null) { IsOfUser = false };

        private readonly object mutex = new object();
        private readonly Target target;
        private readonly Uri checkUri;
        private readonly Configuration configuration;
        private readonly Timer? keepalive;
        private Transport? transport;
        private volatile Transport? ready;
        private Task<Opened>? connecting;
        private Outcome failure;
        private int failures;
        private long retryAt;
        private int isChecking;
        private bool isDisposed;

        public Connection(Target target, Configuration configuration)
        {
            this.target = target;
            checkUri = new Uri(target.Base + CheckPath);
            this.configuration = configuration;
            if (configuration.KeepaliveTime > TimeSpan.Zero && !Handlers.PingsConnections(configuration))
            {
                // Half of the time, so that a silent connection is checked at most 1.5 times after it. A weak
                // reference:
                // the timer does not keep a client alive that was forgotten.
                var self = new WeakReference<Connection>(this);
                var period = TimeSpan.FromTicks(
                    Math.Max(TimeSpan.TicksPerMillisecond, configuration.KeepaliveTime.Ticks / 2));
                keepalive = new Timer(state => Tick((WeakReference<Connection>)state), self, period, period);
            }
        }

        /// <inheritdoc/>
        public int InFlight { get; set; }

        /// <summary>The transport if the connection is open, or null.</summary>
        public Transport? Ready => ready;

        /// <summary>
        /// Opens the connection unless it is open. Returns the failure of the latest attempt if the delay before the
        /// next one is not over.
        /// </summary>
        public Task<Opened> ConnectAsync()
        {
            lock (mutex)
            {
                if (isDisposed)
                {
                    return Task.FromResult(new Opened(Outcome.Broken("the client was disposed of", null, false)));
                }
                if (ready != null)
                {
                    return Task.FromResult(new Opened(ready));
                }
                if (connecting == null)
                {
                    if (failures > 0 && Stopwatch.GetTimestamp() < retryAt)
                    {
                        return Task.FromResult(new Opened(failure));
                    }
                    transport ??= new Transport(target, configuration);
                    var current = transport;
                    connecting = Task.Run(() => AttemptAsync(current));
                }
                return connecting;
            }
        }

        /// <summary>Reports that a request failed: the next one checks the connection first.</summary>
        public void Suspect(Transport failed)
        {
            lock (mutex)
            {
                if (ready == failed)
                {
                    ready = null;
                }
            }
        }

        public void Dispose()
        {
            Transport? last;
            lock (mutex)
            {
                isDisposed = true;
                ready = null;
                last = transport;
                transport = null;
            }
            keepalive?.Dispose();
            last?.Dispose();
        }

        private async Task<Opened> AttemptAsync(Transport current)
        {
            var outcome = await CheckAsync(current, configuration.ConnectTimeout).ConfigureAwait(false);
            Transport? ended = null;
            lock (mutex)
            {
                connecting = null;
                if (transport != current)
                {
                    return new Opened(Outcome.Broken(current.Cause, null, false));
                }
                if (IsAlive(outcome))
                {
                    failures = 0;
                    ready = current;
                }
                else
                {
                    failure = outcome;
                    retryAt = Stopwatch.GetTimestamp() + Clock.TicksOf(configuration.ReconnectDelayAfter(failures++));
                    // A socket that is still connecting ends with its handler.
                    ended = transport;
                    transport = null;
                }
            }
            ended?.Break(outcome.Details);
            return ended == null ? new Opened(current) : new Opened(outcome);
        }

        /// <summary>Returns true if the server has replied as gRPC does, whatever the status.</summary>
        private static bool IsAlive(Outcome outcome) => outcome.Status != GrpcStatus.Unavailable;

        private async Task<Outcome> CheckAsync(Transport current, TimeSpan timeout)
        {
            using var cancellation = CancellationTokenSource.CreateLinkedTokenSource(current.Broken);
            cancellation.CancelAfter(timeout);
            try
            {
                return await current
                    .SendAsync(checkUri, CheckFrame, CheckScope, (long)timeout.TotalMilliseconds, 1, cancellation.Token)
                    .ConfigureAwait(false);
            }
            catch (OperationCanceledException)
            {
                return Outcome.Broken(ErrorFactory.ConnectTimeout, null, false);
            }
        }

        private static void Tick(WeakReference<Connection> self)
        {
            if (self.TryGetTarget(out var connection))
            {
                _ = connection.KeepaliveAsync();
            }
        }

        /// <summary>
        /// Checks a connection on which nothing has arrived for some time, and gives it up if the check gets no reply.
        /// A connection without a free stream is not checked: its requests end by their deadlines.
        /// </summary>
        private async Task KeepaliveAsync()
        {
            var current = ready;
            if (current == null || Clock.Since(current.LastReply) < configuration.KeepaliveTime
                || (InFlight == 0
                    && !configuration.KeepaliveWithoutCalls) || InFlight >= configuration.StreamsPerConnection
                || Interlocked.Exchange(ref isChecking, 1) != 0)
            {
                return;
            }
            try
            {
                var outcome = await CheckAsync(current, configuration.KeepaliveTimeout).ConfigureAwait(false);
                if (!IsAlive(outcome))
                {
                    GiveUp(current);
                }
            }
            finally
            {
                Volatile.Write(ref isChecking, 0);
            }
        }

        private void GiveUp(Transport silent)
        {
            lock (mutex)
            {
                if (transport != silent || ready != silent)
                {
                    return;
                }
                transport = null;
                ready = null;
            }
            silent.Break(ErrorFactory.KeepaliveTimeout);
        }
    }
}
