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

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.dataformat.toml.TomlMapper;
import com.google.protobuf.Descriptors.FileDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Topics, leases, records, leaderboards, tokens and the near cache, against a real server. */
class ServicesTest {
    private static final String CACHE = "default";

    private static CacheClient client;

    @BeforeAll
    static void connect() {
        client = Servers.client(Servers.shared(), Configurations.Laptop.v1().withMetrics(true));
    }

    @AfterAll
    static void close() {
        client.close();
    }

    /** A call that a newer schema has would be missing in the table without a notice. */
    @Test
    void tableHasEveryCallOfTheSchema() {
        Set<String> schema = new HashSet<>();
        for (String file : List.of(
                "CacheProto", "Records", "Topics", "Leaderboards", "Tokens", "Graph", "Invalidations")) {
            FileDescriptor descriptor = descriptor(file);
            descriptor.getServices().forEach(service ->
                    service.getMethods().forEach(each -> schema.add(service.getFullName() + "/" + each.getName())));
        }
        Set<String> table = new HashSet<>();
        Method.all().forEach(each -> table.add(each.descriptor().getFullMethodName()));
        assertEquals(schema, table);
    }

    private static FileDescriptor descriptor(String file) {
        return switch (file) {
            case "CacheProto" -> dev.gannet.v1.GetRequest.getDescriptor().getFile();
            case "Records" -> dev.gannet.v1.Bin.getDescriptor().getFile();
            case "Topics" -> dev.gannet.v1.TopicItem.getDescriptor().getFile();
            case "Leaderboards" -> dev.gannet.v1.RankedElement.getDescriptor().getFile();
            case "Tokens" -> dev.gannet.v1.ApiToken.getDescriptor().getFile();
            case "Graph" -> dev.gannet.v1.GraphEdge.getDescriptor().getFile();
            default -> dev.gannet.v1.AllKeys.getDescriptor().getFile();
        };
    }

    private static TopicEvent nextOf(TopicSubscription subscription) {
        TopicEvent event = got(subscription.next());
        while (event instanceof TopicEvent.Heartbeat) {
            event = got(subscription.next());
        }
        return event;
    }

    @Test
    void topicsCarryTextsAndBytes() {
        try (TopicSubscription subscription = client.topicSubscribe(CACHE, "services bytes")) {
            got(subscription.begun());
            success(client.topicPublish(CACHE, "services bytes", "text"));
            success(client.topicPublish(CACHE, "services bytes", Bytes.of((byte) 0xff, (byte) 0)));
            TopicEvent.Item text = assertInstanceOf(TopicEvent.Item.class, nextOf(subscription));
            assertTrue(text.isText());
            assertEquals("text", text.valueString());
            TopicEvent.Item data = assertInstanceOf(TopicEvent.Item.class, nextOf(subscription));
            assertFalse(data.isText());
            assertEquals(Bytes.of((byte) 0xff, (byte) 0), data.value());
            assertEquals(text.sequence() + 1, data.sequence());
            // A program that restarts continues where it was.
            try (TopicSubscription again =
                    client.topicSubscribe(CACHE, "services bytes", data.sequence(), data.page())) {
                assertEquals(data, nextOf(again));
            }
        }
    }

    /** A reader that is slow must hold back the stream, not fill the memory of the client. */
    @Test
    void slowSubscriberLosesNothingAndHoldsLittle() {
        try (TopicSubscription slow = client.topicSubscribe(CACHE, "services slow")) {
            got(slow.begun());
            List<CompletableFuture<DoneResult>> published = new ArrayList<>();
            for (int at = 0; at < 500; at++) {
                published.add(client.topicPublish(CACHE, "services slow", "message " + at));
            }
            published.forEach(Expect::success);
            eventually("the buffer is full", () -> slow.buffered() == TopicSubscription.BUFFER_EVENTS);
            Servers.sleep(100);
            assertEquals(TopicSubscription.BUFFER_EVENTS, slow.buffered());
            long expected = 0;
            for (int at = 0; at < 500; at++) {
                TopicEvent.Item item = assertInstanceOf(TopicEvent.Item.class, nextOf(slow));
                expected = expected == 0 ? item.sequence() : expected + 1;
                assertEquals(expected, item.sequence());
            }
        }
    }

