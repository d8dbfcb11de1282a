package dev.gannet.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * Calls one server. Any number of threads may use it at once. A program creates one client for each server, and retains
 * it: the bound of requests in flight holds for each client.
 *
 * <pre>{@code
 * try (CacheClient client = CacheClient.create(
 *         Credentials.noToken("127.0.0.1:7000"), Configurations.Laptop.latest(), Duration.ofHours(1))) {
 *     client.set("default", "greeting", "hello").join();
 *     GetResult found = client.get("default", "greeting").join();
 *     if (found instanceof GetResult.Hit hit) {
 *         System.out.println(hit.valueString());
 *     } else if (found instanceof GetResult.Error error) {
 *         System.err.println(error.message());
 *     }
 * }
 * }</pre>
 */
public final class CacheClient extends CacheCalls<String> implements AutoCloseable {
    /** The version of this library. */
    public static final String VERSION = "0.1.0";

    private CacheClient(Engine engine, Scope scope) {
        super(engine, scope, Codec.TEXT);
    }

    /**
     * Creates a client.
     *
     * <p>If the configuration connects eagerly, the call waits until all connections are open, at most for the deadline
     * of the configuration. It returns a usable client even if the server cannot be reached, so that a service starts
     * without its cache; {@link #connect()} reports the reason.
     *
     * @param defaultTtl the time to live of items that are written without one; at least 1 ms
     * @throws CacheException if an argument is wrong
     */
    public static CacheClient create(Credentials credentials, Configuration configuration, Duration defaultTtl) {
        configuration.check();
        if (Ttl.millisecondsOf(defaultTtl) < 1) {
            throw new CacheError(ErrorCode.INVALID_ARGUMENT, "cannot use defaultTtl " + defaultTtl, "it is below 1 ms",
                    "pass at least 1 ms", null).toException();
        }
        Scope scope = new Scope(Ttl.millisecondsOf(defaultTtl), Ttl.deadlineNsOf(configuration.deadline()));
        CacheClient client = new CacheClient(new Engine(credentials, configuration), scope);
        if (configuration.eagerConnect()) {
            // The error is not lost: the first calls report it, if it persists.
            client.connect().join();
        }
        return client;
    }

    /** Opens all connections. The error of the result is the reason why one cannot be opened. */
    public CompletableFuture<DoneResult> connect() {
        return engine.connect();
    }

    /** Returns a snapshot of the metrics. Those by method need {@link Configuration#withMetrics}. */
    public Metrics metrics() {
        return engine.metrics();
    }

    /** Ends all calls with the error {@link ErrorCode#CANCELLED}, and closes the connections. */
    @Override
    public void close() {
        engine.close();
    }
}
