package gannet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.GeoUnit;
import org.redisson.api.RBatch;
import org.redisson.api.RBitSet;
import org.redisson.api.RBlockingDeque;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBloomFilter;
import org.redisson.api.RBoundedBlockingQueue;
import org.redisson.api.RBucket;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RGeo;
import org.redisson.api.RHyperLogLog;
import org.redisson.api.RLexSortedSet;
import org.redisson.api.RList;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RPriorityQueue;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RReliableTopic;
import org.redisson.api.RRingBuffer;
import org.redisson.api.RScoredSortedSet;
import org.redisson.api.RScript;
import org.redisson.api.RSemaphore;
import org.redisson.api.RSet;
import org.redisson.api.RSetCache;
import org.redisson.api.RSetMultimap;
import org.redisson.api.RSortedSet;
import org.redisson.api.RStream;
import org.redisson.api.RTimeSeries;
import org.redisson.api.RTopic;
import org.redisson.api.RTransaction;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.SortOrder;
import org.redisson.api.StreamMessageId;
import org.redisson.api.TransactionOptions;
import org.redisson.api.geo.GeoSearchArgs;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamReadArgs;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Tests the published, unmodified Redisson beside Debian's redis-server: the same program has the same output. */
final class RedissonTest {
    private static Server server;
    private static Server redis;

    @BeforeAll
    static void start() throws Exception {
        server = Server.withResp();
        redis = Server.redis();
    }

    @AfterAll
    static void stop() throws Exception {
        redis.close();
        server.close();
    }