    /** Events that were meant for readers that gave up must keep their order and the bound of the buffer. */
    @Test
    void readersThatGiveUpTakeNoEvents() {
        ExecutorService executor = Executors.newSingleThreadExecutor();
        try (CacheClient own = Servers.client(Servers.shared(), Configurations.Laptop.v1().withExecutor(executor));
                TopicSubscription subscription = own.topicSubscribe(CACHE, "services order")) {
            got(subscription.begun());
            assertInstanceOf(TopicEvent.Heartbeat.class, got(subscription.next()));
            CompletableFuture<Void> gate = new CompletableFuture<>();
            executor.execute(gate::join);
            for (int at = 0; at < 100; at++) {
                CompletableFuture<TopicEvent> gone = subscription.next();
                assertTrue(at % 2 == 0 ? gone.cancel(true) : gone.complete(new TopicEvent.Closed()));
            }
            CompletableFuture<TopicEvent> first = subscription.next();
            for (int at = 0; at < 300; at++) {
                success(client.topicPublish(CACHE, "services order", "message " + at));
            }
            eventually("the buffer is full", () -> subscription.buffered() == TopicSubscription.BUFFER_EVENTS);
            // An event is assigned to it already.
            assertFalse(first.cancel(true));
            gate.complete(null);
            TopicEvent event = got(first);
            Servers.sleep(100);
            assertEquals(TopicSubscription.BUFFER_EVENTS, subscription.buffered());
            event = event instanceof TopicEvent.Heartbeat ? nextOf(subscription) : event;
            for (int at = 0; at < 300; at++) {
                TopicEvent.Item item = assertInstanceOf(TopicEvent.Item.class, event);
                assertEquals("message " + at, item.valueString());
                event = at < 299 ? nextOf(subscription) : event;
            }
        } finally {
            executor.shutdown();
        }
    }

    @Test
    void subscriptionEndsForItsReaders() {
        TopicSubscription subscription = client.topicSubscribe(CACHE, "services end");
        got(subscription.begun());
        assertInstanceOf(TopicEvent.Heartbeat.class, got(subscription.next()));
        CompletableFuture<TopicEvent> abandoned = subscription.next();
        abandoned.cancel(true);
        CompletableFuture<TopicEvent> reader = subscription.next();
        success(client.topicPublish(CACHE, "services end", "after a reader gave up"));
        assertInstanceOf(TopicEvent.Item.class, got(reader));
        CompletableFuture<TopicEvent> waiting = subscription.next();
        subscription.close();
        assertEquals(new TopicEvent.Closed(), got(waiting));
        assertEquals(new TopicEvent.Closed(), got(subscription.next()));
        error(ErrorCode.NOT_FOUND_CACHE, client.topicSubscribe("absent", "news").next(), "absent");
        CacheClient other = Servers.client(Servers.shared(), Configurations.Laptop.v1());
        TopicSubscription open = other.topicSubscribe(CACHE, "services end");
        got(open.begun());
        NearCache<String> near = other.nearCache(CACHE, 10, 10_000);
        other.close();
        assertInstanceOf(TopicEvent.Heartbeat.class, got(open.next()));
        error(ErrorCode.CANCELLED, open.next(), "the client is closed");
        eventually("the near cache has failed", () -> near.failure().isPresent());
    }

    @Test
    void leasesHaveTimes() {
        assertInstanceOf(LeaseResult.Won.class,
                got(client.leaseGet(CACHE, "services lease", Duration.ofSeconds(1), Duration.ofMillis(50))));
        assertInstanceOf(LeaseResult.Wait.class, got(client.leaseGet(CACHE, "services lease")));
        long[] token = new long[1];
        eventually("the lease ends, and another client wins it", () -> {
            LeaseResult result = got(client.leaseGet(CACHE, "services lease"));
            token[0] = result instanceof LeaseResult.Won won ? won.token() : 0;
            return token[0] != 0;
        });
        assertEquals(new ConditionalSetResult.Stored(), got(client.leaseSet(
                CACHE, "services lease", token[0], "v", Ttl.of(Duration.ofSeconds(30)))));
        assertEquals(new LeaseResult.Hit(Bytes.of("v")), got(client.leaseGet(CACHE, "services lease")));
        // It expires within this time, so that one client fills it again.
        assertEquals(Optional.of(Bytes.of("v")), assertInstanceOf(LeaseResult.Won.class, got(client.leaseGet(
                CACHE, "services lease", Duration.ofSeconds(60), Duration.ZERO))).stale());
        assertEquals(new FoundResult.Success(),
                got(client.leaseStale(CACHE, "services lease", Duration.ofMillis(20))));
        eventually("the stale value is gone",
                () -> got(client.get(CACHE, "services lease")) instanceof GetResult.Miss);
    }

