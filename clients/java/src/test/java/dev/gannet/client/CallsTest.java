package dev.gannet.client;

import static dev.gannet.client.Expect.error;
import static dev.gannet.client.Expect.got;
import static dev.gannet.client.Expect.success;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** All calls on caches and their items, against a real server. */
class CallsTest {
    private static final String CACHE = "default";
    private static final Duration MINUTE = Duration.ofMinutes(1);

    private static CacheClient client;

    @BeforeAll
    static void connect() {
        client = Servers.client(Servers.shared(), Configurations.Laptop.v1().withMetrics(true));
    }

    /** A call of the schema that no test executes could not work at all. */
    @AfterAll
    static void everyCallOfCachesWasExecuted() {
        Set<String> executed = client.metrics().methods().keySet();
        client.close();
        List<String> missing = Method.all().stream()
                .filter(each -> each.descriptor().getServiceName().startsWith("gannet.v1.Cache"))
                .map(Method::name).filter(name -> !executed.contains(name)).toList();
        assertEquals(List.of(), missing);
    }

    @BeforeEach
    void flush() {
        success(client.flushCache(CACHE));
    }

    private static GetResult hit(String value) {
        return new GetResult.Hit(Bytes.of(value));
    }

    private static GetResult get(String key) {
        return got(client.get(CACHE, key));
    }

    private static Duration ttlOf(String key) {
        return assertInstanceOf(TtlResult.Hit.class, got(client.getTtl(CACHE, key))).remaining().orElseThrow();
    }

    @Test
    void valuesAreStoredReadAndDeleted() {
        assertEquals(new GetResult.Miss(), get("k"));
        success(client.set(CACHE, "k", "v"));
        assertEquals(hit("v"), get("k"));
        success(client.set(CACHE, "k", "w".getBytes(StandardCharsets.UTF_8)));
        assertEquals("w", ((GetResult.Hit) get("k")).valueString());
        success(client.delete(CACHE, "k"));
        success(client.delete(CACHE, "k"));
        assertEquals(new GetResult.Miss(), get("k"));
    }

    @Test
    void anyBytesAreKeysAndValues() {
        byte[] all = new byte[256];
        for (int at = 0; at < all.length; at++) {
            all[at] = (byte) at;
        }
        Bytes key = Bytes.of((byte) 0xff, (byte) 0, (byte) 0xfe);
        success(client.binary().set(CACHE, key, Bytes.of(all)));
        GetResult.Hit hit = assertInstanceOf(GetResult.Hit.class, got(client.binary().get(CACHE, key)));
        assertArrayEquals(all, hit.value().toByteArray());
        assertEquals(new GetResult.Miss(), get(key.toString()));
        error(ErrorCode.INVALID_ARGUMENT, client.set(CACHE, "", "v"));
    }

    @Test
    void batchesKeepTheOrderOfTheirKeys() {
        success(client.setBatch(CACHE, Map.of("a", "1", "b", "2"), Ttl.of(MINUTE)));
        assertEquals(
                new GetBatchResult.Success(List.of(hit("2"), new GetResult.Miss(), hit("1"))),
                got(client.getBatch(CACHE, List.of("b", "none", "a"))));
        assertEquals(
                new KeysExistResult.Success(List.of(true, false)), got(client.keysExist(CACHE, List.of("a", "none"))));
        error(ErrorCode.NOT_FOUND_CACHE, client.getBatch("absent", List.of("a")));
        error(ErrorCode.NOT_FOUND_CACHE, client.setBatch("absent", Map.of("a", "1")));
    }

    @Test
    void numbersAreIncremented() {
        assertEquals(new IncrementResult.Success(5), got(client.increment(CACHE, "n", 5)));
        assertEquals(new IncrementResult.Success(-2), got(client.increment(CACHE, "n", -7)));
        assertEquals(hit("-2"), get("n"));
        success(client.set(CACHE, "n", "text"));
        error(ErrorCode.FAILED_PRECONDITION, client.increment(CACHE, "n", 1));
    }

