package dev.gannet.client;

import static dev.gannet.client.Expect.error;
import static dev.gannet.client.Expect.got;
import static dev.gannet.client.Expect.success;
import static dev.gannet.client.Servers.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** The bounds of a client: requests in flight, queue, connections, deadlines, and its end. */
class LimitsTest {
    private static final String CACHE = "default";

    private static Configuration laptop() {
        return Configurations.Laptop.v1().withMetrics(true);
    }

    private static CacheClient client(Proxy proxy, Configuration configuration) {
        return CacheClient.create(Credentials.noToken(proxy.address()), configuration, Duration.ofMinutes(1));
    }

    @Test
    void manyRequestsShareFewConnections() {
        try (Proxy proxy = new Proxy(Servers.shared().address(), at -> 0);
                CacheClient client = client(proxy, laptop().withRequestsInFlightMax(150))) {
            success(client.set(CACHE, "few", "v"));
            assertEquals(1, proxy.accepted(), "one request needs one connection");
            List<CompletableFuture<GetResult>> calls = new ArrayList<>();
            for (int at = 0; at < 5_000; at++) {
                calls.add(client.get(CACHE, "few"));
                Metrics metrics = client.metrics();
                assertTrue(metrics.inFlight() <= 150, metrics::toString);
            }
            calls.forEach(each -> assertInstanceOf(GetResult.Hit.class, got(each)));
            assertTrue(proxy.accepted() <= 2, "connections: " + proxy.accepted());
            Metrics metrics = client.metrics();
            assertEquals(0, metrics.inFlight() + metrics.queued());
            assertEquals(2, metrics.connections());
            assertEquals(5_000, metrics.methods().get("Get").calls());
            assertTrue(metrics.methods().get("Get").p50().compareTo(metrics.methods().get("Get").p999()) <= 0);
        }
    }

    @Test
    void eagerClientOpensAllConnectionsAtOnce() {
        try (Proxy proxy = new Proxy(Servers.shared().address(), at -> 0);
                CacheClient client = client(proxy, Configurations.InRegion.Default.v1())) {
            assertEquals(4, proxy.accepted());
            success(client.set(CACHE, "eager", "v"));
            proxy.cut();
            eventually("all connections are open again without a call", () -> proxy.accepted() == 8);
            eventually("calls succeed", () -> got(client.get(CACHE, "eager")) instanceof GetResult.Hit);
        }
    }

    @Test
    void lazyClientOpensNoConnection() {
        try (Proxy proxy = new Proxy(Servers.shared().address(), at -> 0);
                CacheClient client = client(proxy, laptop())) {
            Servers.sleep(50);
            assertEquals(0, proxy.accepted());
            success(client.connect());
            assertEquals(2, proxy.accepted());
        }
    }

    @Test
    void deadlineHoldsWhileTheConnectionOpens() {
        try (Servers.Server own = Servers.own();
                CacheClient client = Servers.client(own, laptop())) {
            own.pause();
            long begun = System.nanoTime();
            error(ErrorCode.TIMEOUT, client.withDeadline(Duration.ofMillis(200)).get(CACHE, "k"));
            assertTrue(System.nanoTime() - begun >= 190_000_000L);
            eventually("the place is free", () -> client.metrics().inFlight() == 0);
        }
    }

    @Test
    void cancelledRequestsReleaseTheirPlaces() {
        try (Servers.Server own = Servers.own();
                CacheClient client = Servers.client(own, laptop().withRequestsInFlightMax(1))) {
            success(client.set(CACHE, "k", "v"));
            own.pause();
            CompletableFuture<GetResult> sent = client.get(CACHE, "k");
            CompletableFuture<GetResult> queued = client.get(CACHE, "k");
            CompletableFuture<GetResult> last = client.get(CACHE, "k");
            eventually("two wait", () -> client.metrics().queued() == 2);
            assertTrue(queued.cancel(true));
            assertTrue(sent.cancel(true));
            assertThrows(CancellationException.class, sent::join);
            assertThrows(CancellationException.class, queued::join);
            eventually("the last one is in flight", () -> client.metrics().queued() == 0);
            assertEquals(1, client.metrics().inFlight());
            own.resume();
            assertInstanceOf(GetResult.Hit.class, got(last));
            assertEquals(Map.of(ErrorCode.CANCELLED, 2L), client.metrics().methods().get("Get").errors());
            assertFalse(last.cancel(true));
        }
    }

