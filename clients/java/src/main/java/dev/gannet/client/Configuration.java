package dev.gannet.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.function.Supplier;

/**
 * All settings of a client. It is immutable: each {@code with} method returns a changed copy, so that a configuration
 * of one's own is a preset with other values:
 *
 * <pre>{@code
 * Configuration configuration =
 *         Configurations.InRegion.Default.latest().withDeadline(Duration.ofMillis(300)).withRequestsInFlightMax(50);
 * }</pre>
 *
 * The comments of {@code clients/presets.toml} explain the values of the presets.
 */
public final class Configuration {
    /** Maximum number of connections of one client. Each has memory of its own. */
    private static final int CONNECTIONS_MAX = 1000;

    private Duration deadline;
    private int requestsInFlightMax;
    private int requestsQueuedMax;
    private int streamsPerConnection;
    private boolean eagerConnect;
    private Duration connectTimeout;
    private RetryStrategy retryStrategy;
    private RetryBudget retryBudget;
    private int messageBytesMax;
    private boolean metrics;
    private Duration keepaliveTime;
    private Duration keepaliveTimeout;
    private boolean keepaliveWithoutCalls;
    private Duration reconnectDelayMin;
    private Duration reconnectDelayMax;
    private Duration hedgeDelay = Duration.ZERO;
    private List<Middleware> middleware = List.of();
    private Executor executor = ForkJoinPool.commonPool();
    private Supplier<Map<String, String>> metadata = Map::of;

    private Configuration() {}

    Configuration(Preset preset) {
        deadline = Duration.ofMillis(preset.deadlineMs());
        requestsInFlightMax = preset.requestsInFlightMax();
        requestsQueuedMax = preset.requestsQueuedMax();
        streamsPerConnection = preset.streamsPerConnection();
        eagerConnect = preset.eagerConnect();
        keepaliveTime = Duration.ofMillis(preset.keepaliveTimeMs());
        keepaliveTimeout = Duration.ofMillis(preset.keepaliveTimeoutMs());
        keepaliveWithoutCalls = preset.keepaliveWithoutCalls();
        connectTimeout = Duration.ofMillis(preset.connectTimeoutMs());
        reconnectDelayMin = Duration.ofMillis(preset.reconnectDelayMinMs());
        reconnectDelayMax = Duration.ofMillis(preset.reconnectDelayMaxMs());
        retryStrategy = preset.strategy();
        retryBudget = new RetryBudget(preset.retryBudgetPercent(), preset.retryBudgetBurst());
        messageBytesMax = preset.messageBytesMax();
    }

    private Configuration copy() {
        Configuration copy = new Configuration();
        copy.deadline = deadline;
        copy.requestsInFlightMax = requestsInFlightMax;
        copy.requestsQueuedMax = requestsQueuedMax;
        copy.streamsPerConnection = streamsPerConnection;
        copy.eagerConnect = eagerConnect;
        copy.connectTimeout = connectTimeout;
        copy.retryStrategy = retryStrategy;
        copy.retryBudget = retryBudget;
        copy.messageBytesMax = messageBytesMax;
        copy.metrics = metrics;
        copy.keepaliveTime = keepaliveTime;
        copy.keepaliveTimeout = keepaliveTimeout;
        copy.keepaliveWithoutCalls = keepaliveWithoutCalls;
        copy.reconnectDelayMin = reconnectDelayMin;
        copy.reconnectDelayMax = reconnectDelayMax;
        copy.hedgeDelay = hedgeDelay;
        copy.middleware = middleware;
        copy.executor = executor;
        copy.metadata = metadata;
        return copy;
    }

    /**
     * Returns the time for one call, from its start to its result, with the wait in the client's queue and all
     * retries.
     */
    public Duration deadline() {
        return deadline;
    }

    /**
     * Returns the maximum number of requests that were sent and whose replies are awaited. Further ones wait in the
     * client.
     */
    public int requestsInFlightMax() {
        return requestsInFlightMax;
    }

    /** Returns the maximum number of requests that wait in the client. Further ones fail at once. */
    public int requestsQueuedMax() {
        return requestsQueuedMax;
    }

    /** Returns the maximum number of requests at once on one connection. */
    public int streamsPerConnection() {
        return streamsPerConnection;
    }

    /** Returns true if the client opens all connections when it is created. */
    public boolean eagerConnect() {
        return eagerConnect;
    }

    /** Returns the time for opening a connection. */
    public Duration connectTimeout() {
        return connectTimeout;
    }

    /** Returns the strategy by which calls are repeated whose repetition changes nothing. */
    public RetryStrategy retryStrategy() {
        return retryStrategy;
    }