    @Test
    void conditionsDecideWhetherAValueIsStored() {
        ConditionalSetResult stored = new ConditionalSetResult.Stored();
        ConditionalSetResult notStored = new ConditionalSetResult.NotStored();
        assertEquals(notStored, got(client.setIfPresent(CACHE, "k", "a")));
        assertEquals(stored, got(client.setIfAbsent(CACHE, "k", "a")));
        assertEquals(notStored, got(client.setIfAbsent(CACHE, "k", "b")));
        assertEquals(stored, got(client.setIfPresent(CACHE, "k", "b")));
        assertEquals(notStored, got(client.setIfEqual(CACHE, "k", "c", "a")));
        assertEquals(stored, got(client.setIfEqual(CACHE, "k", "c", "b")));
        assertEquals(notStored, got(client.setIfNotEqual(CACHE, "k", "d", "c")));
        assertEquals(stored, got(client.setIfNotEqual(CACHE, "k", "d", "x")));
        assertEquals(notStored, got(client.setIfAbsentOrEqual(CACHE, "k", "e", "x")));
        assertEquals(stored, got(client.setIfAbsentOrEqual(CACHE, "k", "e", "d")));
        assertEquals(stored, got(client.setIfAbsentOrEqual(CACHE, "other", "e", "x")));
        assertEquals(notStored, got(client.setIfPresentAndNotEqual(CACHE, "k", "f", "e")));
        assertEquals(stored, got(client.setIfPresentAndNotEqual(CACHE, "k", "f", "x")));
        assertEquals(notStored, got(client.setIfPresentAndNotEqual(CACHE, "none", "f", "x")));
        assertEquals(hit("f"), get("k"));
    }

    private static Bytes hashOf(HashSetResult result) {
        return assertInstanceOf(HashSetResult.Stored.class, result).hash();
    }

    @Test
    void hashesDecideWhetherAValueIsStored() {
        HashSetResult notStored = new HashSetResult.NotStored();
        assertEquals(new GetWithHashResult.Miss(), got(client.getWithHash(CACHE, "k")));
        Bytes first = hashOf(got(client.setWithHash(CACHE, "k", "a")));
        assertEquals(new GetWithHashResult.Hit(Bytes.of("a"), first), got(client.getWithHash(CACHE, "k")));
        Bytes second = hashOf(got(client.setIfPresentAndHashEqual(CACHE, "k", "b", first)));
        assertNotEquals(first, second);
        assertEquals(notStored, got(client.setIfPresentAndHashEqual(CACHE, "k", "c", first)));
        assertEquals(notStored, got(client.setIfPresentAndHashNotEqual(CACHE, "k", "c", second)));
        Bytes third = hashOf(got(client.setIfPresentAndHashNotEqual(CACHE, "k", "c", first)));
        assertEquals(notStored, got(client.setIfAbsentOrHashEqual(CACHE, "k", "d", first)));
        hashOf(got(client.setIfAbsentOrHashEqual(CACHE, "k", "d", third)));
        hashOf(got(client.setIfAbsentOrHashEqual(CACHE, "other", "d", third)));
        hashOf(got(client.setIfAbsentOrHashNotEqual(CACHE, "k", "e", first)));
        assertEquals("e", ((GetResult.Hit) get("k")).valueString());
    }