    @Test
    void recordsHaveBinsOfAllTypes() {
        Map<String, BinValue> bins = Map.of(
                "integer", BinValue.of(-7), "number", BinValue.of(0.5), "boolean", BinValue.of(true),
                "text", BinValue.of("a"), "binary", BinValue.of(Bytes.of((byte) 0xff)),
                "list", BinValue.of(List.of(BinValue.of(1), BinValue.of("x"))),
                "map", new BinValue.Entries(Map.of(Bytes.of("k"), BinValue.of(2))));
        assertEquals(new RevisionResult.Success(1),
                got(client.recordPut(CACHE, "services r", bins, RecordChange.create().inSet("services"))));
        StoredRecord stored = assertInstanceOf(
                RecordResult.Hit.class, got(client.recordGet(CACHE, "services r"))).stored();
        assertEquals(bins, stored.bins());
        assertEquals(Bytes.of("services r"), stored.key());
        assertTrue(stored.expiresAt().isEmpty());
        assertEquals(new RevisionResult.Success(2), got(client.recordAppend(
                CACHE, "services r", Map.of("text", BinValue.of("b")), RecordChange.always().ifRevisionAbove(0))));
        assertEquals(new RevisionResult.Success(3), got(client.recordTouch(
                CACHE, "services r", RecordChange.always().withTtl(Duration.ofMinutes(1)))));
        RecordSelection text = RecordSelection.all().withBins("text").withFilter("integer < 0");
        stored = assertInstanceOf(RecordResult.Hit.class, got(client.recordGet(CACHE, "services r", text))).stored();
        assertEquals(Map.of("text", BinValue.of("ab")), stored.bins());
        assertTrue(stored.expiresAt().isPresent());
        error(ErrorCode.ABORTED, client.recordTouch(
                CACHE, "services r", RecordChange.always().ifRevision(9)), "recordGet");
        error(ErrorCode.NOT_FOUND_RECORD, client.recordAdd(
                CACHE, "services none", Map.of("a", BinValue.of(1)), RecordChange.update()), "recordPut");
    }

    /** A deletion with a false filter deleted the record. */
    @Test
    void deletionIgnoresNoConditionOfAChange() {
        got(client.recordPut(CACHE, "services kept", Map.of("stock", BinValue.of(7)), RecordChange.always()));
        for (RecordChange change : List.of(
                RecordChange.always().withFilter("stock = 0"), RecordChange.always().inSet("other"),
                RecordChange.create(), RecordChange.update(), RecordChange.replace(), RecordChange.always().persist(),
                RecordChange.update().ifRevision(1), RecordChange.always().withTtl(Duration.ofSeconds(1)))) {
            String message = assertThrows(IllegalArgumentException.class,
                    () -> client.recordDelete(CACHE, "services kept", change)).getMessage();
            assertTrue(message.endsWith("pass RecordChange.always().ifRevision(REVISION)"), message);
        }
        assertInstanceOf(RecordResult.Hit.class, got(client.recordGet(CACHE, "services kept")));
        error(ErrorCode.ABORTED, client.recordDelete(
                CACHE, "services kept", RecordChange.always().ifRevision(9)), "recordGet");
        assertEquals(new FoundResult.Success(), got(client.recordDelete(
                CACHE, "services kept", RecordChange.always().ifRevision(1))));
    }

    /** The server takes 0 ms for its default. */
    @Test
    void timesBelowAMillisecondAreNoDefaults() {
        for (Duration passed : List.of(Duration.ofSeconds(-1), Duration.ofNanos(999_999))) {
            assertThrows(IllegalArgumentException.class, () -> client.leaseStale(CACHE, "services time", passed));
            assertThrows(IllegalArgumentException.class,
                    () -> client.leaseGet(CACHE, "services time", passed, Duration.ZERO));
            assertThrows(IllegalArgumentException.class,
                    () -> client.leaseGet(CACHE, "services time", Duration.ZERO, passed));
        }
    }

