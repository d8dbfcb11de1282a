package dev.gannet.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.dataformat.toml.TomlMapper;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Plays the scenarios that all client libraries share; {@code conformance/clients/scenarios} describes them. */
class ScenariosTest {
    private static final Path FOLDER = Servers.REPOSITORY.resolve("conformance/clients/scenarios");

    /** The keys that a step may have. A step with another one is not played. */
    private static final Set<String> STEP_KEYS = Set.of(
            "arguments", "at_least_ms", "at_most_ms", "cache", "call", "cancel", "client", "deadline_ms", "expect",
            "faults", "finish", "hold_connections", "metrics", "network", "receive", "server", "start", "subscribe",
            "wait_ms", "within_ms");

    @TestFactory
    Stream<DynamicTest> scenarios() throws IOException {
        List<Path> paths;
        try (Stream<Path> files = Files.list(FOLDER)) {
            paths = files.filter(path -> path.toString().endsWith(".toml")).sorted().toList();
        }
        assertTrue(paths.size() >= 31, "scenarios in " + FOLDER);
        return paths.stream().map(path -> DynamicTest.dynamicTest(path.getFileName().toString(), () -> {
            JsonNode scenario = new TomlMapper().readTree(path.toFile());
            assertTrue(scenario.hasNonNull("name") && scenario.path("steps").size() > 0, "a scenario has steps");
            int connectionsMax = scenario.path("server").path("connections_max").asInt(2_000);
            boolean hasNetwork = scenario.get("steps").findValue("network") != null;
            try (Servers.Server server = new Servers.Server(Map.of("TEST_FAULTS", "1"), connectionsMax);
                    Proxy network = hasNetwork ? new Proxy(server.address(), number -> 0) : null;
                    Player player = new Player(server, network, scenario.path("client"))) {
                player.play(scenario);
            }
        }));
    }

