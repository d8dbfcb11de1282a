using System;
using System.Collections.Generic;
using System.Linq;

namespace Gannet.Client
{
    /// <summary>
    /// All settings of a client. Immutable: each <c>With</c> method returns a changed copy. <see
    /// cref="Configurations"/> has presets, from which a configuration of your own starts.
    /// </summary>
    public sealed class Configuration
    {
        // The longest timer of .NET.
        // Each connection has memory of its own.
        private const int ConnectionsOfClientMax = 1000;

        private static readonly TimeSpan TimerMax = TimeSpan.FromMilliseconds(int.MaxValue);

        /// <summary>
        /// Creates a configuration with these two settings, and all others as in <c>Laptop.V1()</c>.
        /// </summary>
        /// <param name="deadline">The time for one call, with the wait in the client's queue and all retries.</param>
        /// <param name="requestsInFlightMax">The maximum number of requests whose replies are awaited.</param>
        /// <exception cref="ArgumentOutOfRangeException">A setting is out of its range.</exception>
        public Configuration(TimeSpan deadline, int requestsInFlightMax)
            : this(Preset.Versions["Laptop.v1"])
        {
            Deadline = deadline;
            RequestsInFlightMax = requestsInFlightMax;
            Check();
        }

        internal Configuration(Preset preset)
        {
            Deadline = Milliseconds(preset.DeadlineMs);
            RequestsInFlightMax = preset.RequestsInFlightMax;
            RequestsQueuedMax = preset.RequestsQueuedMax;
            StreamsPerConnection = preset.StreamsPerConnection;
            EagerConnect = preset.EagerConnect;
            KeepaliveTime = Milliseconds(preset.KeepaliveTimeMs);
            KeepaliveTimeout = Milliseconds(preset.KeepaliveTimeoutMs);
            KeepaliveWithoutCalls = preset.KeepaliveWithoutCalls;
            ConnectTimeout = Milliseconds(preset.ConnectTimeoutMs);
            ReconnectDelayMin = Milliseconds(preset.ReconnectDelayMinMs);
            ReconnectDelayMax = Milliseconds(preset.ReconnectDelayMaxMs);
            RetryStrategy = StrategyOf(preset);
            RetryBudget = new RetryBudget(preset.RetryBudgetPercent, preset.RetryBudgetBurst);
            MessageBytesMax = preset.MessageBytesMax;
            Check();
        }

        /// <summary>
        /// The time for one call, from its start to its result, with the wait in the queue and all retries.
        /// </summary>
        public TimeSpan Deadline { get; private set; }

        /// <summary>
        /// The maximum number of requests that were sent and whose replies are awaited. Further ones wait in the
        /// client.
        /// </summary>
        public int RequestsInFlightMax { get; private set; }

        /// <summary>The maximum number of requests that wait in the client. Further ones fail at once.</summary>
        public int RequestsQueuedMax { get; private set; }

        /// <summary>The maximum number of requests at once on one connection.</summary>
        public int StreamsPerConnection { get; private set; }

        /// <summary>The maximum number of connections: as many as <see cref="RequestsInFlightMax"/> needs.</summary>
        public int ConnectionsMax =>
            (int)(((long)RequestsInFlightMax + StreamsPerConnection - 1) / StreamsPerConnection);

        /// <summary>True to open all connections when the client is created.</summary>
        public bool EagerConnect { get; private set; }

        /// <summary>The time between two checks of a connection; zero turns them off.</summary>
        public TimeSpan KeepaliveTime { get; private set; }

        /// <summary>The time without an answer to a check after which the connection is closed.</summary>
        public TimeSpan KeepaliveTimeout { get; private set; }

        /// <summary>True to check connections without requests too.</summary>
        public bool KeepaliveWithoutCalls { get; private set; }

        /// <summary>The time for opening a connection, after which the attempt has failed.</summary>
        public TimeSpan ConnectTimeout { get; private set; }

        /// <summary>The delay before the first attempt to reconnect after a failed one.</summary>
        public TimeSpan ReconnectDelayMin { get; private set; }

        /// <summary>The longest delay between two attempts to reconnect.</summary>
        public TimeSpan ReconnectDelayMax { get; private set; }

        /// <summary>The strategy by which calls are repeated whose repetition changes nothing.</summary>
        public RetryStrategy RetryStrategy { get; private set; }

        /// <summary>The bound of retries and hedges together.</summary>
        public RetryBudget RetryBudget { get; private set; }

        /// <summary>
        /// The time after which a get without a reply is sent a second time; null turns hedging off. A good delay is
        /// the p99 of get: then 1 % of the requests are sent twice. The second request uses another connection if there
        /// is one, never waits in the client's queue, and takes a token of the retry budget.
        /// </summary>
        public TimeSpan? HedgingDelay { get; private set; }

        /// <summary>The maximum size in bytes of a request and of a reply.</summary>
        public int MessageBytesMax { get; private set; }

