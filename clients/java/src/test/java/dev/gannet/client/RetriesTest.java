package dev.gannet.client;

import static dev.gannet.client.Expect.error;
import static dev.gannet.client.Expect.got;
import static dev.gannet.client.Expect.success;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.dataformat.toml.TomlMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Retries and hedges, against a server that fails when a call asks it to. */
class RetriesTest {
    private static final String CACHE = "default";

    /** Returns a client whose calls of these methods fail this number of times. */
    private static CacheClient failing(String error, String methods, int count, Configuration configuration) {
        return Servers.client(Servers.shared(), configuration.withMetadata(Map.of(
                "request-id", UUID.randomUUID().toString(), "return-error", error, "error-rpcs", methods,
                "error-count", Integer.toString(count))));
    }

    private static Configuration laptop() {
        return Configurations.Laptop.v1().withMetrics(true);
    }

    @Test
    void idempotentCallIsRepeated() {
        for (String status : List.of("unavailable", "internal")) {
            try (CacheClient client = failing(status, "get", 3, laptop())) {
                assertInstanceOf(GetResult.Miss.class, got(client.get(CACHE, "retries none")));
                assertEquals(3, client.metrics().retries());
            }
        }
        try (CacheClient client = failing("unavailable", "get", 4, laptop())) {
            CacheError error = error(ErrorCode.UNAVAILABLE, client.get(CACHE, "retries none"));
            assertTrue(error.isRetryable());
            assertEquals(3, client.metrics().retries());
        }
    }

    @Test
    void callThatChangesMoreWhenRepeatedIsNotRepeated() {
        try (CacheClient client = failing("unavailable", "increment list-push-back", 1_000, laptop())) {
            error(ErrorCode.UNAVAILABLE, client.increment(CACHE, "retries n", 1));
            error(ErrorCode.UNAVAILABLE, client.listPushBack(CACHE, "retries l", "v"));
            assertEquals(0, client.metrics().retries());
        }
    }

    @Test
    void callsThatAreRepeatedDifferFromThoseOfOtherLanguages() throws IOException {
        JsonNode table = new TomlMapper().readTree(Servers.REPOSITORY.resolve("clients/calls.toml").toFile());
        Set<String> never = new TreeSet<>();
        table.get("never").forEach(each -> never.add(each.asText()));
        Set<String> once = new TreeSet<>();
        Set<String> often = new HashSet<>();
        for (Method<?, ?> each : Method.all()) {
            if (each != Methods.SUBSCRIBE && each != Methods.WATCH_KEYS) {
                (each.isIdempotent() ? often : once).add(each.name());
            }
        }
        assertEquals(never, once);
        // The forms that are not repeated are in no list; other tests send them.
        table.get("by_request").forEach(each -> assertTrue(often.contains(each.asText()), each.asText()));
    }

    @Test
    void errorThatWouldPersistIsNotRepeated() {
        Map<String, ErrorCode> codes = new HashMap<>(Map.of(
                "invalid-argument", ErrorCode.INVALID_ARGUMENT, "not-found", ErrorCode.NOT_FOUND_CACHE,
                "already-exists", ErrorCode.ALREADY_EXISTS, "failed-precondition", ErrorCode.FAILED_PRECONDITION,
                "permission-denied", ErrorCode.PERMISSION_DENIED, "unauthenticated", ErrorCode.UNAUTHENTICATED,
                "resource-exhausted", ErrorCode.LIMIT_EXCEEDED, "unimplemented", ErrorCode.UNIMPLEMENTED,
                "deadline-exceeded", ErrorCode.TIMEOUT, "unknown", ErrorCode.UNKNOWN));
        codes.putAll(Map.of("cancelled", ErrorCode.CANCELLED, "out-of-range", ErrorCode.INVALID_ARGUMENT,
                "aborted", ErrorCode.ABORTED, "data-loss", ErrorCode.INTERNAL));
        codes.forEach((status, code) -> {
            try (CacheClient client = failing(status, "get", 1, laptop())) {
                CacheError error = error(code, client.get(CACHE, "retries none"));
                boolean retryable = code == ErrorCode.TIMEOUT || code == ErrorCode.INTERNAL;
                assertEquals(retryable, error.isRetryable(), status);
                assertEquals(0, client.metrics().retries(), status);
                assertEquals(Map.of(code, 1L), client.metrics().methods().get("Get").errors());
            }
        });
    }

