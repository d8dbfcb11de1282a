package dev.gannet.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The tables of the README on errors and refused arguments say what the library does. */
class RefusalsTest {
    private static final String CACHE = "default";
    private static final String LONE_SURROGATE = "\ud83d";

    /** Returns the rows of the table that begins with this one, as cells, without the line below the first one. */
    private static List<List<String>> table(String first) throws IOException {
        List<List<String>> rows = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of("README.md"))) {
            boolean isRow = line.startsWith(first) || !rows.isEmpty() && line.startsWith("|");
            if (!isRow && !rows.isEmpty()) {
                break;
            }
            if (isRow && !line.startsWith("|---")) {
                rows.add(Arrays.stream(line.substring(1).split("\\|")).map(String::strip).toList());
            }
        }
        return rows;
    }

    @Test
    void tableOfCodesHasAllCodes() throws IOException {
        List<String> named = new ArrayList<>();
        for (List<String> row : table("| code |")) {
            Pattern.compile("`([A-Z_]+)`").matcher(row.get(0)).results().map(MatchResult::group)
                    .map(each -> each.replace("`", "")).forEach(named::add);
        }
        List<String> codes = Arrays.stream(ErrorCode.values()).map(Enum::name).sorted().toList();
        assertEquals(codes, named.stream().sorted().toList());
    }

    /** Returns the way in which a call is refused, as the table names it. */
    private static String way(Supplier<?> call) {
        try {
            Object result = call.get();
            if (result instanceof CompletableFuture<?> future) {
                result = Expect.got(future);
            }
            boolean isInvalid = result instanceof ErrorResult error && error.code() == ErrorCode.INVALID_ARGUMENT;
            return isInvalid ? "`INVALID`" : "not refused: " + result;
        } catch (RuntimeException e) {
            return "`" + e.getClass().getSimpleName() + "`";
        }
    }

    /** Returns the way in which all of these are refused. */
    private static String ways(Supplier<?>... calls) {
        return String.join(" or ", new TreeSet<>(Arrays.stream(calls).map(RefusalsTest::way).toList()));
    }

    private static CacheClient created(Configuration configuration, Duration defaultTtl) {
        return CacheClient.create(Credentials.noToken(Servers.shared().address()), configuration, defaultTtl);
    }

    private static Map<String, String> expected(CacheClient client) {
        Map<String, String> rows = new LinkedHashMap<>();
        Duration below = Duration.ofNanos(1);
        Configuration laptop = Configurations.Laptop.v1();
        rows.put("the default time to live of a client, that of a record, or a time of a lease: "
                + "0, negative or below 1 ms",
                ways(() -> RecordChange.always().withTtl(Duration.ZERO), () -> RecordChange.always().withTtl(below),
                        () -> client.leaseGet(CACHE, "k", below, Duration.ZERO),
                        () -> client.leaseGet(CACHE, "k", Duration.ZERO, below.negated()),
                        () -> client.leaseStale(CACHE, "k", below))
                + "; the default: "
                + ways(() -> created(laptop, Duration.ZERO), () -> created(laptop, below.negated())));
        rows.put("the name of a cache that is not printable ASCII",
                ways(() -> client.get("Köln", "k"), () -> client.get("a\n", "k")));
        rows.put("a text that UTF-8 does not express (a lone surrogate)",
                "key or value: " + ways(() -> client.get(CACHE, LONE_SURROGATE),
                        () -> client.set(CACHE, "k", LONE_SURROGATE),
                        () -> client.topicPublish(CACHE, "t", LONE_SURROGATE))
                + "; name or filter: " + ways(() -> client.topicPublish(CACHE, LONE_SURROGATE, "v"),
                        () -> client.leaderboardDelete(CACHE, LONE_SURROGATE),
                        () -> client.graph(CACHE, LONE_SURROGATE).count(1, "t"),
                        () -> client.recordGet(CACHE, "k", RecordSelection.all().withFilter(LONE_SURROGATE))));
        rows.put("a configuration that needs more than 1,000 connections: requests in flight / streams of a connection",
                ways(() -> created(laptop.withRequestsInFlightMax(100_001), Duration.ofMinutes(1))));
        rows.put("a whole number beyond its field: 64 bits for values, 32 bits for places and revisions, "
                + "or negative where none is",
                ways(() -> client.leaderboardRemove(CACHE, "l", List.of(1L << 32)),
                        () -> RecordChange.always().ifRevision(1L << 32), () -> RecordChange.always().ifRevision(-1),
                        () -> client.setPop(CACHE, "s", -1), () -> EdgeType.of("t").withCap(1L << 32)));
        rows.put("the deletion of a record with other conditions than on its revision",
                ways(() -> client.recordDelete(CACHE, "k", RecordChange.update()),
                        () -> client.recordDelete(CACHE, "k", RecordChange.always().withFilter("a > 1"))));
        rows.put("the name of a graph that is empty",
                ways(() -> client.graph(CACHE, ""), () -> GraphQuery.count(1, "t").inGraph("")));
        rows.put("0 for a limit, a budget or another bound of a query of a graph",
                ways(() -> GraphQuery.neighbours(1, "t").withLimit(0), () -> GraphQuery.mutual(1, 2, "t").withLimit(0),
                        () -> GraphQuery.mutualCount(1, 2, "t").withBudget(0),
                        () -> GraphQuery.combine(CombineOperation.UNION, List.of()).withLimit(0),
                        () -> GraphQuery.paths(1, 2, "t").withCount(0), () -> GraphQuery.suggest(1, "t").withCount(0),
                        () -> GraphQuery.distances(1, "t", List.of(2L)).withMax(0),
                        () -> GraphQuery.secondDegree(1, "t").withBudget(0),
                        () -> GraphQuery.secondDegreeCount(1, "t").withStale(0)));
        return rows;
    }

    @Test
    void tableOfRefusedArgumentsIsWhatTheLibraryDoes() throws IOException {
        List<List<String>> table = table("| argument |");
        int column = table.get(0).indexOf("Java");
        Map<String, String> documented = new LinkedHashMap<>();
        table.subList(1, table.size()).forEach(row -> documented.put(row.get(0), row.get(column)));
        try (CacheClient client = Servers.client(Servers.shared(), Configurations.Laptop.v1())) {
            assertEquals(expected(client), documented);
        }
    }
}