    /** {@code orTimeout} of the JDK completes a future from outside: its request must not stay in flight. */
    @Test
    void callThatTheCallerGivesUpReleasesItsPlace() {
        try (Servers.Server own = Servers.own();
                CacheClient client = Servers.client(own, laptop())) {
            success(client.set(CACHE, "k", "v"));
            own.pause();
            CompletableFuture<GetResult> call = client.get(CACHE, "k").orTimeout(50, TimeUnit.MILLISECONDS);
            CompletionException thrown = assertThrows(CompletionException.class, call::join);
            assertInstanceOf(TimeoutException.class, thrown.getCause());
            eventually("the place is free", () -> client.metrics().inFlight() == 0);
            own.resume();
        }
    }

    @Test
    void closedClientEndsAllCalls() {
        try (Servers.Server own = Servers.own()) {
            CacheClient client = Servers.client(own, laptop().withRequestsInFlightMax(1));
            success(client.set(CACHE, "k", "v"));
            own.pause();
            CompletableFuture<GetResult> sent = client.get(CACHE, "k");
            CompletableFuture<GetResult> queued = client.get(CACHE, "k");
            client.close();
            error(ErrorCode.CANCELLED, sent, "the client is closed");
            error(ErrorCode.CANCELLED, queued, "the client is closed");
            error(ErrorCode.CANCELLED, client.get(CACHE, "k"), "create a new client");
            error(ErrorCode.CANCELLED, client.connect());
            client.close();
        }
    }

    /** Each request that fails at once passes its place to the next one, on the same stack if nothing prevents it. */
    @Test
    void longQueueFailsAtOnceWhenTheServerIsKilled() {
        Servers.Server own = Servers.own();
        try (CacheClient client = Servers.client(own, laptop().withRequestsInFlightMax(1).withRetryStrategy(
                RetryStrategy.none()))) {
            success(client.set(CACHE, "k", "v"));
            own.pause();
            List<CompletableFuture<GetResult>> calls = new ArrayList<>();
            for (int at = 0; at < 10_000; at++) {
                calls.add(client.get(CACHE, "k"));
            }
            own.kill();
            calls.forEach(each -> error(ErrorCode.UNAVAILABLE, each));
            assertEquals(0, client.metrics().inFlight() + client.metrics().queued());
        }
    }

    /** A request that is sent and fails before its caller has begun the wait in the queue has the timers of both. */
    @Test
    void timersOfTheQueueAndOfRetriesAreApart() {
        Configuration configuration = laptop().withRequestsInFlightMax(1).withDeadline(Duration.ofHours(2))
                .withRetryStrategy(new RetryStrategy.FixedTimeout(Duration.ofHours(1), Duration.ofMinutes(1)));
        Servers.Server own = Servers.own();
        try (CacheClient client = Servers.client(own, configuration)) {
            success(client.set(CACHE, "k", "v"));
            own.pause();
            CompletableFuture<GetResult> first = client.get(CACHE, "k");
            ScheduledThreadPoolExecutor timers = client.engine.timers;
            timers.setCorePoolSize(timers.getPoolSize() + timers.getQueue().size() + 10);
            Thread caller = Thread.currentThread();
            AtomicBoolean isKilled = new AtomicBoolean();
            ThreadFactory threads = timers.getThreadFactory();
            // The thread that begins a timer starts a thread of the pool.
            timers.setThreadFactory(work -> {
                if (Thread.currentThread() == caller && isKilled.compareAndSet(false, true)) {
                    own.kill();
                    eventually("both are repeated later", () -> client.engine.delayed.size() == 2);
                    eventually("the queue and both retries have timers", () -> longTimers(timers) == 3);
                }
                return threads.newThread(work);
            });
            CompletableFuture<GetResult> second = client.get(CACHE, "k");
            assertTrue(isKilled.get());
            assertEquals(2, longTimers(timers));
            assertTrue(second.cancel(true));
            assertEquals(1, longTimers(timers));
            assertTrue(first.cancel(true));
            assertEquals(0, longTimers(timers));
        }
    }

    private static long longTimers(ScheduledThreadPoolExecutor timers) {
        return timers.getQueue().stream().filter(each -> each instanceof Delayed timer
                && timer.getDelay(TimeUnit.MINUTES) >= 30).count();
    }

    @Test
    void resultsAreCompletedByTheExecutor() {
        ExecutorService executor = Executors.newSingleThreadExecutor(work -> new Thread(work, "own executor"));
        try (CacheClient client = Servers.client(Servers.shared(), laptop().withExecutor(executor))) {
            List<String> threads = new ArrayList<>();
            // The call may end before the action is added, which then runs on this thread: so hold the executor.
            CompletableFuture<Void> gate = new CompletableFuture<>();
            executor.execute(gate::join);
            CompletableFuture<Void> seen = client.get(CACHE, "none")
                    .thenAccept(result -> threads.add(Thread.currentThread().getName()));
            gate.complete(null);
            got(seen);
            assertEquals(List.of("own executor"), threads);
            executor.shutdown();
            // An executor that refuses work must not lose results.
            assertEquals(new GetResult.Miss(), got(client.get(CACHE, "none")));
        }
    }