    /** Returns the bound of retries and hedges together. */
    public RetryBudget retryBudget() {
        return retryBudget;
    }

    /** Returns the maximum size in bytes of a request and of a reply. */
    public int messageBytesMax() {
        return messageBytesMax;
    }

    /** Returns true if the client counts and times its calls by method. */
    public boolean metrics() {
        return metrics;
    }

    /** Returns a copy with another time for one call. */
    public Configuration withDeadline(Duration deadline) {
        Configuration changed = copy();
        changed.deadline = deadline;
        return changed;
    }

    /** Returns a copy with another maximum of requests in flight, and as many connections as it needs. */
    public Configuration withRequestsInFlightMax(int requestsInFlightMax) {
        Configuration changed = copy();
        changed.requestsInFlightMax = requestsInFlightMax;
        return changed;
    }

    /** Returns a copy with another maximum of requests that wait in the client. */
    public Configuration withRequestsQueuedMax(int requestsQueuedMax) {
        Configuration changed = copy();
        changed.requestsQueuedMax = requestsQueuedMax;
        return changed;
    }

    /** Returns a copy with another maximum of requests at once on one connection. The server refuses more than 100. */
    public Configuration withStreamsPerConnection(int streamsPerConnection) {
        Configuration changed = copy();
        changed.streamsPerConnection = streamsPerConnection;
        return changed;
    }

    /** Returns a copy with a client that opens its connections at once, or with the first requests. */
    public Configuration withEagerConnect(boolean eagerConnect) {
        Configuration changed = copy();
        changed.eagerConnect = eagerConnect;
        return changed;
    }

    /** Returns a copy with another time for opening a connection. */
    public Configuration withConnectTimeout(Duration connectTimeout) {
        Configuration changed = copy();
        changed.connectTimeout = connectTimeout;
        return changed;
    }

    /** Returns a copy with another retry strategy. */
    public Configuration withRetryStrategy(RetryStrategy retryStrategy) {
        Configuration changed = copy();
        changed.retryStrategy = retryStrategy;
        return changed;
    }

    /** Returns a copy with another bound of retries and hedges. */
    public Configuration withRetryBudget(RetryBudget retryBudget) {
        Configuration changed = copy();
        changed.retryBudget = retryBudget;
        return changed;
    }

    /** Returns a copy with another maximum size in bytes of a request and of a reply. */
    public Configuration withMessageBytesMax(int messageBytesMax) {
        Configuration changed = copy();
        changed.messageBytesMax = messageBytesMax;
        return changed;
    }

    /** Returns a copy with metrics by method, or without them. */
    public Configuration withMetrics(boolean metrics) {
        Configuration changed = copy();
        changed.metrics = metrics;
        return changed;
    }

    /** Returns the maximum number of connections: as many as {@link #requestsInFlightMax()} needs. */
    public int connectionsMax() {
        return (requestsInFlightMax + streamsPerConnection - 1) / streamsPerConnection;
    }

    /** Returns the time between two probes of a connection; zero turns them off. */
    public Duration keepaliveTime() {
        return keepaliveTime;
    }

    /** Returns the time without an answer to a probe after which a connection is closed. */
    public Duration keepaliveTimeout() {
        return keepaliveTimeout;
    }

    /** Returns true if connections without requests are probed too. */
    public boolean keepaliveWithoutCalls() {
        return keepaliveWithoutCalls;
    }

    /**
     * Returns a copy with other probes of connections; period zero turns them off. The kernel probes a silent
     * connection after this period if the platform has the option. HTTP/2 pings follow the same period, but gRPC sends
     * none more often than every 10 s.
     */
    public Configuration withKeepalive(Duration period, Duration timeout, boolean withoutCalls) {
        Configuration changed = copy();
        changed.keepaliveTime = period;
        changed.keepaliveTimeout = timeout;
        changed.keepaliveWithoutCalls = withoutCalls;
        return changed;
    }

    /** Returns the delay before the first attempt to reconnect. */
    public Duration reconnectDelayMin() {
        return reconnectDelayMin;
    }

    /** Returns the longest delay between two attempts to reconnect. */
    public Duration reconnectDelayMax() {
        return reconnectDelayMax;
    }

    /** Returns a copy with other delays between attempts to reconnect, which grow from the first to the second one. */
    public Configuration withReconnectDelay(Duration least, Duration greatest) {
        Configuration changed = copy();
        changed.reconnectDelayMin = least;
        changed.reconnectDelayMax = greatest;
        return changed;
    }

    /** Returns the time after which a get without a reply is sent a second time; zero if it never is. */
    public Duration hedgeDelay() {
        return hedgeDelay;
    }