        /// <summary>Objects that are called before and after each call, the first one outermost.</summary>
        public IReadOnlyList<Middleware> Middleware { get; private set; } = Array.Empty<Middleware>();

        /// <summary>True to count and time the calls.</summary>
        public bool Metrics { get; private set; }

        /// <summary>The bounds of the near cache; null for none.</summary>
        public NearCacheSettings? NearCache { get; private set; }

        /// <summary>Returns a copy with another time for one call.</summary>
        /// <param name="deadline">The time.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is not positive.</exception>
        public Configuration WithDeadline(TimeSpan deadline) => With(copy => copy.Deadline = deadline);

        /// <summary>
        /// Returns a copy with another maximum of requests in flight, and as many connections as it needs.
        /// </summary>
        /// <param name="requestsInFlightMax">The maximum.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The maximum is below 1.</exception>
        public Configuration WithRequestsInFlightMax(int requestsInFlightMax) =>
            With(copy => copy.RequestsInFlightMax = requestsInFlightMax);

        /// <summary>Returns a copy with another maximum of requests that wait in the client.</summary>
        /// <param name="requestsQueuedMax">The maximum.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The maximum is negative.</exception>
        public Configuration WithRequestsQueuedMax(int requestsQueuedMax) =>
            With(copy => copy.RequestsQueuedMax = requestsQueuedMax);

        /// <summary>Returns a copy with another maximum of requests at once on one connection.</summary>
        /// <param name="streamsPerConnection">The maximum; the server allows 100.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The maximum is below 1.</exception>
        public Configuration WithStreamsPerConnection(int streamsPerConnection) =>
            With(copy => copy.StreamsPerConnection = streamsPerConnection);

        /// <summary>Returns a copy that opens its connections at once, or with the first requests.</summary>
        /// <param name="eagerConnect">True to open them at once.</param>
        /// <returns>The copy.</returns>
        public Configuration WithEagerConnect(bool eagerConnect) => With(copy => copy.EagerConnect = eagerConnect);

        /// <summary>Returns a copy with other checks of connections.</summary>
        /// <param name="time">The time between two checks; zero turns them off.</param>
        /// <param name="timeout">The time for an answer; 1 s if it is null.</param>
        /// <param name="withoutCalls">True to check connections without requests too.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A time is negative, or the timeout not positive.</exception>
        public Configuration WithKeepalive(TimeSpan time, TimeSpan? timeout =
            null, bool withoutCalls = true) => With(copy =>
        {
            copy.KeepaliveTime = time;
            copy.KeepaliveTimeout = timeout ?? TimeSpan.FromSeconds(1);
            copy.KeepaliveWithoutCalls = withoutCalls;
        });

        /// <summary>Returns a copy with another time for opening a connection.</summary>
        /// <param name="connectTimeout">The time.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is not positive.</exception>
        public Configuration WithConnectTimeout(TimeSpan connectTimeout) =>
            With(copy => copy.ConnectTimeout = connectTimeout);

        /// <summary>Returns a copy with other delays before attempts to reconnect.</summary>
        /// <param name="min">The delay before the first attempt.</param>
        /// <param name="max">The longest delay.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">
        /// A delay is not positive, or the longest one is the shorter.
        /// </exception>
        public Configuration WithReconnectDelay(TimeSpan min, TimeSpan max) => With(copy =>
        {
            copy.ReconnectDelayMin = min;
            copy.ReconnectDelayMax = max;
        });

        /// <summary>Returns a copy with another retry strategy.</summary>
        /// <param name="retryStrategy">The strategy.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentNullException">The strategy is null.</exception>
        public Configuration WithRetryStrategy(RetryStrategy retryStrategy) =>
            With(copy => copy.RetryStrategy = retryStrategy ?? throw new ArgumentNullException(nameof(retryStrategy)));

        /// <summary>Returns a copy with another bound of retries and hedges.</summary>
        /// <param name="retryBudget">The bound.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentNullException">The bound is null.</exception>
        public Configuration WithRetryBudget(RetryBudget retryBudget) =>
            With(copy => copy.RetryBudget = retryBudget ?? throw new ArgumentNullException(nameof(retryBudget)));

        /// <summary>Returns a copy that sends a get again if its reply takes longer.</summary>
        /// <param name="delay">The delay; null turns hedging off.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The delay is negative.</exception>
        public Configuration WithHedging(TimeSpan? delay) => With(copy => copy.HedgingDelay = delay);

        /// <summary>Returns a copy with another maximum size of a request and of a reply.</summary>
        /// <param name="messageBytesMax">The size in bytes.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The size is below 1.</exception>
        public Configuration WithMessageBytesMax(int messageBytesMax) =>
            With(copy => copy.MessageBytesMax = messageBytesMax);

