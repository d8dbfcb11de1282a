package gannet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.RBatch;
import org.redisson.api.RBucket;
import org.redisson.api.RMap;
import org.redisson.api.RTopic;
import org.redisson.api.RedissonClient;
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

    /** A lock of Redisson is a script. On a server without scripts it must fail at once, with the reason. */
    @Test
    void lockIsObtainedOrRefusedAtOnceWithTheReason() throws Exception {
        RedissonClient client = connect(server, null);
        long begun = System.nanoTime();
        try {
            assertTrue(client.getLock("lock").tryLock(1, 10, TimeUnit.SECONDS));
            client.getLock("lock").unlock();
        } catch (RedisException error) {
            assertTrue(error.getMessage().contains("is not supported by this server"), error.getMessage());
        } finally {
            client.shutdown(0, 5, TimeUnit.SECONDS);
        }
        assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(10), "not at once");
    }
}