    /** Clients that repeat every request multiply the load of a server that is failing. */
    @Test
    void budgetBoundsRetriesOfManyRequests() {
        Configuration configuration = laptop().withRetryBudget(new RetryBudget(10, 5));
        try (CacheClient client = failing("unavailable", "get", 100_000, configuration)) {
            for (int at = 0; at < 100; at++) {
                error(ErrorCode.UNAVAILABLE, client.get(CACHE, "retries none"));
            }
            long retries = client.metrics().retries();
            assertTrue(retries >= 10 && retries <= 15, "retries: " + retries);
        }
    }

    @Test
    void strategiesRepeatUntilTheDeadline() {
        Configuration patient = laptop().withRetryBudget(new RetryBudget(100, 10_000));
        List<RetryStrategy> strategies = List.of(
                RetryStrategy.exponentialBackoff(),
                new RetryStrategy.FixedTimeout(Duration.ofMillis(10), Duration.ofSeconds(1)));
        for (RetryStrategy strategy : strategies) {
            try (CacheClient client = failing("unavailable", "get", 8, patient.withRetryStrategy(strategy))) {
                assertInstanceOf(GetResult.Miss.class, got(client.get(CACHE, "retries none")));
                assertEquals(8, client.metrics().retries());
            }
            try (CacheClient client = failing("unavailable", "get", 100_000, patient.withRetryStrategy(strategy))) {
                success(client.connect());
                long begun = System.nanoTime();
                GetResult.Error late = assertInstanceOf(GetResult.Error.class,
                        got(client.withDeadline(Duration.ofMillis(100)).get(CACHE, "retries none")));
                // The deadline passes during an attempt or during a delay.
                assertTrue(Set.of(ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT).contains(late.code()), late::message);
                assertTrue(System.nanoTime() - begun < 5_000_000_000L);
                assertTrue(client.metrics().retries() > 0);
            }
        }
    }

    /** A call whose strategy throws must complete, and release its place. */
    @Test
    void exceptionOfTheStrategyCompletesTheCall() {
        List<RetryStrategy> strategies = List.of(
                (retries, previous) -> {
                    throw new IllegalStateException("a fault of the strategy");
                },
                (retries, previous) -> {
                    throw new AssertionError("a fault of the strategy");
                },
                (retries, previous) -> null);
        for (RetryStrategy strategy : strategies) {
            try (CacheClient client = failing("unavailable", "get", 1, laptop().withRetryStrategy(strategy))) {
                CompletableFuture<GetResult> call = client.get(CACHE, "retries none");
                ExecutionException failure =
                        assertThrows(ExecutionException.class, () -> call.get(10, TimeUnit.SECONDS));
                assertNotNull(failure.getCause());
                assertInstanceOf(GetResult.Miss.class, got(client.get(CACHE, "retries none")));
                assertEquals(0, client.metrics().inFlight());
                assertEquals(Map.of(ErrorCode.UNAVAILABLE, 1L), client.metrics().methods().get("Get").errors());
            }
        }
    }

    @Test
    void attemptThatHangsIsGivenUpAndRepeated() {
        Configuration configuration = laptop()
                .withRetryStrategy(new RetryStrategy.FixedTimeout(Duration.ofMillis(1), Duration.ofMillis(100)))
                .withMetadata(Map.of("request-id", UUID.randomUUID().toString(), "delay-ms", "5000",
                        "delay-rpcs", "get", "delay-count", "1"));
        try (CacheClient client = Servers.client(Servers.shared(), configuration)) {
            long begun = System.nanoTime();
            assertInstanceOf(GetResult.Miss.class, got(client.get(CACHE, "retries none")));
            assertTrue(System.nanoTime() - begun < 4_000_000_000L);
            assertEquals(1, client.metrics().retries());
        }
    }

    @Test
    void delayedRetriesEndWhenTheClientCloses() {
        Configuration configuration = laptop()
                .withRetryStrategy(new RetryStrategy.FixedTimeout(Duration.ofSeconds(10), Duration.ofSeconds(1)));
        CacheClient client = failing("unavailable", "get", 100_000, configuration);
        CompletableFuture<GetResult> call = client.get(CACHE, "retries none");
        Servers.eventually("the call waits for its retry", () -> client.metrics().retries() == 1);
        client.close();
        error(ErrorCode.CANCELLED, call, "the client is closed");
    }

