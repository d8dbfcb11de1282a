package dev.gannet.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.dataformat.toml.TomlMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Plays the scenarios that all client libraries share; {@code conformance/clients/scenarios} describes them. */
class ScenariosTest {
    private static final Path FOLDER = Servers.REPOSITORY.resolve("conformance/clients/scenarios");

    /** The keys that a step may have. A step with another one is not played. */
    private static final Set<String> STEP_KEYS = Set.of(
            "arguments", "at_least_ms", "at_most_ms", "cache", "call", "cancel", "deadline_ms", "expect", "finish",
            "metrics", "server", "start", "wait_ms", "within_ms");

    @TestFactory
    Stream<DynamicTest> scenarios() throws IOException {
        List<Path> paths;
        try (Stream<Path> files = Files.list(FOLDER)) {
            paths = files.filter(path -> path.toString().endsWith(".toml")).sorted().toList();
        }
        assertTrue(paths.size() >= 12, "scenarios in " + FOLDER);
        return paths.stream().map(path -> DynamicTest.dynamicTest(path.getFileName().toString(), () -> {
            JsonNode scenario = new TomlMapper().readTree(path.toFile());
            assertTrue(scenario.hasNonNull("name") && scenario.path("steps").size() > 0, "a scenario has steps");
            try (Servers.Server server = Servers.own();
                    CacheClient client = Servers.client(server, configuration(scenario.path("client")))) {
                new Player(server, client).play(scenario);
            }
        }));
    }

    private static Configuration configuration(JsonNode changes) {
        Configuration configuration =
                Configurations.named(changes.path("preset").asText("Laptop.v1")).withMetrics(true);
        for (Map.Entry<String, JsonNode> each : changes.properties()) {
            int number = each.getValue().asInt();
            configuration = switch (each.getKey()) {
                case "preset" -> configuration;
                case "deadline_ms" -> configuration.withDeadline(Duration.ofMillis(number));
                case "requests_in_flight_max" -> configuration.withRequestsInFlightMax(number);
                case "requests_queued_max" -> configuration.withRequestsQueuedMax(number);
                case "retry_count" -> configuration.withRetryStrategy(
                        number == 0 ? RetryStrategy.none() : RetryStrategy.fixedCount(number));
                default -> throw new AssertionError("unknown change of the preset: " + each.getKey());
            };
        }
        return configuration;
    }

    /** A started call, and the instant of its result. */
    private static final class Started {
        final long begun = System.nanoTime();
        final CompletableFuture<?> call;
        volatile long ended;

        Started(CompletableFuture<?> call) {
            this.call = call;
            call.whenComplete((result, thrown) -> ended = System.nanoTime());
        }
    }

    /** Executes the steps of one scenario. */
    private static final class Player {
        private final Servers.Server server;
        private final CacheClient client;
        private final Map<String, Started> started = new HashMap<>();

        Player(Servers.Server server, CacheClient client) {
            this.server = server;
            this.client = client;
        }

        void play(JsonNode scenario) throws Exception {
            int number = 0;
            for (JsonNode step : scenario.get("steps")) {
                number++;
                try {
                    step(step);
                } catch (AssertionError e) {
                    throw new AssertionError("step " + number + " " + step + ": " + e.getMessage(), e);
                }
            }
            assertTrue(started.isEmpty(), "all started calls are finished");
        }

        private void step(JsonNode step) throws Exception {
            step.fieldNames().forEachRemaining(key -> assertTrue(STEP_KEYS.contains(key), "unknown key: " + key));
            if (step.has("server")) {
                switch (step.get("server").asText()) {
                    case "pause" -> server.pause();
                    case "resume" -> server.resume();
                    case "kill" -> server.kill();
                    case "start" -> server.start();
                    default -> throw new AssertionError("unknown action of the server");
                }
            } else if (step.has("wait_ms")) {
                Servers.sleep(step.get("wait_ms").asLong());
            } else if (step.has("metrics")) {
                within(2_000, () -> compareMetrics(step.get("metrics")));
            } else if (step.has("cancel")) {
                assertTrue(started.get(step.get("cancel").asText()).call.cancel(true), "the call is cancelled");
            } else if (step.has("finish")) {
                finish(step, started.remove(step.get("finish").asText()));
            } else if (step.has("start")) {
                int before = pending();
                started.put(step.get("start").asText(), new Started(call(step)));
                within(5_000, () -> assertEquals(before + 1, pending(), "pending calls"));
            } else {
                within(step.path("within_ms").asLong(0), () -> finish(step, new Started(call(step))));
            }
        }

