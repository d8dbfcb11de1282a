package gannet;

import static gannet.MomentoServer.CACHE;
import static gannet.MomentoServer.haveCallsOfEveryMethodOf;
import static gannet.MomentoServer.failed;
import static gannet.MomentoServer.fails;
import static gannet.MomentoServer.is;
import static gannet.MomentoServer.names;
import static gannet.MomentoServer.tokenOf;
import static gannet.MomentoServer.until;
import static momento.sdk.exceptions.MomentoErrorCode.ALREADY_EXISTS_ERROR;
import static momento.sdk.exceptions.MomentoErrorCode.AUTHENTICATION_ERROR;
import static momento.sdk.exceptions.MomentoErrorCode.BAD_REQUEST_ERROR;
import static momento.sdk.exceptions.MomentoErrorCode.LIMIT_EXCEEDED_ERROR;
import static momento.sdk.exceptions.MomentoErrorCode.NOT_FOUND_ERROR;
import static momento.sdk.exceptions.MomentoErrorCode.PERMISSION_ERROR;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import momento.sdk.AuthClient;
import momento.sdk.CacheClient;
import momento.sdk.ILeaderboard;
import momento.sdk.IPreviewStorageClient;
import momento.sdk.ISubscriptionCallbacks;
import momento.sdk.TopicClient;
import momento.sdk.auth.accessControl.CacheSelector;
import momento.sdk.auth.accessControl.DisposableTokenScope;
import momento.sdk.auth.accessControl.DisposableTokenScopes;
import momento.sdk.auth.accessControl.ExpiresIn;
import momento.sdk.auth.accessControl.TopicSelector;
import momento.sdk.requests.CollectionTtl;
import momento.sdk.responses.SortOrder;
import momento.sdk.responses.auth.GenerateDisposableTokenResponse;
import momento.sdk.responses.cache.DeleteResponse;
import momento.sdk.responses.cache.GetBatchResponse;
import momento.sdk.responses.cache.GetResponse;
import momento.sdk.responses.cache.IncrementResponse;
import momento.sdk.responses.cache.SetBatchResponse;
import momento.sdk.responses.cache.SetIfNotExistsResponse;
import momento.sdk.responses.cache.SetResponse;
import momento.sdk.responses.cache.control.*;
import momento.sdk.responses.cache.dictionary.*;
import momento.sdk.responses.cache.list.*;
import momento.sdk.responses.cache.set.*;
import momento.sdk.responses.cache.sortedset.*;
import momento.sdk.responses.cache.ttl.*;
import momento.sdk.responses.leaderboard.FetchResponse;
import momento.sdk.responses.leaderboard.LengthResponse;
import momento.sdk.responses.leaderboard.RemoveElementsResponse;
import momento.sdk.responses.leaderboard.UpsertResponse;
import momento.sdk.responses.topic.TopicDiscontinuity;
import momento.sdk.responses.topic.TopicMessage;
import momento.sdk.responses.topic.TopicPublishResponse;
import momento.sdk.responses.topic.TopicSubscribeResponse;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import redis.clients.jedis.Jedis;

/** Tests Momento's published, unmodified client library for Java, with every call that it has. */
final class MomentoTest {
    @TempDir
    static Path folder;

    private static MomentoServer server;
    private static Jedis plain;
    private static CacheClient cache;

    @BeforeAll
    static void start() throws Exception {
        server = new MomentoServer(folder);
        plain = server.plain;
        cache = server.cacheClient();
    }

    @AfterAll
    static void stop() throws Exception {
        server.close();
    }