    @Test
    void timesToLiveAreReadAndChanged() {
        assertEquals(new TtlResult.Miss(), got(client.getTtl(CACHE, "k")));
        assertEquals(new UpdateTtlResult.Miss(), got(client.updateTtl(CACHE, "k", MINUTE)));
        success(client.set(CACHE, "k", "v", Ttl.of(Duration.ofSeconds(50))));
        assertTrue(ttlOf("k").compareTo(Duration.ofSeconds(50)) <= 0);
        assertTrue(ttlOf("k").compareTo(Duration.ofSeconds(20)) > 0);
        assertEquals(new UpdateTtlResult.NotStored(), got(client.decreaseTtl(CACHE, "k", MINUTE)));
        assertEquals(new UpdateTtlResult.Stored(), got(client.increaseTtl(CACHE, "k", MINUTE.multipliedBy(2))));
        assertTrue(ttlOf("k").compareTo(MINUTE) > 0);
        assertEquals(new UpdateTtlResult.NotStored(), got(client.increaseTtl(CACHE, "k", MINUTE)));
        assertEquals(new UpdateTtlResult.Stored(), got(client.decreaseTtl(CACHE, "k", MINUTE)));
        assertEquals(new UpdateTtlResult.Stored(), got(client.updateTtl(CACHE, "k", Duration.ofSeconds(9))));
        assertTrue(ttlOf("k").compareTo(Duration.ofSeconds(9)) <= 0);
        error(ErrorCode.INVALID_ARGUMENT, client.set(CACHE, "k", "v", Ttl.of(Duration.ofNanos(1))));
        Servers.redis(Servers.shared(), "SET forever v");
        assertEquals(new TtlResult.Hit(Optional.empty()), got(client.getTtl(CACHE, "forever")));
    }

    @Test
    void collectionsKeepTheirTimeToLiveIfAsked() {
        success(client.setAddElements(CACHE, "k", List.of("a"), Ttl.of(MINUTE)));
        success(client.setAddElements(CACHE, "k", List.of("b"), Ttl.of(MINUTE.multipliedBy(9)), KeepTtl.KEEP_TTL));
        assertTrue(ttlOf("k").compareTo(MINUTE) <= 0);
        success(client.setAddElements(CACHE, "k", List.of("c"), Ttl.of(MINUTE.multipliedBy(9))));
        assertTrue(ttlOf("k").compareTo(MINUTE) > 0);
    }

    @Test
    void typesAreNamed() {
        assertEquals(new TypeResult.Miss(), got(client.getType(CACHE, "k")));
        success(client.set(CACHE, "value", "v"));
        got(client.listPushBack(CACHE, "list", "v"));
        success(client.setAddElements(CACHE, "set", List.of("v")));
        success(client.dictionarySetField(CACHE, "dictionary", "f", "v"));
        success(client.sortedSetPutElements(CACHE, "sorted_set", Map.of("v", 1.0)));
        for (ItemType type : ItemType.values()) {
            String key = type.name().toLowerCase(java.util.Locale.ROOT);
            assertEquals(new TypeResult.Hit(type), got(client.getType(CACHE, key)));
        }
        error(ErrorCode.FAILED_PRECONDITION, client.get(CACHE, "list"), "getType");
    }

    @Test
    void dictionariesHaveFields() {
        assertEquals(new GetResult.Miss(), got(client.dictionaryGetField(CACHE, "d", "f")));
        assertEquals(new DictionaryResult.Miss(), got(client.dictionaryFetch(CACHE, "d")));
        assertEquals(new DictionaryFieldsResult.Miss(), got(client.dictionaryGetFields(CACHE, "d", List.of("f"))));
        assertEquals(new LengthResult.Miss(), got(client.dictionaryLength(CACHE, "d")));
        success(client.dictionarySetField(CACHE, "d", "a", "1"));
        success(client.dictionarySetFields(CACHE, "d", Map.of("b", "2", "c", "3")));
        assertEquals(hit("1"), got(client.dictionaryGetField(CACHE, "d", "a")));
        assertEquals(new GetResult.Miss(), got(client.dictionaryGetField(CACHE, "d", "none")));
        assertEquals(
                new DictionaryFieldsResult.Hit(List.of(hit("3"), new GetResult.Miss(), hit("1"))),
                got(client.dictionaryGetFields(CACHE, "d", List.of("c", "none", "a"))));
        assertEquals(new IncrementResult.Success(5), got(client.dictionaryIncrement(CACHE, "d", "a", 4)));
        DictionaryResult.Hit all =
                assertInstanceOf(DictionaryResult.Hit.class, got(client.dictionaryFetch(CACHE, "d")));
        assertEquals(Map.of("a", "5", "b", "2", "c", "3"), all.fieldStrings());
        assertEquals(Bytes.of("2"), all.fields().get(Bytes.of("b")));
        success(client.dictionaryRemoveFields(CACHE, "d", List.of("a", "none")));
        assertEquals(new LengthResult.Hit(2), got(client.dictionaryLength(CACHE, "d")));
        success(client.dictionaryDelete(CACHE, "d"));
        assertEquals(new LengthResult.Miss(), got(client.dictionaryLength(CACHE, "d")));
    }