    @Test
    void slowGetIsSentAgainOnAnotherConnection() {
        try (Proxy proxy = new Proxy(Servers.shared().address(), at -> at == 0 ? 3_000 : 0);
                CacheClient client = CacheClient.create(Credentials.noToken(proxy.address()),
                        laptop().withHedging(Duration.ofMillis(20)), Duration.ofMinutes(1))) {
            long begun = System.nanoTime();
            assertInstanceOf(GetResult.Miss.class, got(client.get(CACHE, "retries none")));
            assertTrue(System.nanoTime() - begun < 2_500_000_000L);
            assertEquals(1, client.metrics().hedges());
            Servers.eventually("both places are free", () -> client.metrics().inFlight() == 0);
        }
    }

    @Test
    void budgetBoundsHedges() {
        Configuration configuration = laptop().withHedging(Duration.ofMillis(1))
                .withRetryBudget(new RetryBudget(0, 3))
                .withMetadata(
                        Map.of("request-id", UUID.randomUUID().toString(), "delay-ms", "30", "delay-rpcs", "get"));
        try (CacheClient client = Servers.client(Servers.shared(), configuration)) {
            List<CompletableFuture<GetResult>> calls = new ArrayList<>();
            for (int at = 0; at < 20; at++) {
                calls.add(client.get(CACHE, "retries none"));
            }
            calls.forEach(each -> assertInstanceOf(GetResult.Miss.class, got(each)));
            assertEquals(3, client.metrics().hedges());
            Servers.eventually("all places are free", () -> client.metrics().inFlight() == 0);
        }
    }

    /** Writes are never sent twice before their reply. */
    @Test
    void slowWriteIsNotHedged() {
        Configuration configuration = laptop().withHedging(Duration.ofMillis(1)).withMetadata(
                Map.of("request-id", UUID.randomUUID().toString(), "delay-ms", "50", "delay-rpcs", "set"));
        try (CacheClient client = Servers.client(Servers.shared(), configuration)) {
            success(client.set(CACHE, "retries k", "v"));
            assertEquals(0, client.metrics().hedges());
        }
    }

    @Test
    void jitterStaysWithinItsBounds() {
        RetryStrategy backoff = RetryStrategy.exponentialBackoff();
        Duration previous = Duration.ZERO;
        for (int retries = 0; retries < 200; retries++) {
            Duration delay = backoff.delay(retries, previous).orElseThrow();
            assertTrue(delay.compareTo(Duration.ofNanos(500_000)) >= 0 && delay.compareTo(Duration.ofSeconds(1)) <= 0);
            assertTrue(delay.toNanos() <= Math.max(500_000, 3 * previous.toNanos()));
            previous = delay;
        }
        for (int at = 0; at < 100; at++) {
            long ns = RetryStrategy.fixedTimeout().delay(0, Duration.ZERO).orElseThrow().toNanos();
            assertTrue(ns >= 90_000_000 && ns <= 110_000_000, "delay " + ns);
        }
        assertTrue(RetryStrategy.none().delay(0, Duration.ZERO).isEmpty());
    }

    /** GOAWAY of a server that stops must not lose calls that it executes. */
    @Test
    void callsSurviveTheOrderlyStopOfAServer() throws InterruptedException {
        Servers.Server own = Servers.own();
        try (CacheClient client = Servers.client(own, laptop())) {
            success(client.set(CACHE, "k", "v"));
            List<CompletableFuture<ListLengthResult>> pushes = new ArrayList<>();
            own.pause();
            for (int at = 0; at < 50; at++) {
                pushes.add(client.listPushBack(CACHE, "l", "v"));
            }
            // The requests are in the server's socket before it sees the signal.
            Servers.sleep(100);
            own.terminate();
            own.resume();
            List<Integer> lengths = new ArrayList<>();
            for (CompletableFuture<ListLengthResult> each : pushes) {
                if (got(each) instanceof ListLengthResult.Success success) {
                    lengths.add(success.length());
                } else {
                    error(ErrorCode.UNAVAILABLE, each);
                }
            }
            // A push that was executed twice would leave a gap.
            for (int at = 0; at < lengths.size(); at++) {
                assertEquals(at + 1, lengths.get(at));
            }
            assertTrue(own.hasEnded(Duration.ofSeconds(10)));
            own.start();
            Servers.eventually("the client finds the new server",
                    () -> got(client.get(CACHE, "k")) instanceof GetResult.Miss);
        } finally {
            own.kill();
        }
    }
}