        private interface Attempt {
            void run() throws Exception;
        }

        /** Repeats an attempt until it succeeds, for at most this time. */
        private static void within(long ms, Attempt attempt) throws Exception {
            long end = System.nanoTime() + ms * 1_000_000;
            while (true) {
                try {
                    attempt.run();
                    return;
                } catch (AssertionError e) {
                    if (System.nanoTime() >= end) {
                        throw e;
                    }
                }
                Servers.sleep(5);
            }
        }

        private int pending() {
            Metrics metrics = client.metrics();
            return metrics.inFlight() + metrics.queued();
        }

        private void compareMetrics(JsonNode want) {
            Metrics metrics = client.metrics();
            Map<String, Integer> have = Map.of("in_flight", metrics.inFlight(), "queued", metrics.queued());
            want.properties().forEach(
                    each -> assertEquals(each.getValue().asInt(), have.get(each.getKey()), each.getKey()));
        }

        private static void finish(JsonNode step, Started started) throws Exception {
            Map<String, Object> have;
            try {
                have = fields(started.call.get(30, TimeUnit.SECONDS));
            } catch (CancellationException e) {
                have = Map.of("type", "error", "code", "CANCELLED");
            } catch (TimeoutException | ExecutionException e) {
                throw new AssertionError("the call did not end with a result", e);
            }
            JsonNode expect = step.get("expect");
            for (Map.Entry<String, JsonNode> each : expect.properties()) {
                if (each.getKey().equals("remaining_ms_max")) {
                    Duration remaining = (Duration) have.get("remaining");
                    assertTrue(!remaining.isZero() && remaining.toMillis() <= each.getValue().asLong(),
                            "the time to live is " + remaining);
                } else {
                    assertEquals(value(each.getValue()), have.get(each.getKey()), each.getKey() + " in " + have);
                }
            }
            while (started.ended == 0) {
                Servers.sleep(1);
            }
            long tookMs = (started.ended - started.begun) / 1_000_000;
            if (step.has("at_least_ms")) {
                assertTrue(tookMs >= step.get("at_least_ms").asLong(), "the call took " + tookMs + " ms");
            }
            if (step.has("at_most_ms")) {
                assertTrue(tookMs <= step.get("at_most_ms").asLong(), "the call took " + tookMs + " ms");
            }
        }