    private static Set<String> elements(SetResult result) {
        return assertInstanceOf(SetResult.Hit.class, result).elementStrings();
    }

    @Test
    void setsHaveElements() {
        assertEquals(new SetResult.Miss(), got(client.setFetch(CACHE, "s")));
        assertEquals(new FoundResult.Miss(), got(client.setDelete(CACHE, "s")));
        success(client.setAddElements(CACHE, "s", List.of("a", "b", "c")));
        assertEquals(Set.of("a", "b", "c"), elements(got(client.setFetch(CACHE, "s"))));
        assertEquals(2, elements(got(client.setSample(CACHE, "s", 2))).size());
        assertEquals(
                new ContainsResult.Hit(List.of(true, false)), got(client.setContains(CACHE, "s", List.of("b", "x"))));
        assertEquals(new FoundResult.Success(), got(client.setRemoveElements(CACHE, "s", List.of("b", "x"))));
        assertEquals(new FoundResult.Success(), got(client.setSubtractFrom(CACHE, "s", List.of("a", "d", "e"))));
        assertEquals(Set.of("d", "e"), elements(got(client.setFetch(CACHE, "s"))));
        assertEquals(1, elements(got(client.setPop(CACHE, "s", 1))).size());
        assertEquals(new LengthResult.Hit(1), got(client.setLength(CACHE, "s")));
        assertEquals(new FoundResult.Success(), got(client.setDelete(CACHE, "s")));
        assertEquals(new ContainsResult.Miss(), got(client.setContains(CACHE, "s", List.of("b"))));
    }

    private static List<String> list(Range range) {
        return assertInstanceOf(ListResult.Hit.class, got(client.listFetch(CACHE, "l", range))).elementStrings();
    }

    @Test
    void listsKeepTheirOrder() {
        assertEquals(new ListResult.Miss(), got(client.listFetch(CACHE, "l")));
        assertEquals(new ListPopResult.Miss(), got(client.listPopFront(CACHE, "l")));
        assertEquals(new ListLengthResult.Success(1), got(client.listPushBack(CACHE, "l", "c")));
        assertEquals(new ListLengthResult.Success(2), got(client.listPushFront(CACHE, "l", "b")));
        assertEquals(new ListLengthResult.Success(4), got(client.listConcatenateBack(CACHE, "l", List.of("d", "e"))));
        assertEquals(new ListLengthResult.Success(6), got(client.listConcatenateFront(CACHE, "l", List.of("z", "a"))));
        assertEquals(List.of("z", "a", "b", "c", "d", "e"), list(Range.all()));
        assertEquals(List.of("d", "e"), list(Range.from(-2)));
        assertEquals(List.of("z"), list(Range.before(1)));
        assertEquals(List.of("a", "b"), list(Range.between(1, 3)));
        assertEquals(new ListPopResult.Hit(Bytes.of("z"), 5), got(client.listPopFront(CACHE, "l")));
        assertEquals(new ListPopResult.Hit(Bytes.of("e"), 4), got(client.listPopBack(CACHE, "l")));
        assertEquals(new LengthResult.Hit(3), got(client.listRemoveValue(CACHE, "l", "b")));
        assertEquals(new LengthResult.Hit(2), got(client.listRetain(CACHE, "l", Range.from(1))));
        assertEquals(new LengthResult.Hit(2), got(client.listLength(CACHE, "l")));
        assertEquals(new ListLengthResult.Success(2), got(client.listPushBack(CACHE, "l", "e", MaxLength.of(2))));
        assertEquals(List.of("d", "e"), list(Range.all()));
    }