    private static RedissonClient connect(Server to, String user) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setThreads(2).setNettyThreads(2);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + to.respPort).setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(4).setTimeout(20_000).setRetryAttempts(0);
        if (user != null) {
            config.useSingleServer().setUsername(user).setPassword("secret");
        }
        return Redisson.create(config);
    }

    private interface Program {
        void run(RedissonClient client, List<Object> output) throws Exception;
    }

    private static void compare(Program program) throws Exception {
        List<List<Object>> outputs = new ArrayList<>();
        for (Server to : List.of(redis, server)) {
            RedissonClient client = connect(to, null);
            List<Object> output = new ArrayList<>();
            try {
                client.getKeys().flushall();
                program.run(client, output);
            } finally {
                client.shutdown(0, 5, TimeUnit.SECONDS);
            }
            outputs.add(output);
        }
        assertFalse(outputs.get(0).isEmpty());
        assertEquals(outputs.get(0), outputs.get(1));
    }

    @Test
    void stringsHashesKeysAndExpiry() throws Exception {
        compare((client, output) -> {
            RBucket<String> bucket = client.getBucket("bucket");
            bucket.set("one");
            output.add(bucket.get());
            output.add(bucket.getAndSet("two"));
            output.add(bucket.setIfAbsent("three"));
            output.add(client.getBucket("new").setIfAbsent("four", Duration.ofSeconds(100)));
            output.add(bucket.size());
            output.add(bucket.remainTimeToLive());
            bucket.set("three", Duration.ofSeconds(100));
            output.add(bucket.remainTimeToLive() > 90_000);
            output.add(bucket.clearExpire());
            output.add(bucket.delete());
            output.add(bucket.isExists());
            output.add(client.getAtomicLong("number").incrementAndGet());
            output.add(client.getAtomicLong("number").addAndGet(41));
            output.add(client.getAtomicDouble("double").addAndGet(0.5));
            client.getBuckets().set(Map.of("a", "1", "b", "2"));
            output.add(client.getBuckets().get("a", "b", "none").toString());
            RMap<String, String> map = client.getMap("map");
            output.add(map.fastPut("f", "v"));
            output.add(map.fastPut("f", "w"));
            output.add(map.fastPutIfAbsent("g", "x"));
            map.putAll(Map.of("h", "y", "i", "z"));
            output.add(map.get("f") + map.size() + map.containsKey("none"));
            output.add(new TreeSet<>(map.readAllKeySet()).toString());
            output.add(new TreeSet<>(map.readAllValues()).toString());
            output.add(map.fastRemove("f", "g", "none"));
            bucket = client.getBucket("old");
            bucket.set("moved");
            bucket.rename("moved");
            output.add(client.getBucket("moved").get());
            output.add(client.getKeys().count());
            TreeSet<String> keys = new TreeSet<>();
            client.getKeys().getKeys().forEach(keys::add);
            output.add(keys.toString());
            output.add(client.getKeys().countExists("a", "b", "none"));
            output.add(client.getKeys().delete("a", "b", "none"));
            output.add(client.getKeys().getType("map").toString());
        });
    }

    @Test
    void transactionsAndMessages() throws Exception {
        compare((client, output) -> {
            RBatch batch = client.createBatch(BatchOptions.defaults()
                    .executionMode(BatchOptions.ExecutionMode.IN_MEMORY_ATOMIC));
            batch.getBucket("k").setAsync("v");
            batch.getAtomicLong("n").incrementAndGetAsync();
            batch.getMap("m").fastPutAsync("f", "v");
            batch.getBucket("k").getAsync();
            output.add(batch.execute().getResponses().toString());
            BlockingQueue<String> received = new LinkedBlockingQueue<>();
            RTopic topic = client.getTopic("news");
            int listener = topic.addListener(String.class, (channel, message) -> received.add(channel + message));
            output.add(topic.publish("hello"));
            output.add(received.poll(20, TimeUnit.SECONDS));
            topic.removeListener(listener);
            output.add(topic.publish("nobody"));
        });
    }

    @Test
    void usersAndTheirRights() throws Exception {
        List<List<Object>> outputs = new ArrayList<>();
        for (Server to : List.of(redis, server)) {
            try (redis.clients.jedis.Jedis admin = new redis.clients.jedis.Jedis("127.0.0.1", to.respPort)) {
                admin.aclSetUser("ann", "on", ">secret", "~ann:*", "&*", "+@all", "-del");
            }
            RedissonClient client = connect(to, "ann");
            List<Object> output = new ArrayList<>();
            try {
                client.getBucket("ann:k").set("v");
                output.add(client.getBucket("ann:k").get());
                for (Runnable refused : List.<Runnable>of(() -> client.getBucket("ann:k").delete(),
                        () -> client.getBucket("bob:k").get())) {
                    try {
                        refused.run();
                        output.add("executed");
                    } catch (RedisException error) {
                        output.add(error.getMessage().split("\\. channel")[0]);
                    }
                }
            } finally {
                client.shutdown(0, 5, TimeUnit.SECONDS);
            }
            outputs.add(output);
        }
        assertEquals(outputs.get(0), outputs.get(1));
    }

    /** Two clients: one holds a lock, the other one waits for it. */
    @Test
    void locksAreHeldByOneClientAndWaitedFor() throws Exception {
        for (Server to : List.of(redis, server)) {
            RedissonClient one = connect(to, null);
            RedissonClient other = connect(to, null);
            try {
                one.getKeys().flushall();
                RLock held = one.getLock("lock");
                RLock wanted = other.getLock("lock");
                assertTrue(held.tryLock(1, 30, TimeUnit.SECONDS));
                held.lock();
                assertEquals(2, held.getHoldCount());
                assertFalse(wanted.tryLock());
                CompletableFuture<Boolean> obtained = CompletableFuture.supplyAsync(
                        () -> uninterrupted(() -> wanted.tryLock(20, 30, TimeUnit.SECONDS)));
                held.unlock();
                assertFalse(obtained.isDone());
                held.unlock();
                assertTrue(obtained.get(20, TimeUnit.SECONDS));
                assertTrue(wanted.isLocked() && wanted.remainTimeToLive() > 20_000);
                wanted.forceUnlock();
                AtomicInteger inside = new AtomicInteger();
                AtomicInteger most = new AtomicInteger();
                AtomicInteger times = new AtomicInteger();
                List<Thread> threads = new ArrayList<>();
                for (int number = 0; number < 6; number++) {
                    RLock lock = (number % 2 == 0 ? one : other).getFairLock("fair");
                    threads.add(new Thread(() -> {
                        for (int time = 0; time < 5; time++) {
                            lock.lock();
                            most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                            times.incrementAndGet();
                            inside.decrementAndGet();
                            lock.unlock();
                        }
                    }));
                }
                threads.forEach(Thread::start);
                for (Thread thread : threads) {
                    thread.join(40_000);
                }
                assertEquals(30, times.get());
                assertEquals(1, most.get());
                RReadWriteLock both = one.getReadWriteLock("both");
                assertTrue(both.readLock().tryLock());
                assertTrue(other.getReadWriteLock("both").readLock().tryLock());
                assertFalse(other.getReadWriteLock("both").writeLock().tryLock());
                RSemaphore semaphore = one.getSemaphore("semaphore");
                assertTrue(semaphore.trySetPermits(2));
                semaphore.acquire(2);
                assertFalse(other.getSemaphore("semaphore").tryAcquire());
                CompletableFuture<Boolean> permit = CompletableFuture.supplyAsync(() -> uninterrupted(
                        () -> other.getSemaphore("semaphore").tryAcquire(1, Duration.ofSeconds(20))));
                semaphore.release();
                assertTrue(permit.get(20, TimeUnit.SECONDS));
                RCountDownLatch latch = one.getCountDownLatch("latch");
                assertTrue(latch.trySetCount(1));
                CompletableFuture<Boolean> opened = CompletableFuture.supplyAsync(
                        () -> uninterrupted(() -> other.getCountDownLatch("latch").await(20, TimeUnit.SECONDS)));
                latch.countDown();
                assertTrue(opened.get(20, TimeUnit.SECONDS));
            } finally {
                one.shutdown(0, 5, TimeUnit.SECONDS);
                other.shutdown(0, 5, TimeUnit.SECONDS);
            }
        }
    }

    private static boolean uninterrupted(Callable<Boolean> wait) {
        try {
            return wait.call();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void queuesAndDelays() throws Exception {
        compare((client, output) -> {
            RBlockingQueue<String> queue = client.getBlockingQueue("queue");
            CompletableFuture<String> taken = queue.takeAsync().toCompletableFuture();
            queue.add("one");
            output.add(taken.get(20, TimeUnit.SECONDS));
            output.add(String.valueOf(queue.poll(50, TimeUnit.MILLISECONDS)));
            RBlockingDeque<String> deque = client.getBlockingDeque("deque");
            CompletableFuture<String> last = deque.takeLastAsync().toCompletableFuture();
            deque.putFirst("first");
            output.add(last.get(20, TimeUnit.SECONDS));
            queue.addAll(List.of("a", "b", "c"));
            output.add(queue.pollLastAndOfferFirstTo("other", 1, TimeUnit.SECONDS));
            output.add(client.getQueue("other").readAll().toString());
            RDelayedQueue<String> delayed = client.getDelayedQueue(client.getBlockingQueue("due"));
            delayed.offer("later", 100, TimeUnit.MILLISECONDS);
            output.add(client.<String>getBlockingQueue("due").poll(20, TimeUnit.SECONDS));
            delayed.destroy();
            RPriorityQueue<String> priorities = client.getPriorityQueue("priorities");
            priorities.addAll(List.of("3", "1", "2"));
            output.add(priorities.poll() + priorities.readAll());
            RBoundedBlockingQueue<String> bounded = client.getBoundedBlockingQueue("bounded");
            output.add(bounded.trySetCapacity(2));
            output.add(bounded.offer("x") && bounded.offer("y"));
            output.add(bounded.offer("z"));
            output.add(bounded.take());
            RRingBuffer<String> ring = client.getRingBuffer("ring");
            ring.trySetCapacity(3);
            ring.addAll(List.of("1", "2", "3", "4", "5"));
            output.add(ring.readAll().toString());
        });
    }

    @Test
    void collections() throws Exception {
        compare((client, output) -> {
            RList<String> list = client.getList("list");
            list.addAll(List.of("a", "b", "c", "d", "b"));
            list.add(1, "x");
            list.fastRemove(0);
            output.add(list.readAll().toString() + list.indexOf("b") + list.lastIndexOf("b"));
            output.add(list.subList(1, 3).readAll().toString());
            list.sort(Comparator.naturalOrder());
            output.add(list.readSortAlpha(SortOrder.DESC).toString() + list.range(0, 2));
            output.add(list.addAfter("b", "after"));
            RSet<String> set = client.getSet("set");
            set.addAll(List.of("a", "b", "c"));
            client.getSet("others").addAll(List.of("b", "c", "d"));
            output.add(new TreeSet<>(set.readIntersection("others")).toString());
            output.add(set.union("set", "others") + " " + set.diff("none") + set.contains("x"));
            RScoredSortedSet<String> scored = client.getScoredSortedSet("scored");
            scored.addAll(Map.of("a", 1.0, "b", 2.0, "c", 3.5));
            output.add(scored.addScore("a", 5) + " " + scored.rank("a") + scored.valueRange(0, -1));
            output.add(scored.entryRange(0, true, 4, false).toString() + scored.pollFirst());
            output.add(scored.count(0, true, 9, true));
            output.add(String.valueOf(scored.pollFirst(50, TimeUnit.MILLISECONDS)) + scored.takeFirst());
            RLexSortedSet words = client.getLexSortedSet("words");
            words.addAll(List.of("alpha", "beta", "gamma"));
            output.add(words.range("b", true, "g", false).toString() + words.countTail("b", true));
            RMapCache<String, String> cache = client.getMapCache("cache");
            cache.put("short", "v", 50, TimeUnit.MILLISECONDS);
            cache.put("long", "w", 100, TimeUnit.SECONDS);
            Thread.sleep(80);
            output.add(cache.get("short") + cache.get("long") + (cache.remainTimeToLive("long") > 90_000));
            RSetCache<String> temporary = client.getSetCache("temporary");
            temporary.add("short", 50, TimeUnit.MILLISECONDS);
            temporary.add("long", 100, TimeUnit.SECONDS);
            Thread.sleep(80);
            output.add(temporary.readAll().toString());
            RSetMultimap<String, String> multimap = client.getSetMultimap("multimap");
            output.add(multimap.put("k", "1") + " " + multimap.put("k", "2") + multimap.put("k", "2"));
            output.add(new TreeSet<>(multimap.getAll("k")).toString() + multimap.size());
            RSortedSet<String> sorted = client.getSortedSet("sorted");
            sorted.addAll(List.of("c", "a", "b"));
            output.add(sorted.first() + sorted.readAll());
            RTimeSeries<String, String> series = client.getTimeSeries("series");
            series.add(10, "ten");
            series.add(20, "twenty");
            output.add(series.get(10) + series.range(5, 25).size() + series.pollFirst());
        });
    }

    @Test
    void streamsPositionsAndEstimates() throws Exception {
        compare((client, output) -> {
            RStream<String, String> stream = client.getStream("stream");
            stream.createGroup(StreamCreateGroupArgs.name("group").makeStream());
            CompletableFuture<Map<StreamMessageId, Map<String, String>>> read = stream
                    .readGroupAsync("group", "one",
                            StreamReadGroupArgs.neverDelivered().timeout(Duration.ofSeconds(20)))
                    .toCompletableFuture();
            stream.add(new StreamMessageId(1, 1), StreamAddArgs.entry("f", "v"));
            output.add(read.get(20, TimeUnit.SECONDS).toString());
            stream.add(new StreamMessageId(1, 2), StreamAddArgs.entry("f", "w"));
            output.add(stream.read(StreamReadArgs.greaterThan(new StreamMessageId(1, 1))).toString());
            output.add(stream.ack("group", new StreamMessageId(1, 1)) + stream.size());
            output.add(stream.getPendingInfo("group").getTotal());
            output.add(stream.range(StreamMessageId.MIN, StreamMessageId.MAX).toString());
            output.add(stream.getInfo().getLastGeneratedId().toString() + stream.listGroups().size());
            RGeo<String> geo = client.getGeo("geo");
            output.add(geo.add(13.361389, 38.115556, "Palermo") + geo.add(15.087269, 37.502669, "Catania"));
            output.add(geo.dist("Palermo", "Catania", GeoUnit.KILOMETERS));
            output.add(geo.search(GeoSearchArgs.from(15, 37).radius(200, GeoUnit.KILOMETERS)).toString());
            RHyperLogLog<String> log = client.getHyperLogLog("log");
            log.addAll(List.of("a", "b", "c", "a"));
            output.add(log.count());
            RBitSet bits = client.getBitSet("bits");
            bits.set(3, 70);
            bits.clear(10);
            output.add(bits.cardinality() + " " + bits.length() + bits.toString());
            RBloomFilter<String> filter = client.getBloomFilter("filter");
            output.add(filter.tryInit(1000, 0.01) + " " + filter.add("a") + filter.add("a") + filter.contains("a"));
            RRateLimiter limiter = client.getRateLimiter("limiter");
            limiter.trySetRate(RateType.OVERALL, 2, Duration.ofSeconds(100));
            output.add(limiter.tryAcquire() + " " + limiter.tryAcquire() + limiter.tryAcquire());
            BlockingQueue<String> received = new LinkedBlockingQueue<>();
            RReliableTopic topic = client.getReliableTopic("reliable");
            topic.addListener(String.class, (channel, message) -> received.add(message));
            topic.publish("hello");
            output.add(received.poll(20, TimeUnit.SECONDS));
            topic.removeAllListeners();
            RScript script = client.getScript(StringCodec.INSTANCE);
            String sha = script.scriptLoad("return {KEYS[1], ARGV[1], redis.call('llen', KEYS[1])}");
            output.add(script.<List<Object>>evalSha(RScript.Mode.READ_ONLY, sha, RScript.ReturnType.MULTI,
                    List.of("list"), "argument").toString());
            RTransaction transaction = client.createTransaction(TransactionOptions.defaults());
            transaction.<String>getBucket("inside").set("v");
            transaction.<String, String>getMap("map").put("f", "v");
            transaction.commit();
            output.add(client.getBucket("inside").get() + " " + client.getMap("map").get("f"));
        });
    }
}