    /**
     * Returns a copy that sends a get again if its reply takes longer than this time, and uses the reply that comes
     * first; zero turns hedging off. A good delay is the p99 of get: then 1 % of the requests are sent twice. The
     * second request uses another connection if there is one, never waits in the client's queue, and takes a token of
     * the retry budget.
     */
    public Configuration withHedging(Duration delay) {
        Configuration changed = copy();
        changed.hedgeDelay = delay;
        return changed;
    }

    /** Returns the middleware, in the order in which it runs before a call. */
    public List<Middleware> middleware() {
        return middleware;
    }

    /** Returns a copy with these objects after the present middleware. */
    public Configuration withMiddleware(Middleware... added) {
        List<Middleware> all = new ArrayList<>(middleware);
        all.addAll(List.of(added));
        Configuration changed = copy();
        changed.middleware = List.copyOf(all);
        return changed;
    }

    /** Returns the executor that completes the futures of calls. */
    public Executor executor() {
        return executor;
    }

    /**
     * Returns a copy with another executor that completes the futures of calls, and so runs what depends on them. The
     * default is the common pool. {@code Runnable::run} completes them on the threads that read from the network,
     * which costs least: then no code that depends on a call may block, because all calls would wait for it.
     */
    public Configuration withExecutor(Executor completing) {
        Configuration changed = copy();
        changed.executor = Objects.requireNonNull(completing);
        return changed;
    }

    Map<String, String> metadata() {
        return metadata.get();
    }

    /** Returns a copy whose calls have this metadata too. */
    Configuration withMetadata(Map<String, String> added) {
        return withMetadata(() -> added);
    }

    /** Returns a copy whose calls have this metadata too, by which tests ask a server for faults. */
    Configuration withMetadata(Supplier<Map<String, String>> added) {
        Configuration changed = copy();
        changed.metadata = added;
        return changed;
    }

    /** Throws a CacheException that names the first unusable setting. */
    void check() {
        atLeast("deadline in ns", Ttl.deadlineNsOf(deadline), 1);
        atMost("keepaliveTime", keepaliveTime);
        atMost("keepaliveTimeout", keepaliveTimeout);
        atMost("connectTimeout", connectTimeout);
        atMost("reconnectDelayMin", reconnectDelayMin);
        atMost("reconnectDelayMax", reconnectDelayMax);
        atMost("hedgeDelay", hedgeDelay);
        atMost("retryStrategy.responseTimeout", retryStrategy.responseTimeout());
        atLeast("requestsInFlightMax", requestsInFlightMax, 1);
        atLeast("requestsQueuedMax", requestsQueuedMax, 0);
        atLeast("streamsPerConnection", streamsPerConnection, 1);
        long connections = ((long) requestsInFlightMax + streamsPerConnection - 1) / streamsPerConnection;
        if (connections > CONNECTIONS_MAX) {
            throw new CacheError(ErrorCode.INVALID_ARGUMENT, "cannot use configuration",
                    "requestsInFlightMax is " + requestsInFlightMax + ", which needs " + connections + " connections",
                    "pass less: a client has at most " + CONNECTIONS_MAX + " connections", null).toException();
        }
        atLeast("messageBytesMax", messageBytesMax, 1);
        atLeast("keepaliveTime in ns", keepaliveTime.toNanos(), 0);
        atLeast("keepaliveTimeout in ns", keepaliveTimeout.toNanos(), 0);
        atLeast("connectTimeout in ms", connectTimeout.toMillis(), 1);
        atLeast("reconnectDelayMin in ms", reconnectDelayMin.toMillis(), 1);
        atLeast("reconnectDelayMax in ms", reconnectDelayMax.toMillis(), reconnectDelayMin.toMillis());
        atLeast("hedgeDelay in ns", hedgeDelay.toNanos(), 0);
        atLeast("retryBudget.burst", retryBudget.burst(), 0);
    }

    private static void atMost(String name, Duration value) {
        if (value.compareTo(Ttl.LONGEST_DEADLINE) > 0) {
            throw new CacheError(ErrorCode.INVALID_ARGUMENT, "cannot use configuration",
                    name + " is " + value + ", above " + Ttl.LONGEST_DEADLINE, "pass a shorter time", null)
                    .toException();
        }
    }

    private static void atLeast(String name, long value, long least) {
        if (value < least) {
            throw new CacheError(ErrorCode.INVALID_ARGUMENT, "cannot use configuration",
                    name + " is " + value + ", below " + least,
                    "begin with a preset such as Configurations.Laptop.latest(), and change it by its with methods",
                    null).toException();
        }
    }
}