    @Test
    void longestTimesAreNoOverflows() {
        Duration longest = Duration.ofSeconds(Long.MAX_VALUE);
        CacheCalls<String> patient = client.withDeadline(longest);
        success(patient.set(CACHE, "services long", "v", Ttl.of(longest)));
        success(patient.set(CACHE, "services long", "v"));
        try (CacheClient other = Servers.client(
                Servers.shared(), Configurations.Laptop.v1().withDeadline(longest).withEagerConnect(true))) {
            assertInstanceOf(GetResult.Hit.class, got(other.get(CACHE, "services long")));
        }
        CacheException refused = assertThrows(CacheException.class, () -> Servers.client(
                Servers.shared(), Configurations.Laptop.v1().withHedging(longest)));
        assertTrue(refused.getMessage().endsWith("; pass a shorter time"), refused.getMessage());
    }

    @Test
    void wrongArgumentsOfASubscriptionTakeNoPlace() {
        assertThrows(NullPointerException.class, () -> client.topicSubscribe(CACHE, null));
        assertThrows(NullPointerException.class, () -> client.topicSubscribe(null, "t"));
        assertThrows(IllegalArgumentException.class, () -> client.topicSubscribe(CACHE, "t", -1, 0));
        assertThrows(IllegalArgumentException.class, () -> client.topicSubscribe(CACHE, "t", 1, -1));
        CacheException refused = assertThrows(CacheException.class, () -> Servers.client(
                Servers.shared(), Configurations.Laptop.v1().withRequestsInFlightMax(100_001)));
        assertTrue(refused.getMessage().contains("which needs 1001 connections"), refused.getMessage());
    }

    @Test
    void negativeCountsAreNotZero() {
        assertThrows(IllegalArgumentException.class, () -> client.setSample(CACHE, "services set", -1));
        assertThrows(IllegalArgumentException.class, () -> client.setPop(CACHE, "services set", -1));
    }

    /** Java encodes a lone surrogate as "?": two texts would be one key, or one name. */
    @Test
    void loneSurrogatesAreNoQuestionMarks() {
        String bad = "\ud83d";
        for (String text : List.of(bad, "a" + bad, bad + "a", "\udc00\ud83d", "\udc00")) {
            assertThrows(IllegalArgumentException.class, () -> client.set(CACHE, text, "v"));
            assertThrows(IllegalArgumentException.class, () -> client.set(CACHE, "k", text));
            assertThrows(IllegalArgumentException.class, () -> Bytes.of(text));
            assertThrows(IllegalArgumentException.class, () -> client.recordPut(
                    CACHE, "services text", Map.of("a", BinValue.of(text)), RecordChange.always()));
            assertThrows(IllegalArgumentException.class, () -> client.recordPut(
                    CACHE, "services text", Map.of(text, BinValue.of(1)), RecordChange.always()));
        }
        long retries = client.metrics().retries();
        String remedy = "; correct the text";
        error(ErrorCode.INVALID_ARGUMENT, client.topicPublish(CACHE, bad, "v"), "the text of topic", remedy);
        error(ErrorCode.INVALID_ARGUMENT, client.topicSubscribe(CACHE, bad).next(), "the text of topic", remedy);
        error(ErrorCode.INVALID_ARGUMENT, client.leaderboardDelete(CACHE, bad), "the text of leaderboard", remedy);
        error(ErrorCode.INVALID_ARGUMENT, client.createCache(bad), "the text of name", remedy);
        error(ErrorCode.INVALID_ARGUMENT, client.recordScan(CACHE, bad, RecordSelection.all()), "the text of set",
                remedy);
        error(ErrorCode.INVALID_ARGUMENT, client.recordGet(
                CACHE, "services text", RecordSelection.all().withFilter(bad)), "the text of filter", remedy);
        for (String cache : List.of("Köln", bad, "a\n")) {
            error(ErrorCode.INVALID_ARGUMENT, client.get(cache, "k"), "the name of the cache is not printable ASCII");
        }
        assertEquals(retries, client.metrics().retries());
        success(client.set(CACHE, "\ud83d\ude00", "v"));
        assertEquals(new GetResult.Hit(Bytes.of("v")),
                got(client.binary().get(CACHE, Bytes.of((byte) 0xf0, (byte) 0x9f, (byte) 0x98, (byte) 0x80))));
    }