    @Test
    void requestAboveTheLimitIsNotSent() {
        try (CacheClient client = Servers.client(Servers.shared(), laptop().withMessageBytesMax(1_000))) {
            error(ErrorCode.LIMIT_EXCEEDED, client.set(CACHE, "k", "v".repeat(1_000)),
                    "above the maximum of 1000 bytes", "raise messageBytesMax to at most 10485760 bytes");
            try (CacheClient other = Servers.client(Servers.shared(), laptop())) {
                success(other.set(CACHE, "large", "v".repeat(2_000)));
                success(other.set(CACHE, "huge", "v".repeat(1_000_000)));
                assertEquals(1_000_000, ((GetResult.Hit) got(other.get(CACHE, "huge"))).value().size());
            }
            error(ErrorCode.LIMIT_EXCEEDED, client.get(CACHE, "large"), "the reply is longer than the maximum of 1000",
                    "read less in one call, or raise messageBytesMax");
        }
    }

    @Test
    void limitsOfTheServerNameTheSizeAndTheRemedy() {
        try (CacheClient client = Servers.client(Servers.shared(), laptop())) {
            error(ErrorCode.LIMIT_EXCEEDED, client.set(CACHE, "long", "v".repeat(2_000_000)),
                    "item size limit exceeded", "the request has 20000", "by --item-max of the server");
            // The maximum of a message is fixed.
            CacheError error = error(ErrorCode.LIMIT_EXCEEDED, client.set(CACHE, "long", "v".repeat(12_000_000)),
                    "the request has 120000", "above the maximum of 10485760 bytes");
            assertEquals("send less in one call", error.remedy());
        }
    }

    @Test
    void middlewareSurroundsEachCall() {
        List<String> events = new ArrayList<>();
        class Named implements Middleware {
            private final String name;

            Named(String name) {
                this.name = name;
            }

            @Override
            public synchronized Object before(CallStart start) {
                assertTrue(start.requestBytes() > 0);
                events.add(name + " before " + start.method() + " " + start.cache());
                return name + " context";
            }

            @Override
            public synchronized void after(CallEnd end, Object context) {
                assertFalse(end.duration().isZero());
                events.add(context + " after " + end.method() + " " + end.error().map(CacheError::code).orElse(null));
            }
        }
        Configuration configuration = laptop().withMiddleware(new Named("a")).withMiddleware(new Named("b"));
        try (CacheClient client = Servers.client(Servers.shared(), configuration)) {
            got(client.get(CACHE, "none"));
            got(client.get("absent", "none"));
        }
        assertEquals(List.of(
                "a before Get default", "b before Get default", "b context after Get null", "a context after Get null",
                "a before Get absent", "b before Get absent", "b context after Get NOT_FOUND_CACHE",
                "a context after Get NOT_FOUND_CACHE"), events);
    }

    /** A result must arrive even if the code of the user fails. */
    @Test
    void middlewareThatThrowsLosesNoResult() {
        Map<String, Boolean> seen = new ConcurrentHashMap<>();
        Middleware failing = new Middleware() {
            @Override
            public Object before(CallStart start) {
                return null;
            }

            @Override
            public void after(CallEnd end, Object context) {
                seen.put(end.method(), true);
                throw new IllegalStateException("a failure of the test's middleware");
            }
        };
        try (CacheClient client = Servers.client(Servers.shared(), laptop().withMiddleware(failing))) {
            assertEquals(new GetResult.Miss(), got(client.get(CACHE, "none")));
            assertEquals(Map.of("Get", true), seen);
        }
    }

    @Test
    void quantilesOfLatenciesAreCloseToTheValues() {
        Histogram histogram = new Histogram();
        for (int at = 1; at <= 100_000; at++) {
            histogram.record(at * 1_000L);
        }
        Histogram.Quantiles quantiles = histogram.quantiles(0.5, 0.99, 0.999);
        assertEquals(100_000, quantiles.count());
        long[] values = {50_000_000, 99_000_000, 99_900_000};
        for (int at = 0; at < values.length; at++) {
            double ratio = (double) quantiles.ends()[at] / values[at];
            assertTrue(ratio >= 1 && ratio <= 1 + 1.0 / 64, "ratio " + ratio);
        }
        assertEquals(0, new Histogram().quantiles(0.5).ends()[0]);
        histogram.record(Long.MAX_VALUE);
        histogram.record(-1);
        assertEquals(100_002, histogram.quantiles(0.5).count());
    }
}