    @BeforeEach
    void empty() {
        plain.flushAll();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void cachesAreCreatedListedFlushedAndDeleted() throws Exception {
        fails(NOT_FOUND_ERROR, cache.get("one", "k"));
        is(CacheCreateResponse.Success.class, cache.createCache("one"));
        fails(ALREADY_EXISTS_ERROR, cache.createCache("one"));
        is(SetResponse.Success.class, cache.set("one", "k", "v"));
        is(GetResponse.Miss.class, cache.get(CACHE, "k"));
        Set<String> all = new TreeSet<>();
        is(CacheListResponse.Success.class, cache.listCaches()).getCaches().forEach(info -> all.add(info.name()));
        assertEquals(Set.of("default", "one"), all);
        is(CacheFlushResponse.Success.class, cache.flushCache("one"));
        is(GetResponse.Miss.class, cache.get("one", "k"));
        is(CacheDeleteResponse.Success.class, cache.deleteCache("one"));
        fails(NOT_FOUND_ERROR, cache.get("one", "k"));
        fails(NOT_FOUND_ERROR, cache.deleteCache("one"));
    }

    @Test
    void itemsAreSetReadAndDeleted() throws Exception {
        is(SetResponse.Success.class, cache.set(CACHE, "k", "v"));
        is(SetResponse.Success.class, cache.set(CACHE, bytes("bytes"), new byte[] {0, -1}, Duration.ofSeconds(5)));
        assertEquals("v", is(GetResponse.Hit.class, cache.get(CACHE, "k")).valueString());
        byte[] found = is(GetResponse.Hit.class, cache.get(CACHE, bytes("bytes"))).valueByteArray();
        assertArrayEquals(new byte[] {0, -1}, found);
        assertEquals("v", plain.get("k"));
        assertTrue(plain.pttl("k") > 50_000 && plain.pttl("bytes") <= 5_000);
        assertEquals(5, is(IncrementResponse.Success.class, cache.increment(CACHE, "n", 5)).valueNumber());
        assertEquals(-2, is(IncrementResponse.Success.class, cache.increment(CACHE, bytes("n"), -7)).valueNumber());
        is(SetIfNotExistsResponse.Stored.class, cache.setIfNotExists(CACHE, "once", "a"));
        is(SetIfNotExistsResponse.NotStored.class, cache.setIfNotExists(CACHE, "once", bytes("b")));
        assertEquals("a", plain.get("once"));
        is(DeleteResponse.Success.class, cache.delete(CACHE, "k"));
        is(DeleteResponse.Success.class, cache.delete(CACHE, bytes("bytes")));
        is(GetResponse.Miss.class, cache.get(CACHE, "k"));
        for (int length : new int[] {0, 1, 8_191, 8_192, 65_535, 65_536, 1_000_000}) {
            byte[] value = new byte[length];
            for (int at = 0; at < length; at++) {
                value[at] = (byte) (at % 251);
            }
            is(SetResponse.Success.class, cache.set(CACHE, bytes("long"), value));
            assertArrayEquals(value, is(GetResponse.Hit.class, cache.get(CACHE, "long")).valueByteArray());
        }
    }

    @Test
    void batchesReplyInTheOrderOfTheirRequests() throws Exception {
        Map<String, String> items = new HashMap<>();
        for (int at = 0; at < 300; at++) {
            items.put("k" + at, "v" + at);
        }
        assertEquals(300, is(SetBatchResponse.Success.class, cache.setBatch(CACHE, items)).results().size());
        Map<String, byte[]> more = Map.of("b", bytes("bytes"));
        is(SetBatchResponse.Success.class, cache.setBatchStringBytes(CACHE, more, Duration.ofSeconds(5)));
        assertTrue(plain.pttl("b") <= 5_000);
        List<String> keys = new ArrayList<>(items.keySet());
        keys.add("none");
        GetBatchResponse.Success found = is(GetBatchResponse.Success.class, cache.getBatch(CACHE, keys));
        assertEquals(items, found.valueMap());
        assertInstanceOf(GetResponse.Miss.class, found.results().get("none"));
    }

    @Test
    void timesToLiveChange() throws Exception {
        Duration half = Duration.ofSeconds(30);
        Duration more = Duration.ofSeconds(90);
        is(UpdateTtlResponse.Miss.class, cache.updateTtl(CACHE, "k", half));
        is(IncreaseTtlResponse.Miss.class, cache.increaseTtl(CACHE, "k", half));
        is(DecreaseTtlResponse.Miss.class, cache.decreaseTtl(CACHE, "k", half));
        is(ItemGetTtlResponse.Miss.class, cache.itemGetTtl(CACHE, "k"));
        cache.set(CACHE, "k", "v").get();
        is(IncreaseTtlResponse.NotSet.class, cache.increaseTtl(CACHE, "k", half));
        is(DecreaseTtlResponse.NotSet.class, cache.decreaseTtl(CACHE, "k", more));
        is(IncreaseTtlResponse.Set.class, cache.increaseTtl(CACHE, bytes("k"), more));
        assertTrue(plain.pttl("k") > 60_000);
        is(DecreaseTtlResponse.Set.class, cache.decreaseTtl(CACHE, bytes("k"), half));
        assertTrue(plain.pttl("k") <= 30_000);
        is(UpdateTtlResponse.Set.class, cache.updateTtl(CACHE, bytes("k"), Duration.ofSeconds(10)));
        long left = is(ItemGetTtlResponse.Hit.class, cache.itemGetTtl(CACHE, bytes("k"))).remainingTtlMillis();
        assertTrue(left > 0 && left <= 10_000, left + " ms");
    }

    @Test
    void collectionsRetainOrRefreshTheirTimesToLive() throws Exception {
        CollectionTtl minute = CollectionTtl.of(Duration.ofSeconds(60)).withNoRefreshTtlOnUpdates();
        CollectionTtl shorter = CollectionTtl.of(Duration.ofSeconds(5));
        is(SetAddElementResponse.Success.class, cache.setAddElement(CACHE, "s", "a", minute));
        cache.setAddElement(CACHE, "s", "b", shorter.withNoRefreshTtlOnUpdates()).get();
        assertTrue(plain.pttl("s") > 50_000);
        cache.setAddElement(CACHE, "s", "b", shorter.withRefreshTtlOnUpdates()).get();
        assertTrue(plain.pttl("s") <= 5_000);
    }

    @Test
    void dictionariesAreHashes() throws Exception {
        is(DictionaryFetchResponse.Miss.class, cache.dictionaryFetch(CACHE, "d"));
        is(DictionaryGetFieldResponse.Miss.class, cache.dictionaryGetField(CACHE, "d", "a"));
        is(DictionaryGetFieldsResponse.Miss.class, cache.dictionaryGetFields(CACHE, "d", List.of("a")));
        is(DictionarySetFieldResponse.Success.class, cache.dictionarySetField(CACHE, "d", "a", "1"));
        is(DictionarySetFieldResponse.Success.class, cache.dictionarySetField(CACHE, "d", "b", bytes("2")));
        is(DictionarySetFieldsResponse.Success.class, cache.dictionarySetFields(CACHE, "d", Map.of("c", "3")));
        Map<String, byte[]> more = Map.of("d", bytes("4"));
        is(DictionarySetFieldsResponse.Success.class, cache.dictionarySetFieldsStringBytes(CACHE, "d", more));
        assertEquals(Map.of("a", "1", "b", "2", "c", "3", "d", "4"), plain.hgetAll("d"));
        assertEquals("1", is(DictionaryGetFieldResponse.Hit.class, cache.dictionaryGetField(CACHE, "d", "a")).value());
        is(DictionaryGetFieldResponse.Miss.class, cache.dictionaryGetField(CACHE, "d", "x"));
        DictionaryGetFieldsResponse.Hit some =
            is(DictionaryGetFieldsResponse.Hit.class, cache.dictionaryGetFields(CACHE, "d", List.of("b", "x", "a")));
        assertEquals(Map.of("a", "1", "b", "2"), some.valueMap());
        assertInstanceOf(DictionaryGetFieldResponse.Miss.class, some.perFieldResponses().get(1));
        IncrementOf increment = by ->
            is(DictionaryIncrementResponse.Success.class, cache.dictionaryIncrement(CACHE, "d", "a", by)).value();
        assertEquals(42, increment.by(41));
        is(DictionaryRemoveFieldResponse.Success.class, cache.dictionaryRemoveField(CACHE, "d", "b"));
        List<String> removed = List.of("c", "x");
        is(DictionaryRemoveFieldsResponse.Success.class, cache.dictionaryRemoveFields(CACHE, "d", removed));
        DictionaryFetchResponse.Hit all = is(DictionaryFetchResponse.Hit.class, cache.dictionaryFetch(CACHE, "d"));
        assertEquals(Map.of("a", "42", "d", "4"), all.valueMap());
    }

    private interface IncrementOf {
        int by(long amount) throws Exception;
    }

    @Test
    void setsAreSets() throws Exception {
        is(SetFetchResponse.Miss.class, cache.setFetch(CACHE, "s"));
        is(SetAddElementResponse.Success.class, cache.setAddElement(CACHE, "s", "a"));
        is(SetAddElementResponse.Success.class, cache.setAddElement(CACHE, "s", bytes("b")));
        is(SetAddElementsResponse.Success.class, cache.setAddElements(CACHE, "s", List.of("c", "d")));
        List<byte[]> more = List.of(bytes("e"), bytes("f"));
        is(SetAddElementsResponse.Success.class, cache.setAddElementsByteArray(CACHE, "s", more));
        assertEquals(Set.of("a", "b", "c", "d", "e", "f"), plain.smembers("s"));
        is(SetRemoveElementResponse.Success.class, cache.setRemoveElement(CACHE, "s", "a"));
        is(SetRemoveElementResponse.Success.class, cache.setRemoveElement(CACHE, "s", bytes("b")));
        is(SetRemoveElementsResponse.Success.class, cache.setRemoveElements(CACHE, "s", List.of("c", "x")));
        is(SetRemoveElementsResponse.Success.class, cache.setRemoveElementsByteArray(CACHE, "s", List.of(bytes("d"))));
        assertEquals(Set.of("e", "f"), is(SetFetchResponse.Hit.class, cache.setFetch(CACHE, "s")).valueSet());
    }

    @Test
    void listsAreLists() throws Exception {
        is(ListFetchResponse.Miss.class, cache.listFetch(CACHE, "l"));
        is(ListLengthResponse.Miss.class, cache.listLength(CACHE, "l"));
        is(ListPopBackResponse.Miss.class, cache.listPopBack(CACHE, "l"));
        is(ListPopFrontResponse.Miss.class, cache.listPopFront(CACHE, "l"));
        is(ListConcatenateBackResponse.Success.class, cache.listConcatenateBack(CACHE, "l", List.of("c")));
        List<byte[]> back = List.of(bytes("d"));
        is(ListConcatenateBackResponse.Success.class, cache.listConcatenateBackByteArray(CACHE, "l", back));
        is(ListConcatenateFrontResponse.Success.class, cache.listConcatenateFront(CACHE, "l", List.of("b")));
        List<byte[]> front = List.of(bytes("a"));
        is(ListConcatenateFrontResponse.Success.class, cache.listConcatenateFrontByteArray(CACHE, "l", front));
        is(ListPushBackResponse.Success.class, cache.listPushBack(CACHE, "l", "e"));
        ListPushFrontResponse.Success pushed =
            is(ListPushFrontResponse.Success.class, cache.listPushFront(CACHE, "l", bytes("z")));
        assertEquals(6, pushed.getListLength());
        assertEquals(List.of("z", "a", "b", "c", "d", "e"), plain.lrange("l", 0, -1));
        ListFetchResponse.Hit part = is(ListFetchResponse.Hit.class, cache.listFetch(CACHE, "l", 1, 4));
        assertEquals(List.of("a", "b", "c"), part.valueList());
        assertEquals("z", is(ListPopFrontResponse.Hit.class, cache.listPopFront(CACHE, "l")).value());
        assertEquals("e", is(ListPopBackResponse.Hit.class, cache.listPopBack(CACHE, "l")).value());
        is(ListPushBackResponse.Success.class, cache.listPushBack(CACHE, "l", "a", 4));
        assertEquals(List.of("b", "c", "d", "a"), plain.lrange("l", 0, -1));
        is(ListPushFrontResponse.Success.class, cache.listPushFront(CACHE, "l", "a", 3));
        assertEquals(List.of("a", "b", "c"), is(ListFetchResponse.Hit.class, cache.listFetch(CACHE, "l")).valueList());
        is(ListConcatenateBackResponse.Success.class, cache.listConcatenateBack(CACHE, "l", List.of("a", "b"), 4));
        is(ListConcatenateFrontResponse.Success.class, cache.listConcatenateFront(CACHE, "l", List.of("b"), 4));
        assertEquals(List.of("b", "b", "c", "a"), plain.lrange("l", 0, -1));
        is(ListRemoveValueResponse.Success.class, cache.listRemoveValue(CACHE, "l", "b"));
        assertEquals(2, is(ListLengthResponse.Hit.class, cache.listLength(CACHE, "l")).getListLength());
        is(ListConcatenateBackResponse.Success.class, cache.listConcatenateBack(CACHE, "l", List.of("x", "y")));
        is(ListRetainResponse.Success.class, cache.listRetain(CACHE, "l", 1, 3));
        assertEquals(List.of("a", "x"), plain.lrange("l", 0, -1));
    }

    private static List<String> elements(CompletableFuture<SortedSetFetchResponse> reply) throws Exception {
        List<String> elements = new ArrayList<>();
        for (ScoredElement element : is(SortedSetFetchResponse.Hit.class, reply).elementsList()) {
            elements.add(element.getValue() + " " + element.getScore());
        }
        return elements;
    }

    @Test
    void sortedSetsAreSortedSets() throws Exception {
        is(SortedSetFetchResponse.Miss.class, cache.sortedSetFetchByRank(CACHE, "z"));
        is(SortedSetFetchResponse.Miss.class, cache.sortedSetFetchByScore(CACHE, "z"));
        is(SortedSetGetScoresResponse.Miss.class, cache.sortedSetGetScores(CACHE, "z", List.of("a")));
        is(SortedSetPutElementResponse.Success.class, cache.sortedSetPutElement(CACHE, "z", "a", 1.5));
        is(SortedSetPutElementsResponse.Success.class, cache.sortedSetPutElements(CACHE, "z", Map.of("b", 2.5)));
        Map<byte[], Double> more = Map.of(bytes("c"), -1.0);
        is(SortedSetPutElementsResponse.Success.class, cache.sortedSetPutElementsByteArray(CACHE, "z", more));
        is(SortedSetPutElementResponse.Success.class, cache.sortedSetPutElement(CACHE, "z", bytes("d"), 10));
        List<String> all = List.of("c -1.0", "a 1.5", "b 2.5", "d 10.0");
        assertEquals(all, elements(cache.sortedSetFetchByRank(CACHE, "z")));
        assertEquals(List.of("c", "a", "b", "d"), plain.zrange("z", 0, -1));
        SortOrder descending = SortOrder.DESCENDING;
        assertEquals(List.of("b 2.5", "a 1.5"), elements(cache.sortedSetFetchByRank(CACHE, "z", 1, 3, descending)));
        SortOrder ascending = SortOrder.ASCENDING;
        List<String> between = elements(cache.sortedSetFetchByScore(CACHE, "z", 0.0, 3.0, ascending));
        assertEquals(List.of("a 1.5", "b 2.5"), between);
        List<String> page = elements(cache.sortedSetFetchByScore(CACHE, "z", null, null, descending, 1, 2));
        assertEquals(List.of("b 2.5", "a 1.5"), page);
        SortedSetGetRankResponse.Hit rank =
            is(SortedSetGetRankResponse.Hit.class, cache.sortedSetGetRank(CACHE, "z", "a", ascending));
        assertEquals(1, rank.rank());
        rank = is(SortedSetGetRankResponse.Hit.class, cache.sortedSetGetRank(CACHE, "z", bytes("a"), descending));
        assertEquals(2, rank.rank());
        assertEquals(2.5, is(SortedSetGetScoreResponse.Hit.class, cache.sortedSetGetScore(CACHE, "z", "b")).score());
        is(SortedSetGetScoreResponse.Miss.class, cache.sortedSetGetScore(CACHE, "z", bytes("x")));
        List<String> wanted = List.of("d", "x");
        SortedSetGetScoresResponse.Hit scores =
            is(SortedSetGetScoresResponse.Hit.class, cache.sortedSetGetScores(CACHE, "z", wanted));
        assertEquals(List.of(new ScoredElement("d", 10)), scores.scoredElements());
        is(SortedSetGetScoresResponse.Hit.class, cache.sortedSetGetScoresByteArray(CACHE, "z", List.of(bytes("a"))));
        SortedSetIncrementScoreResponse.Success added =
            is(SortedSetIncrementScoreResponse.Success.class, cache.sortedSetIncrementScore(CACHE, "z", "c", 2.25));
        assertEquals(1.25, added.score());
        is(SortedSetRemoveElementResponse.Success.class, cache.sortedSetRemoveElement(CACHE, "z", "c"));
        is(SortedSetRemoveElementsResponse.Success.class, cache.sortedSetRemoveElements(CACHE, "z", wanted));
        List<byte[]> last = List.of(bytes("b"));
        is(SortedSetRemoveElementsResponse.Success.class, cache.sortedSetRemoveElementsByteArray(CACHE, "z", last));
        assertEquals(List.of("a"), plain.zrange("z", 0, -1));
    }

    @Test
    void leaderboardsRankTheirElements() throws Exception {
        ILeaderboard board = server.leaderboard("game");
        assertEquals(0, is(LengthResponse.Success.class, board.length()).length());
        is(UpsertResponse.Success.class, board.upsert(Map.of(1, 15.0, 2, 20.5, 3, 30.0, 4, 30.0)));
        assertEquals(4, is(LengthResponse.Success.class, board.length()).length());
        SortOrder ascending = SortOrder.ASCENDING;
        SortOrder descending = SortOrder.DESCENDING;
        assertEquals(List.of("1 15.0 0", "2 20.5 1"), ranks(board.fetchByRank(0, 2, ascending)));
        assertEquals(List.of("4 30.0 0", "3 30.0 1"), ranks(board.fetchByRank(0, 2, descending)));
        assertEquals(List.of("1 15.0 0", "2 20.5 1"), ranks(board.fetchByScore(15.0, 30.0, ascending)));
        assertEquals(List.of("2 20.5 1", "3 30.0 2"), ranks(board.fetchByScore(null, null, ascending, 1, 2)));
        assertEquals(4, ranks(board.fetchByScore()).size());
        assertEquals(List.of("2 20.5 2"), ranks(board.getRank(List.of(2, 9), descending)));
        List<String> competition = ranks(board.getCompetitionRank(List.of(2, 3, 4), descending));
        assertEquals(Set.of("2 20.5 2", "3 30.0 0", "4 30.0 0"), Set.copyOf(competition));
        is(RemoveElementsResponse.Success.class, board.removeElements(List.of(1, 9)));
        assertEquals(20.5, plain.zscore("game", "2"));
        is(momento.sdk.responses.leaderboard.DeleteResponse.Success.class, board.delete());
        assertEquals(0, is(LengthResponse.Success.class, board.length()).length());
    }

    private static List<String> ranks(CompletableFuture<FetchResponse> reply) throws Exception {
        List<String> ranks = new ArrayList<>();
        is(FetchResponse.Success.class, reply).elementsList().forEach(
            element -> ranks.add(element.getId() + " " + element.getScore() + " " + element.getRank()));
        return ranks;
    }

    /** What one subscription has received. */
    private static final class Received implements ISubscriptionCallbacks {
        final List<String> messages = Collections.synchronizedList(new ArrayList<>());
        final AtomicInteger discontinuities = new AtomicInteger();
        final AtomicInteger errors = new AtomicInteger();
        final AtomicInteger restored = new AtomicInteger();
        TopicSubscribeResponse subscription;

        static Received of(TopicClient topics, String topic) throws Exception {
            Received received = new Received();
            received.subscription = topics.subscribe(CACHE, topic, received).get(20, TimeUnit.SECONDS);
            return received;
        }

        void unsubscribe() {
            assertInstanceOf(TopicSubscribeResponse.Subscription.class, subscription).unsubscribe();
        }

        void waitFor(int count) throws Exception {
            until(count + " messages", () -> messages.size() >= count);
        }

        @Override
        public void onItem(TopicMessage message) {
            if (message instanceof TopicMessage.Text text) {
                messages.add(text.getValue() + (text.getTokenId() == null ? "" : " of " + text.getTokenId()));
            } else if (message instanceof TopicMessage.Binary binary) {
                messages.add(new String(binary.getValue(), StandardCharsets.UTF_8) + " (binary)");
            }
        }

        @Override
        public void onCompleted() {
        }

        @Override
        public void onError(Throwable error) {
            errors.incrementAndGet();
        }

        @Override
        public void onDiscontinuity(TopicDiscontinuity discontinuity) {
            discontinuities.incrementAndGet();
        }

        @Override
        public void onConnectionRestored() {
            restored.incrementAndGet();
        }
    }

    @Test
    void topicsReachTheirSubscribers() throws Exception {
        TopicClient topics = server.topicClient(server.credentials());
        Received got = Received.of(topics, "news");
        is(TopicPublishResponse.Success.class, topics.publish(CACHE, "news", "text"));
        is(TopicPublishResponse.Success.class, topics.publish(CACHE, "news", bytes("bytes")));
        plain.publish("news", "published by Redis");
        got.waitFor(3);
        assertEquals(List.of("text", "bytes (binary)", "published by Redis"), got.messages);
        got.unsubscribe();
        fails(NOT_FOUND_ERROR, topics.publish("absent", "news", "v"));
        failed(NOT_FOUND_ERROR, topics.subscribe("absent", "news", new Received()).get(20, TimeUnit.SECONDS));
    }

    @Test
    void subscriptionContinuesAfterItsConnectionWasCut() throws Exception {
        Received got = Received.of(server.topicClient(server.credentials()), "cut");
        plain.publish("cut", "0");
        got.waitFor(1);
        server.proxy.cut();
        List<String> wanted = new ArrayList<>(List.of("0"));
        for (int at = 1; at < 20; at++) {
            plain.publish("cut", Integer.toString(at));
            wanted.add(Integer.toString(at));
        }
        got.waitFor(20);
        assertEquals(wanted, got.messages);
        assertEquals(0, got.discontinuities.get() + got.errors.get());
        assertEquals(1, got.restored.get());
        got.unsubscribe();
    }

    private static String token(AuthClient auth, DisposableTokenScope scope, String id) throws Exception {
        CompletableFuture<?> reply = auth.generateDisposableTokenAsync(scope, ExpiresIn.minutes(5), id);
        return tokenOf(is(GenerateDisposableTokenResponse.Success.class, reply).authToken());
    }

    @Test
    void disposableTokensAreLimitedToKeysAndPrefixes() throws Exception {
        AuthClient auth = server.authClient();
        is(GenerateDisposableTokenResponse.Success.class,
            auth.generateDisposableTokenAsync(DisposableTokenScopes.cacheReadOnly(CACHE), ExpiresIn.minutes(5)));
        List<String> keys = List.of("a:1", "a:2", "b");
        List<String> none = List.of();
        List<String> one = List.of("a:1");
        List<String> prefixed = List.of("a:1", "a:2");
        record Case(DisposableTokenScope scope, List<String> reads, List<String> writes) { }
        for (Case each : List.of(
            new Case(DisposableTokenScopes.cacheReadWrite(CACHE), keys, keys),
            new Case(DisposableTokenScopes.cacheReadWrite(CacheSelector.AllCaches), keys, keys),
            new Case(DisposableTokenScopes.cacheReadOnly(CACHE), keys, none),
            new Case(DisposableTokenScopes.cacheWriteOnly(CACHE), none, keys),
            new Case(DisposableTokenScopes.cacheReadWrite("other"), none, none),
            new Case(DisposableTokenScopes.cacheKeyReadWrite(CACHE, "a:1"), one, one),
            new Case(DisposableTokenScopes.cacheKeyReadOnly(CACHE, "a:1"), one, none),
            new Case(DisposableTokenScopes.cacheKeyWriteOnly(CACHE, "a:1"), none, one),
            new Case(DisposableTokenScopes.cacheKeyPrefixReadWrite(CACHE, "a:"), prefixed, prefixed),
            new Case(DisposableTokenScopes.cacheKeyPrefixReadOnly(CACHE, "a:"), prefixed, none),
            new Case(DisposableTokenScopes.cacheKeyPrefixWriteOnly(CACHE, "a:"), none, prefixed))) {
            plain.flushAll();
            String token = token(auth, each.scope, "");
            CacheClient limited = server.cacheClient(server.credentials(token));
            for (String key : keys) {
                CompletableFuture<GetResponse> get = limited.get(CACHE, key);
                if (each.reads.contains(key)) {
                    is(GetResponse.Miss.class, get);
                } else {
                    fails(PERMISSION_ERROR, get);
                }
            }
            for (String key : keys) {
                CompletableFuture<SetResponse> set = limited.set(CACHE, key, "v");
                if (each.writes.contains(key)) {
                    is(SetResponse.Success.class, set);
                } else {
                    fails(PERMISSION_ERROR, set);
                }
            }
        }
        String token = token(auth, DisposableTokenScopes.cacheReadWrite(CACHE), "");
        String forged = token.substring(0, token.length() - 1) + (token.endsWith("A") ? "B" : "A");
        fails(AUTHENTICATION_ERROR, server.cacheClient(server.credentials(forged)).get(CACHE, "k"));
    }

    private static TopicClient limited(AuthClient auth, DisposableTokenScope scope, String id) throws Exception {
        return server.topicClient(server.credentials(token(auth, scope, id)));
    }

    @Test
    void disposableTokensAreLimitedToTopics() throws Exception {
        AuthClient auth = server.authClient();
        TopicSelector prefix = TopicSelector.ByTopicNamePrefix("new");
        TopicClient publisher = limited(auth, DisposableTokenScopes.topicPublishOnly(CACHE, "news"), "ann");
        TopicClient subscriber = limited(auth, DisposableTokenScopes.topicSubscribeOnly(CACHE, "news"), "");
        TopicClient both = limited(auth, DisposableTokenScopes.topicPublishSubscribe(CACHE, prefix), "bob");
        Received got = Received.of(subscriber, "news");
        is(TopicPublishResponse.Success.class, publisher.publish(CACHE, "news", "v"));
        is(TopicPublishResponse.Success.class, both.publish(CACHE, "news", "w"));
        got.waitFor(2);
        assertEquals(List.of("v of ann", "w of bob"), got.messages);
        fails(PERMISSION_ERROR, publisher.publish(CACHE, "other", "v"));
        fails(PERMISSION_ERROR, both.publish(CACHE, "other", "v"));
        fails(PERMISSION_ERROR, subscriber.publish(CACHE, "news", "v"));
        failed(PERMISSION_ERROR, Received.of(publisher, "news").subscription);
        got.unsubscribe();
    }

    @Test
    void errorsHaveTheCodesOfTheProtocol() throws Exception {
        plain.rpush("list", "a");
        plain.set("text", "no number");
        fails(BAD_REQUEST_ERROR, cache.get(CACHE, "list"));
        fails(BAD_REQUEST_ERROR, cache.increment(CACHE, "text", 1));
        fails(BAD_REQUEST_ERROR, cache.get(CACHE, ""));
        fails(NOT_FOUND_ERROR, cache.listFetch("absent", "l"));
        byte[] item = new byte[3 << 20];
        names("item_size_limit_exceeded", fails(LIMIT_EXCEEDED_ERROR, cache.set(CACHE, bytes("k"), item)));
        byte[] request = new byte[11 << 20];
        names("request_size_limit_exceeded", fails(LIMIT_EXCEEDED_ERROR, cache.set(CACHE, bytes("k"), request)));
        names("element_size_limit_exceeded", fails(LIMIT_EXCEEDED_ERROR, cache.setAddElement(CACHE, "s", item)));
    }

    @Test
    void everyPublishedCallIsTested() throws Exception {
        haveCallsOfEveryMethodOf(CacheClient.class, 100);
        haveCallsOfEveryMethodOf(TopicClient.class, 3);
        haveCallsOfEveryMethodOf(AuthClient.class, 2);
        haveCallsOfEveryMethodOf(ILeaderboard.class, 11);
        haveCallsOfEveryMethodOf(IPreviewStorageClient.class, 9);
    }
}