    @Test
    void recordsAreReadInPages() {
        Servers.redis(Servers.shared(), "REC.INDEX CREATE paged n INT MEMORY 1048576");
        for (int at = 0; at < 30; at++) {
            got(client.recordPut(CACHE, "paged " + at, Map.of("n", BinValue.of(at)),
                    RecordChange.always().inSet("paged")));
        }
        Set<String> keys = new HashSet<>();
        RecordSelection page = RecordSelection.all().withCountMax(7);
        int pages = 0;
        do {
            RecordPageResult.Success reply =
                    assertInstanceOf(RecordPageResult.Success.class, got(client.recordScan(CACHE, "paged", page)));
            reply.records().forEach(each -> keys.add(each.key().toString()));
            page = page.after(reply.cursor());
            pages++;
        } while (!page.cursor().isEmpty());
        assertEquals(30, keys.size());
        assertTrue(pages > 1);
        RecordPageResult.Success equal = assertInstanceOf(RecordPageResult.Success.class, got(
                client.recordQuery(CACHE, "paged", "n", BinValue.of(5), RecordSelection.all())));
        assertEquals(List.of("paged 5"), equal.records().stream().map(each -> each.key().toString()).toList());
        RecordPageResult.Success range = assertInstanceOf(RecordPageResult.Success.class, got(client.recordQuery(
                CACHE, "paged", "n", BinValue.of(5), BinValue.of(8), RecordSelection.all())));
        assertEquals(4, range.records().size());
    }

    @Test
    void leaderboardsHaveUnsignedIds() {
        long greatest = 4_294_967_295L;
        success(client.leaderboardUpsert(CACHE, "services board", Map.of(0L, 1.5, greatest, 2.5)));
        assertEquals(
                new LeaderboardResult.Success(
                        List.of(new RankedElement(greatest, 0, 2.5), new RankedElement(0, 1, 1.5))),
                got(client.leaderboardGetByScore(CACHE, "services board", OptionalDouble.empty(),
                        OptionalDouble.empty(), 0, 0, Order.DESCENDING)));
        assertThrows(IllegalArgumentException.class,
                () -> client.leaderboardRemove(CACHE, "services board", List.of(greatest + 1)));
        success(client.leaderboardDelete(CACHE, "services board"));
    }

    private static CacheClient withToken(TokenResult.Success token) {
        return CacheClient.create(Credentials.token(Servers.shared().address(), token.token()),
                Configurations.Laptop.v1(), Duration.ofMinutes(1));
    }

    @Test
    void tokensPermitWhatTheyName() {
        Permission users =
                Permission.items(Permission.Role.READ_ONLY).inCache(CACHE).withPrefix(Bytes.of("services user:"));
        Permission topic = Permission.topics(Permission.Role.READ_WRITE).withName(Bytes.of("services token"));
        TokenRequest asked = TokenRequest.of(users, topic).withId("tester");
        assertThrows(IllegalArgumentException.class, () -> client.generateDisposableToken(asked));
        TokenResult.Success disposable = assertInstanceOf(TokenResult.Success.class,
                got(client.generateDisposableToken(asked.expiresAfter(Duration.ofMinutes(1)))));
        assertTrue(disposable.validUntil().isPresent() && disposable.refreshToken().isEmpty());
        assertFalse(disposable.toString().contains(disposable.token()));
        try (CacheClient limited = withToken(disposable);
                TopicSubscription subscription = limited.topicSubscribe(CACHE, "services token")) {
            assertEquals(new GetResult.Miss(), got(limited.get(CACHE, "services user:1")));
            error(ErrorCode.PERMISSION_DENIED, limited.get(CACHE, "services other"));
            error(ErrorCode.PERMISSION_DENIED, limited.set(CACHE, "services user:1", "v"));
            got(subscription.begun());
            success(limited.topicPublish(CACHE, "services token", "hello"));
            assertEquals("tester", assertInstanceOf(TopicEvent.Item.class, nextOf(subscription)).publisherId());
        }
        TokenResult.Success api = assertInstanceOf(TokenResult.Success.class,
                got(client.generateApiToken(TokenRequest.superuser().expiresAfter(Duration.ofHours(1)))));
        TokenResult.Success fresh = assertInstanceOf(TokenResult.Success.class,
                got(client.refreshApiToken(api.token(), api.refreshToken())));
        try (CacheClient all = withToken(fresh)) {
            success(all.set(CACHE, "services all", "v"));
        }
        error(ErrorCode.UNAUTHENTICATED, client.refreshApiToken(api.token(), "wrong"));
        TokenResult.Success endless = assertInstanceOf(TokenResult.Success.class,
                got(client.generateApiToken(TokenRequest.superuser())));
        assertTrue(endless.validUntil().isEmpty());
    }