    private static Map<String, Double> scored(SortedSetResult result) {
        Map<String, Double> scores = new java.util.LinkedHashMap<>();
        assertInstanceOf(SortedSetResult.Hit.class, result).elements()
                .forEach(each -> scores.put(each.elementString(), each.score()));
        return scores;
    }

    @Test
    void sortedSetsAreOrderedByScore() {
        assertEquals(new SortedSetResult.Miss(),
                got(client.sortedSetFetchByIndex(CACHE, "z", Range.all(), Order.ASCENDING)));
        assertEquals(new ScoreResult.Miss(), got(client.sortedSetGetScore(CACHE, "z", "a")));
        success(client.sortedSetPutElements(CACHE, "z", Map.of("a", 1.0, "b", 2.5, "c", -3.0)));
        Map<String, Double> ascending =
                scored(got(client.sortedSetFetchByIndex(CACHE, "z", Range.all(), Order.ASCENDING)));
        assertEquals(List.of("c", "a", "b"), List.copyOf(ascending.keySet()));
        assertEquals(new TreeMap<>(Map.of("a", 1.0, "b", 2.5, "c", -3.0)), new TreeMap<>(ascending));
        assertEquals(List.of("b"), List.copyOf(
                scored(got(client.sortedSetFetchByIndex(CACHE, "z", Range.before(1), Order.DESCENDING))).keySet()));
        assertEquals(List.of("a", "b"), byScore(ScoreRange.all().above(-3).to(2.5)));
        assertEquals(List.of("c", "a"), byScore(ScoreRange.all().from(-3).below(2.5)));
        assertEquals(List.of("a"), byScore(ScoreRange.all().withOffset(1).withCount(1)));
        assertEquals(new ScoreResult.Hit(2.5), got(client.sortedSetGetScore(CACHE, "z", "b")));
        assertEquals(new ScoresResult.Hit(List.of(new ScoreResult.Hit(1), new ScoreResult.Miss())),
                got(client.sortedSetGetScores(CACHE, "z", List.of("a", "none"))));
        assertEquals(new RankResult.Hit(2), got(client.sortedSetGetRank(CACHE, "z", "b", Order.ASCENDING)));
        assertEquals(new RankResult.Hit(0), got(client.sortedSetGetRank(CACHE, "z", "b", Order.DESCENDING)));
        assertEquals(new RankResult.Miss(), got(client.sortedSetGetRank(CACHE, "z", "none", Order.ASCENDING)));
        assertEquals(new ScoreIncrementResult.Success(1.5), got(client.sortedSetIncrement(CACHE, "z", "a", 0.5)));
        success(client.sortedSetRemoveElements(CACHE, "z", List.of("a", "none")));
        assertEquals(new LengthResult.Hit(2), got(client.sortedSetLength(CACHE, "z")));
        success(client.sortedSetDelete(CACHE, "z"));
        assertEquals(new ScoresResult.Miss(), got(client.sortedSetGetScores(CACHE, "z", List.of("a"))));
    }

    private static List<String> byScore(ScoreRange range) {
        return List.copyOf(scored(got(client.sortedSetFetchByScore(CACHE, "z", range, Order.ASCENDING))).keySet());
    }

    @Test
    void cachesAreSeparate() {
        success(client.createCache("calls"));
        error(ErrorCode.ALREADY_EXISTS, client.createCache("calls"));
        success(client.set("calls", "k", "v"));
        assertEquals(new GetResult.Miss(), get("k"));
        List<String> names = assertInstanceOf(ListCachesResult.Success.class, got(client.listCaches())).names();
        assertTrue(names.containsAll(List.of("default", "calls")), names::toString);
        success(client.flushCache("calls"));
        assertEquals(new GetResult.Miss(), got(client.get("calls", "k")));
        success(client.deleteCache("calls"));
        error(ErrorCode.NOT_FOUND_CACHE, client.get("calls", "k"), "calls", "createCache");
        error(ErrorCode.INVALID_ARGUMENT, client.get("caf\u00e9", "k"), "printable ASCII");
    }
}