        /// <summary>Returns a copy with these objects after the present middleware.</summary>
        /// <param name="middleware">The objects.</param>
        /// <returns>The copy.</returns>
        public Configuration WithMiddleware(params Middleware[] middleware) =>
            With(copy => copy.Middleware = Array.AsReadOnly(copy.Middleware.Concat(middleware).ToArray()));

        /// <summary>
        /// Returns a copy whose client keeps copies of the values that <c>GetAsync</c> reads, in the cache that it is
        /// created for. The server reports changes of keys, which drop the copies: a copy is stale for the time of a
        /// report, and for 15 s at most if the network path is silent. Own changes are seen at once.
        /// </summary>
        /// <param name="entriesMax">The maximum number of copies.</param>
        /// <param name="bytesMax">The maximum size of keys and values, with 128 bytes for each copy.</param>
        /// <param name="prefixes">The prefixes of the keys that are copied, at most 256; none for all keys.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentException">A bound is below 1, or there are too many prefixes.</exception>
        public Configuration WithNearCache(int entriesMax, long bytesMax, params string[] prefixes)
        {
            var settings = new NearCacheSettings(entriesMax, bytesMax, Bytes.ListOf(prefixes));
            return With(copy => copy.NearCache = settings);
        }

        /// <summary>Returns a copy whose client counts and times its calls, or does not.</summary>
        /// <param name="metrics">True to count and time them.</param>
        /// <returns>The copy.</returns>
        public Configuration WithMetrics(bool metrics = true) => With(copy => copy.Metrics = metrics);

        /// <summary>Returns the delay before an attempt to reconnect after this number of earlier failures.</summary>
        internal TimeSpan ReconnectDelayAfter(int attempts)
        {
            var longest = ReconnectDelayMin * Math.Pow(2, Math.Min(attempts, 30));
            var delay = longest < ReconnectDelayMax ? longest : ReconnectDelayMax;
            return delay * (0.8 + (0.2 * Jitter.Next()));
        }

        private static TimeSpan Milliseconds(int value) => TimeSpan.FromMilliseconds(value);

        private static RetryStrategy StrategyOf(Preset preset) => preset.RetryStrategy switch
        {
            "fixed_count" => (RetryStrategy)new FixedCount(preset.RetryCount),
            "fixed_timeout" => new FixedTimeout(),
            "exponential_backoff" => new ExponentialBackoff(),
            "no_retry" => new NoRetry(),
            _ => throw new ArgumentException(
                $"cannot read preset: retry_strategy '{preset.RetryStrategy}' is unknown; regenerate it"),
        };

        private Configuration With(Action<Configuration> change)
        {
            var copy = (Configuration)MemberwiseClone();
            change(copy);
            copy.Check();
            return copy;
        }

        private void Check()
        {
            RequireAtLeast(nameof(RequestsInFlightMax), RequestsInFlightMax, 1);
            RequireAtLeast(nameof(RequestsQueuedMax), RequestsQueuedMax, 0);
            RequireAtLeast(nameof(StreamsPerConnection), StreamsPerConnection, 1);
            RequireAtLeast(nameof(MessageBytesMax), MessageBytesMax, 1);
            Require(
                ConnectionsMax <= ConnectionsOfClientMax,
                nameof(RequestsInFlightMax),
                RequestsInFlightMax,
                $"give less: it needs {ConnectionsMax} connections, and a client has at most {ConnectionsOfClientMax}");
            RequirePositive(nameof(Deadline), Deadline);
            RequirePositive(nameof(KeepaliveTimeout), KeepaliveTimeout);
            RequirePositive(nameof(ConnectTimeout), ConnectTimeout);
            RequirePositive(nameof(ReconnectDelayMin), ReconnectDelayMin);
            Require(
                KeepaliveTime >= TimeSpan.Zero && KeepaliveTime <= TimerMax,
                nameof(KeepaliveTime),
                KeepaliveTime,
                "give zero or a positive time");
            Require(
                ReconnectDelayMax >= ReconnectDelayMin && ReconnectDelayMax <= TimerMax,
                nameof(ReconnectDelayMax),
                ReconnectDelayMax,
                "give at least ReconnectDelayMin");
            Require(
                HedgingDelay == null || (HedgingDelay >= TimeSpan.Zero && HedgingDelay <= TimerMax),
                nameof(HedgingDelay),
                HedgingDelay,
                "give at least zero, or null");
        }

        private static void RequireAtLeast(string name, int value, int least) =>
            Require(value >= least, name, value, $"give at least {least}");

        private static void RequirePositive(string name, TimeSpan value) =>
            Require(value > TimeSpan.Zero && value <= TimerMax, name, value, "give a positive time of at most 24 days");

        private static void Require(bool holds, string name, object? value, string remedy)
        {
            if (!holds)
            {
                throw new ArgumentOutOfRangeException(name, $"cannot use configuration: {name} is {value}; {remedy}");
            }
        }
    }
}