    private static Configuration configuration(JsonNode changes) {
        Configuration configuration =
                Configurations.named(changes.path("preset").asText("Laptop.v1")).withMetrics(true);
        for (Map.Entry<String, JsonNode> each : changes.properties()) {
            int number = each.getValue().asInt();
            configuration = switch (each.getKey()) {
                case "preset", "near_cache" -> configuration;
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

        Started(Supplier<CompletableFuture<?>> begin) {
            call = begin.get();
            call.whenComplete((result, thrown) -> ended = System.nanoTime());
        }
    }

    /** Executes the steps of one scenario. */
    private static final class Player implements AutoCloseable {
        private final Servers.Server server;
        /** The network between the client and the server; null if no step changes it. */
        private final Proxy network;
        private final CacheClient client;
        private final NearCache<String> near;
        private final Map<String, Started> started = new HashMap<>();
        private final Map<String, TopicSubscription> subscriptions = new HashMap<>();
        private final List<Socket> held = new ArrayList<>();
        private volatile Map<String, String> faults = Map.of();
        private CacheClient other;
        private long lease;

        Player(Servers.Server server, Proxy network, JsonNode settings) {
            this.server = server;
            this.network = network;
            String address = network == null ? server.address() : network.address();
            client = Servers.client(address, configuration(settings).withMetadata(() -> faults));
            JsonNode bounds = settings.path("near_cache");
            near = bounds.isMissingNode() ? null : client.nearCache(
                    "default", bounds.get("entries_max").asInt(), bounds.get("bytes_max").asLong());
            if (near != null) {
                Expect.got(near.begun());
                assertTrue(near.metrics().isWatching(), "the watch has begun");
            }
        }

        @Override
        public void close() throws IOException {
            client.close();
            if (other != null) {
                other.close();
            }
            hold(0);
        }

        /** Opens connections that send nothing, up to this number. */
        private void hold(int number) throws IOException {
            for (Socket each : held) {
                each.close();
            }
            held.clear();
            String[] address = server.address().split(":");
            while (held.size() < number) {
                Socket socket = new Socket(address[0], Integer.parseInt(address[1]));
                socket.setSoTimeout(200);
                try {
                    // A reply shows that the server still counts a connection that has ended, and refuses this one.
                    socket.getInputStream().read();
                    socket.close();
                } catch (SocketTimeoutException e) {
                    held.add(socket);
                }
            }
        }

        private CacheClient client(JsonNode step) {
            if (!step.has("client")) {
                return client;
            }
            assertEquals("other", step.get("client").asText());
            if (other == null) {
                other = Servers.client(server, Configurations.Laptop.v1());
            }
            return other;
        }

        private void setFaults(JsonNode asked) {
            Map<String, String> metadata = new HashMap<>();
            asked.properties().forEach(each -> metadata.put(each.getKey(), each.getValue().asText()));
            if (!metadata.isEmpty()) {
                metadata.put("request-id", UUID.randomUUID().toString());
            }
            faults = Map.copyOf(metadata);
        }

        private void receive(JsonNode step) throws Exception {
            Started next;
            do {
                next = new Started(subscriptions.get(step.get("receive").asText())::next);
            } while (next.call.get(10, TimeUnit.SECONDS) instanceof TopicEvent.Heartbeat);
            finish(step, next);
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
                    case "stop" -> {
                        server.terminate();
                        assertTrue(server.hasEnded(Duration.ofSeconds(20)), "the server has ended");
                    }
                    case "start" -> server.start();
                    default -> throw new AssertionError("unknown action of the server");
                }
            } else if (step.has("network")) {
                network.network(step.get("network").asText());
            } else if (step.has("wait_ms")) {
                Servers.sleep(step.get("wait_ms").asLong());
            } else if (step.has("metrics")) {
                within(2_000, () -> compareMetrics(step.get("metrics")));
            } else if (step.has("faults")) {
                setFaults(step.get("faults"));
            } else if (step.has("hold_connections")) {
                hold(step.get("hold_connections").asInt());
            } else if (step.has("subscribe")) {
                TopicSubscription subscription = client.topicSubscribe(
                        step.path("cache").asText("default"), step.get("arguments").get("topic").asText());
                Expect.got(subscription.begun());
                subscriptions.put(step.get("subscribe").asText(), subscription);
            } else if (step.has("receive")) {
                receive(step);
            } else if (step.has("cancel") && subscriptions.containsKey(step.get("cancel").asText())) {
                subscriptions.remove(step.get("cancel").asText()).close();
            } else if (step.has("cancel")) {
                assertTrue(started.get(step.get("cancel").asText()).call.cancel(true), "the call is cancelled");
            } else if (step.has("finish")) {
                finish(step, started.remove(step.get("finish").asText()));
            } else if (step.has("start")) {
                int before = pending();
                started.put(step.get("start").asText(), new Started(() -> call(step)));
                within(5_000, () -> assertEquals(before + 1, pending(), "pending calls"));
            } else {
                within(step.path("within_ms").asLong(0), () -> finish(step, new Started(() -> call(step))));
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
            Map<String, Long> have = new HashMap<>(Map.of(
                    "in_flight", (long) metrics.inFlight(), "queued", (long) metrics.queued(),
                    "retries", metrics.retries(), "resumes", metrics.resumes()));
            if (near != null) {
                have.put("near_hits", near.metrics().hits());
                have.put("near_misses", near.metrics().misses());
                have.put("near_invalidations", near.metrics().invalidations());
            }
            want.properties().forEach(
                    each -> assertEquals(each.getValue().asLong(), have.get(each.getKey()), each.getKey()));
        }

        private void finish(JsonNode step, Started started) throws Exception {
            Map<String, Object> have;
            try {
                Object result = started.call.get(30, TimeUnit.SECONDS);
                have = fields(result);
                if (result instanceof LeaseResult.Won won) {
                    lease = won.token();
                }
                String call = step.path("call").asText();
                if (result instanceof FoundResult.Success && Set.of("lease_stale", "record_delete").contains(call)) {
                    have.put("type", "hit");
                }
            } catch (CancellationException e) {
                have = Map.of("type", "error", "code", "CANCELLED");
            } catch (TimeoutException | ExecutionException e) {
                throw new AssertionError("the call did not end with a result", e);
            }
            JsonNode expect = step.get("expect");
            for (Map.Entry<String, JsonNode> each : expect.properties()) {
                if (each.getKey().equals("remaining_ms_min")) {
                    Duration remaining = (Duration) have.get("remaining");
                    assertTrue(remaining.toMillis() >= each.getValue().asLong(), "the time to live is " + remaining);
                } else if (each.getKey().equals("remaining_ms_max")) {
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
            CacheClient used = client(step);
            CacheCalls<String> calls = step.has("deadline_ms")
                    ? used.withDeadline(Duration.ofMillis(step.get("deadline_ms").asLong()))
                    : used;
            Duration lifetime = Duration.ofMillis(arguments.path("ttl_ms").asLong());
            SetOption[] ttl = arguments.has("ttl_ms")
                    ? new SetOption[] {Ttl.of(Duration.ofMillis(arguments.get("ttl_ms").asLong()))}
                    : new SetOption[0];
            return switch (step.get("call").asText()) {
                case "get" -> near != null && used == client && cache.equals("default")
                        ? near.get(key)
                        : calls.get(cache, key);
                case "set" -> calls.set(cache, key, value, ttl);
                case "get_batch" -> calls.getBatch(cache, texts(arguments.get("keys")));
                case "set_batch" -> calls.setBatch(cache, textMap(arguments.get("items")), ttl);
                case "delete" -> calls.delete(cache, key);
                case "increment" -> calls.increment(cache, key, arguments.get("amount").asLong());
                case "set_if_absent" -> calls.setIfAbsent(cache, key, value);
                case "get_ttl" -> calls.getTtl(cache, key);
                case "update_ttl" -> calls.updateTtl(cache, key, lifetime);
                case "increase_ttl" -> calls.increaseTtl(cache, key, lifetime);
                case "decrease_ttl" -> calls.decreaseTtl(cache, key, lifetime);
                case "topic_publish" -> calls.topicPublish(cache, arguments.get("topic").asText(), value);
                case "lease_get" -> calls.leaseGet(cache, key);
                case "lease_set" -> calls.leaseSet(cache, key, lease, value);
                case "lease_stale" -> calls.leaseStale(cache, key);
                case "record_get" -> calls.recordGet(
                        cache, key, RecordSelection.all().withFilter(arguments.path("filter").asText()));
                case "record_put" -> calls.recordPut(cache, key, bins(arguments), change(arguments));
                case "record_add" -> calls.recordAdd(cache, key, bins(arguments), change(arguments));
                case "record_delete" -> calls.recordDelete(cache, key, change(arguments));
                case "record_scan" -> calls.recordScan(
                        cache, arguments.get("set").asText(), RecordSelection.all());
                case "leaderboard_upsert", "leaderboard_remove", "leaderboard_length", "leaderboard_get_by_rank",
                        "leaderboard_get_by_score", "leaderboard_get_rank", "leaderboard_get_competition_rank",
                        "leaderboard_delete" -> leaderboard(calls, cache, step.get("call").asText(), arguments);
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
                case "flush_cache" -> calls.flushCache(arguments.get("name").asText());
                case "delete_cache" -> calls.deleteCache(arguments.get("name").asText());
                default -> throw new AssertionError("unknown call: " + step.get("call"));
            };
        }

        private static CompletableFuture<?> leaderboard(
                CacheCalls<String> calls, String cache, String call, JsonNode arguments) {
            String name = arguments.get("leaderboard").asText();
            Order order = arguments.path("order").asText().equals("descending") ? Order.DESCENDING : Order.ASCENDING;
            List<Long> ids = new ArrayList<>();
            arguments.path("ids").forEach(each -> ids.add(each.asLong()));
            return switch (call) {
                case "leaderboard_upsert" -> {
                    Map<Long, Double> scores = new HashMap<>();
                    arguments.get("elements").forEach(each -> scores.put(each.get(0).asLong(), each.get(1).asDouble()));
                    yield calls.leaderboardUpsert(cache, name, scores);
                }
                case "leaderboard_remove" -> calls.leaderboardRemove(cache, name, ids);
                case "leaderboard_length" -> calls.leaderboardLength(cache, name);
                case "leaderboard_delete" -> calls.leaderboardDelete(cache, name);
                case "leaderboard_get_by_rank" -> calls.leaderboardGetByRank(
                        cache, name, arguments.get("first").asLong(), arguments.get("end").asLong(), order);
                case "leaderboard_get_by_score" -> calls.leaderboardGetByScore(
                        cache, name, score(arguments.path("least")), score(arguments.path("end")), 0, 0, order);
                case "leaderboard_get_rank" -> calls.leaderboardGetRank(cache, name, ids, order);
                default -> calls.leaderboardGetCompetitionRank(cache, name, ids, order);
            };
        }

        private static OptionalDouble score(JsonNode number) {
            return number.isMissingNode() ? OptionalDouble.empty() : OptionalDouble.of(number.asDouble());
        }

        private static Map<String, BinValue> bins(JsonNode arguments) {
            Map<String, BinValue> bins = new LinkedHashMap<>();
            arguments.get("bins").properties().forEach(each -> bins.put(each.getKey(), bin(each.getValue())));
            return bins;
        }

        private static BinValue bin(JsonNode node) {
            if (node.isArray()) {
                List<BinValue> values = new ArrayList<>();
                node.forEach(each -> values.add(bin(each)));
                return BinValue.of(values);
            }
            if (node.isBoolean()) {
                return BinValue.of(node.asBoolean());
            }
            if (node.isIntegralNumber()) {
                return BinValue.of(node.asLong());
            }
            return node.isNumber() ? BinValue.of(node.asDouble()) : BinValue.of(node.asText());
        }

        private static RecordChange change(JsonNode arguments) {
            RecordChange change = switch (arguments.path("only").asText()) {
                case "" -> RecordChange.always();
                case "create" -> RecordChange.create();
                case "update" -> RecordChange.update();
                case "replace" -> RecordChange.replace();
                default -> throw new AssertionError("unknown condition: " + arguments.get("only"));
            };
            if (arguments.has("set")) {
                change = change.inSet(arguments.get("set").asText());
            }
            return arguments.has("if_revision") ? change.ifRevision(arguments.get("if_revision").asLong()) : change;
        }

        /** Returns the value of a bin as the player compares it. */
        private static Object plain(BinValue value) {
            if (value instanceof BinValue.Int number) {
                return number.value();
            } else if (value instanceof BinValue.Number number) {
                return number.value();
            } else if (value instanceof BinValue.Bool bool) {
                return bool.value();
            } else if (value instanceof BinValue.Text text) {
                return text.value();
            } else if (value instanceof BinValue.Values list) {
                return list.values().stream().map(Player::plain).toList();
            }
            throw new AssertionError("unexpected bin: " + value);
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
            } else if (result instanceof LeaseResult.Hit hit) {
                fields.put("value", hit.valueString());
            } else if (result instanceof LeaseResult.Won won) {
                won.stale().ifPresent(value -> fields.put("value", value.toString()));
            } else if (result instanceof LeaseResult.Wait wait) {
                wait.stale().ifPresent(value -> fields.put("value", value.toString()));
            } else if (result instanceof TopicEvent.Item item) {
                fields.putAll(Map.of("value", item.valueString(), "sequence", item.sequence()));
            } else if (result instanceof TopicEvent.Discontinuity missing) {
                fields.putAll(Map.of(
                        "last_sequence", missing.lastSequence(), "new_sequence", missing.newSequence()));
            } else if (result instanceof RevisionResult.Success changed) {
                fields.put("revision", changed.revision());
            } else if (result instanceof RecordResult.Hit hit) {
                Map<String, Object> bins = new HashMap<>();
                hit.stored().bins().forEach((name, value) -> bins.put(name, plain(value)));
                fields.putAll(Map.of("revision", hit.stored().revision(), "bins", bins));
            } else if (result instanceof RecordPageResult.Success page) {
                fields.put("keys", page.records().stream().map(each -> each.key().toString()).sorted().toList());
            } else if (result instanceof LeaderboardLengthResult.Success board) {
                fields.put("length", board.length());
            } else if (result instanceof LeaderboardResult.Success board) {
                fields.put("ranked", board.elements().stream()
                        .map(each -> List.<Object>of(each.id(), each.rank(), each.score())).toList());
            } else if (result instanceof TtlResult.Hit ttl) {
                fields.put("remaining", ttl.remaining().orElseThrow());
            }
            return fields;
        }
    }
}