    @Test
    void nearCacheHoldsAtMostItsBounds() {
        for (int at = 0; at < 4; at++) {
            success(client.set(CACHE, "services near:" + at, "v".repeat(100)));
        }
        success(client.set(CACHE, "services far", "v"));
        try (NearCache<String> near = client.nearCache(CACHE, 3, 2_000, List.of("services near:"))) {
            got(near.begun());
            eventually("copies are kept", () -> {
                got(near.get("services near:0"));
                return near.metrics().entries() == 1;
            });
            // The first one is read again, so that the second one is the oldest.
            for (int at : new int[] {1, 2, 0, 3}) {
                assertInstanceOf(GetResult.Hit.class, got(near.get("services near:" + at)));
            }
            assertEquals(3, near.metrics().entries());
            assertEquals(1, near.metrics().evictions());
            long misses = near.metrics().misses();
            got(near.get("services near:0"));
            assertEquals(misses, near.metrics().misses());
            got(near.get("services near:1"));
            assertEquals(misses + 1, near.metrics().misses());
            assertTrue(near.metrics().bytes() <= 2_000);
            // A key without a prefix has no copy, because the server does not report its changes.
            got(near.get("services far"));
            got(near.get("services far"));
            assertEquals(misses + 3, near.metrics().misses());
            // A value beyond the bytes has no copy.
            success(client.set(CACHE, "services near:0", "v".repeat(5_000)));
            got(near.get("services near:0"));
            assertTrue(near.metrics().bytes() <= 2_000);
        }
        assertThrows(IllegalArgumentException.class, () -> client.nearCache(CACHE, 0, 1));
        try (NearCache<String> near = client.nearCache("absent", 10, 10_000)) {
            got(near.begun());
            Expect.check(ErrorCode.NOT_FOUND_CACHE, near.failure().orElseThrow());
            error(ErrorCode.NOT_FOUND_CACHE, near.get("k"));
        }
    }

    /** A copy made from a reply that is older than the change would be stale for ever. */
    @Test
    void changesDuringReadsLeaveNoStaleCopy() {
        try (NearCache<String> near = client.nearCache(CACHE, 100, 100_000);
                CacheClient other = Servers.client(Servers.shared(), Configurations.Laptop.v1())) {
            got(near.begun());
            for (int at = 0; at < 300; at++) {
                CompletableFuture<GetResult> read = near.get("services raced");
                CompletableFuture<DoneResult> own = client.set(CACHE, "services raced", "own " + at);
                CompletableFuture<GetResult> second = near.get("services raced");
                success(own);
                assertEquals("own " + at, assertInstanceOf(GetResult.Hit.class, got(near.get("services raced")))
                        .valueString());
                got(read);
                got(second);
            }
            success(other.set(CACHE, "services raced", "last"));
            eventually("the change of another client is seen", () ->
                    got(near.get("services raced")) instanceof GetResult.Hit hit && hit.valueString().equals("last"));
            Servers.sleep(20);
            assertEquals("last", ((GetResult.Hit) got(near.get("services raced"))).valueString());
        }
    }

    private static CacheClient through(Proxy between) {
        // Neither pings nor calls find a dead connection: only the streams notice it.
        return CacheClient.create(
                Credentials.noToken(between.address()),
                Configurations.Laptop.v1().withKeepalive(Duration.ZERO, Duration.ofSeconds(1), false)
                        .withReconnectDelay(Duration.ofMillis(300), Duration.ofMillis(300)),
                Duration.ofMinutes(1));
    }

    /** The delayed beginning of a stream must find that the stream has ended meanwhile. */
    @Test
    void subscriptionThatIsClosedWhileItReconnectsLeaksItsStream() {
        try (Proxy between = new Proxy(Servers.shared().address(), at -> 0);
                CacheClient own = through(between)) {
            TopicSubscription subscription = own.topicSubscribe(CACHE, "services reconnect");
            got(subscription.begun());
            assertEquals(1, own.engine.streams.inFlight());
            between.cut();
            eventually("the stream is lost", () -> own.engine.streams.inFlight() == 0);
            subscription.close();
            Servers.sleep(600);
            assertEquals(0, own.engine.eventStreams.size());
            assertEquals(0, own.engine.streams.inFlight());
            assertEquals(0, own.engine.timers.getQueue().size());
        }
    }