        private CompletableFuture<?> call(JsonNode step) {
            JsonNode arguments = step.path("arguments");
            String cache = step.path("cache").asText("default");
            String key = arguments.path("key").asText();
            String value = arguments.path("value").asText();
            CacheCalls<String> calls = step.has("deadline_ms")
                    ? client.withDeadline(Duration.ofMillis(step.get("deadline_ms").asLong()))
                    : client;
            SetOption[] ttl = arguments.has("ttl_ms")
                    ? new SetOption[] {Ttl.of(Duration.ofMillis(arguments.get("ttl_ms").asLong()))}
                    : new SetOption[0];
            return switch (step.get("call").asText()) {
                case "get" -> calls.get(cache, key);
                case "set" -> calls.set(cache, key, value, ttl);
                case "get_batch" -> calls.getBatch(cache, texts(arguments.get("keys")));
                case "set_batch" -> calls.setBatch(cache, textMap(arguments.get("items")), ttl);
                case "delete" -> calls.delete(cache, key);
                case "increment" -> calls.increment(cache, key, arguments.get("amount").asLong());
                case "set_if_absent" -> calls.setIfAbsent(cache, key, value);
                case "get_ttl" -> calls.getTtl(cache, key);
                case "list_push_back" -> calls.listPushBack(cache, key, value);
                case "list_fetch" -> calls.listFetch(cache, key);
                case "dictionary_set_fields" ->
                    calls.dictionarySetFields(cache, key, textMap(arguments.get("fields")));
                case "dictionary_fetch" -> calls.dictionaryFetch(cache, key);
                case "set_add_elements" -> calls.setAddElements(cache, key, texts(arguments.get("elements")));
                case "set_contains" -> calls.setContains(cache, key, texts(arguments.get("elements")));
                case "sorted_set_put_elements" -> {
                    Map<String, Double> scores = new HashMap<>();
                    arguments.get("elements").properties()
                            .forEach(each -> scores.put(each.getKey(), each.getValue().asDouble()));
                    yield calls.sortedSetPutElements(cache, key, scores);
                }
                case "sorted_set_fetch_by_index" ->
                    calls.sortedSetFetchByIndex(cache, key, Range.all(), Order.ASCENDING);
                case "create_cache" -> calls.createCache(arguments.get("name").asText());
                case "delete_cache" -> calls.deleteCache(arguments.get("name").asText());
                default -> throw new AssertionError("unknown call: " + step.get("call"));
            };
        }

        private static List<String> texts(JsonNode list) {
            List<String> texts = new ArrayList<>();
            list.forEach(each -> texts.add(each.asText()));
            return texts;
        }

        private static Map<String, String> textMap(JsonNode table) {
            Map<String, String> texts = new LinkedHashMap<>();
            table.properties().forEach(each -> texts.put(each.getKey(), each.getValue().asText()));
            return texts;
        }

        /** Returns a value of TOML as the player compares it. */
        private static Object value(JsonNode node) {
            if (node.isArray()) {
                List<Object> all = new ArrayList<>();
                node.forEach(each -> all.add(value(each)));
                return all;
            }
            if (node.isObject()) {
                Map<String, Object> all = new HashMap<>();
                node.properties().forEach(each -> all.put(each.getKey(), value(each.getValue())));
                return all;
            }
            if (node.isBoolean()) {
                return node.asBoolean();
            }
            if (node.isIntegralNumber()) {
                return node.asLong();
            }
            return node.isNumber() ? (Object) node.asDouble() : node.asText();
        }

        /** Returns the type and the fields of a result in the words of the scenarios. */
        private static Map<String, Object> fields(Object result) {
            Map<String, Object> fields = new HashMap<>();
            // Success, NotStored -> success, not_stored.
            fields.put("type", result.getClass().getSimpleName().replaceAll("(?<=[a-z])([A-Z])", "_$1")
                    .toLowerCase(java.util.Locale.ROOT));
            if (result instanceof ErrorResult error) {
                fields.put("code", error.code().name());
                assertFalse(error.error().remedy().isBlank(), "the error names its remedy");
                assertTrue(error.message().endsWith("; " + error.error().remedy()), error::message);
            } else if (result instanceof GetResult.Hit hit) {
                fields.put("value", hit.valueString());
            } else if (result instanceof IncrementResult.Success sum) {
                fields.put("number", sum.value());
            } else if (result instanceof GetBatchResult.Success batch) {
                fields.put("results", batch.results().stream().map(Player::fields).toList());
            } else if (result instanceof ListResult.Hit list) {
                fields.put("elements", list.elementStrings());
            } else if (result instanceof DictionaryResult.Hit dictionary) {
                fields.put("fields", dictionary.fieldStrings());
            } else if (result instanceof ContainsResult.Hit contains) {
                fields.put("contained", contains.contained());
            } else if (result instanceof SortedSetResult.Hit sorted) {
                fields.put("scored", sorted.elements().stream()
                        .map(each -> List.<Object>of(each.elementString(), each.score())).toList());
            } else if (result instanceof TtlResult.Hit ttl) {
                fields.put("remaining", ttl.remaining().orElseThrow());
            }
            return fields;
        }
    }
}