    @Test
    void connectionOfStreamsIsClosedWithTheLastOne() {
        try (CacheClient own = Servers.client(Servers.shared(), Configurations.Laptop.v1())) {
            for (int at = 0; at < 2; at++) {
                TopicSubscription first = own.topicSubscribe(CACHE, "services last");
                TopicSubscription last = own.topicSubscribe(CACHE, "services last");
                got(first.begun());
                got(last.begun());
                first.close();
                eventually("one stream is left", () -> own.engine.streams.inFlight() == 1);
                assertEquals(1, own.engine.streams.size());
                last.close();
                eventually("no connection is left", () -> own.engine.streams.size() == 0);
            }
        }
    }

    @Test
    void silentStreamsStayOnTheConnectionThatIsDead() {
        try (Proxy between = new Proxy(Servers.shared().address(), at -> 0);
                CacheClient own = through(between)) {
            own.engine.silenceNs = Duration.ofSeconds(6).toNanos();
            TopicSubscription subscription = own.topicSubscribe(CACHE, "services dead");
            NearCache<String> near = own.nearCache(CACHE, 10, 10_000);
            got(near.begun());
            got(subscription.begun());
            success(client.topicPublish(CACHE, "services dead", "a"));
            assertEquals("a", assertInstanceOf(TopicEvent.Item.class, nextOf(subscription)).valueString());
            int before = between.accepted();
            between.swallow();
            success(client.topicPublish(CACHE, "services dead", "b"));
            assertEquals("b", assertInstanceOf(TopicEvent.Item.class, nextOf(subscription)).valueString());
            assertTrue(between.accepted() > before);
            eventually("the near cache is watched again",
                    () -> near.metrics().isWatching() && own.metrics().resumes() == 2);
        }
    }

    /** The attempt after the first silence may be silent too. */
    @Test
    void nearCacheStopsForGoodAfterASilentAttempt() {
        try (Proxy between = new Proxy(Servers.shared().address(), at -> 0);
                CacheClient own = through(between)) {
            own.engine.silenceNs = Duration.ofMillis(500).toNanos();
            NearCache<String> near = own.nearCache(CACHE, 10, 10_000);
            got(near.begun());
            for (int at = 0; at < 3; at++) {
                int before = between.accepted();
                between.swallow();
                eventually("there is another connection", () -> between.accepted() > before);
            }
            eventually("the near cache is watched again", () -> near.metrics().isWatching());
        }
    }

    @Test
    void nearCacheServesACopyAfterTheProcessWasStopped() {
        success(client.set(CACHE, "services stopped", "v"));
        try (NearCache<String> near = client.nearCache(CACHE, 10, 10_000)) {
            got(near.begun());
            eventually("there is a copy", () -> {
                got(near.get("services stopped"));
                return near.metrics().entries() == 1;
            });
            long hits = near.metrics().hits();
            got(near.get("services stopped"));
            assertEquals(hits + 1, near.metrics().hits());
            synchronized (near) {
                near.lastEvent -= Duration.ofSeconds(16).toNanos();
            }
            got(near.get("services stopped"));
            got(near.get("services stopped"));
            assertEquals(hits + 1, near.metrics().hits());
            assertEquals(0, near.metrics().entries());
            // The next heartbeat shows that the watch works.
            eventually("there is a copy again", () -> {
                got(near.get("services stopped"));
                return near.metrics().entries() == 1;
            });
        }
    }

    @Test
    void statusesThatEndStreamsDifferFromThoseOfOtherLanguages() throws IOException {
        JsonNode table = new TomlMapper().readTree(Servers.REPOSITORY.resolve("clients/streams.toml").toFile());
        Set<Status.Code> lasting = EnumSet.noneOf(Status.Code.class);
        table.get("lasting").forEach(each -> lasting.add(Status.Code.valueOf(each.asText())));
        Set<Status.Code> passing = EnumSet.noneOf(Status.Code.class);
        table.get("passing").forEach(each -> passing.add(Status.Code.valueOf(each.asText())));
        assertEquals(lasting, EventStream.PERMANENT);
        assertEquals(EnumSet.complementOf(EnumSet.copyOf(lasting)), passing);
    }
}
