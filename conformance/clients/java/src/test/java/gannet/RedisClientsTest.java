package gannet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/** Tests the published, unmodified Jedis and Lettuce through the Redis protocol. */
final class RedisClientsTest {
    private static final long PATIENCE_S = 20;
    private static Server server;

    @BeforeAll
    static void start() throws Exception {
        server = Server.withResp();
    }

    @AfterAll
    static void stop() throws Exception {
        server.close();
    }

    private static DefaultJedisClientConfig config(RedisProtocol protocol) {
        return DefaultJedisClientConfig.builder().protocol(protocol).clientName("jedis").build();
    }

    private static HostAndPort address(Server server) {
        return new HostAndPort("127.0.0.1", server.respPort);
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisCommandsPipelinesAndWalks(RedisProtocol protocol) {
        String prefix = "jedis:" + protocol + ":";
        try (Jedis jedis = new Jedis(address(server), config(protocol))) {
            assertEquals("OK", jedis.set(prefix + "k", "v", SetParams.setParams().ex(100)));
            assertEquals("v", jedis.get(prefix + "k"));
            assertTrue(jedis.ttl(prefix + "k") > 90);
            assertNull(jedis.get(prefix + "none"));
            assertEquals(12, jedis.incrBy(prefix + "n", 12));
            assertEquals("jedis", jedis.clientGetname());
            assertThrows(JedisDataException.class, () -> jedis.incr(prefix + "k"));
            List<Response<String>> replies = new ArrayList<>();
            try (Pipeline pipeline = jedis.pipelined()) {
                for (int number = 0; number < 1000; number++) {
                    pipeline.set(prefix + "walk:" + number, "" + number);
                    replies.add(pipeline.get(prefix + "walk:" + number));
                }
            }
            assertEquals("999", replies.get(999).get());
            Set<String> met = new HashSet<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> walked = jedis.scan(cursor, new ScanParams().match(prefix + "walk:*").count(100));
                met.addAll(walked.getResult());
                cursor = walked.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            assertEquals(1000, met.size());
        }
    }

    @Test
    void jedisPoolOfManyThreads() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try (JedisPooled pool = new JedisPooled(address(server), config(RedisProtocol.RESP3))) {
            List<Future<?>> all = new ArrayList<>();
            for (int thread = 0; thread < 8; thread++) {
                all.add(threads.submit(() -> {
                    for (int number = 0; number < 100; number++) {
                        pool.incr("jedis:all");
                    }
                }));
            }
            for (Future<?> one : all) {
                one.get(PATIENCE_S, TimeUnit.SECONDS);
            }
            assertEquals("800", pool.get("jedis:all"));
        } finally {
            threads.shutdownNow();
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisSubscribers(RedisProtocol protocol) throws Exception {
        String channel = "jedis:news:" + protocol;
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        CountDownLatch subscribed = new CountDownLatch(1);
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onSubscribe(String name, int count) {
                subscribed.countDown();
            }

            @Override
            public void onMessage(String name, String text) {
                told.add(text);
            }
        };
        Thread thread = new Thread(() -> {
            try (Jedis jedis = new Jedis(address(server), config(protocol))) {
                jedis.subscribe(subscriber, channel);
            }
        });
        thread.start();
        try (Jedis jedis = new Jedis(address(server), config(protocol))) {
            assertTrue(subscribed.await(PATIENCE_S, TimeUnit.SECONDS));
            for (int number = 0; number < 100; number++) {
                assertEquals(1, jedis.publish(channel, "" + number));
            }
            for (int number = 0; number < 100; number++) {
                assertEquals("" + number, told.poll(PATIENCE_S, TimeUnit.SECONDS));
            }
            subscriber.unsubscribe();
            thread.join(TimeUnit.SECONDS.toMillis(PATIENCE_S));
            assertEquals(0, jedis.publish(channel, "nobody"));
        }
    }

    @Test
    void jedisGoesOnAfterTheServerWasStartedAgain() throws Exception {
        Server first = Server.withResp();
        try (JedisPooled pool = new JedisPooled(address(first), config(RedisProtocol.RESP2))) {
            pool.set("k", "v");
            first.close();
            assertThrows(JedisConnectionException.class, () -> pool.get("k"));
            try (Server second = Server.again(first)) {
                assertNull(pool.get("k"));
            }
        }
    }

    @Test
    void lettuceCommandsPipelinesAndWalks() throws Exception {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + server.respPort);
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            assertEquals("OK", connection.sync().setex("lettuce:k", 100, "v"));
            assertEquals("v", connection.sync().get("lettuce:k"));
            assertNull(connection.sync().get("lettuce:none"));
            assertThrows(RedisCommandExecutionException.class, () -> connection.sync().incr("lettuce:k"));
            List<RedisFuture<Long>> sums = new ArrayList<>();
            for (int number = 0; number < 1000; number++) {
                connection.async().set("lettuce:walk:" + number, "x");
                sums.add(connection.async().incr("lettuce:n"));
            }
            for (int number = 0; number < 1000; number++) {
                assertEquals(number + 1, sums.get(number).get(PATIENCE_S, TimeUnit.SECONDS));
            }
            Set<String> met = new HashSet<>();
            ScanIterator.scan(connection.sync(), ScanArgs.Builder.matches("lettuce:walk:*").limit(100))
                    .forEachRemaining(met::add);
            assertEquals(1000, met.size());
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    private static Map<String, String> manyFields() {
        Map<String, String> fields = new HashMap<>();
        for (int number = 0; number < 300; number++) {
            fields.put("f" + number, "v" + number);
        }
        return fields;
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisHashesAndTransactions(RedisProtocol protocol) {
        String prefix = "jedis:" + protocol + ":";
        String key = prefix + "t";
        try (Jedis jedis = new Jedis(address(server), config(protocol));
                Jedis other = new Jedis(address(server), config(protocol))) {
            assertEquals(300, jedis.hset(prefix + "wide", manyFields()));
            assertEquals(manyFields(), jedis.hgetAll(prefix + "wide"));
            Map<String, String> met = new HashMap<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<Map.Entry<String, String>> walked =
                        jedis.hscan(prefix + "wide", cursor, new ScanParams().count(20));
                walked.getResult().forEach(field -> met.put(field.getKey(), field.getValue()));
                cursor = walked.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            assertEquals(manyFields(), met);
            Transaction whole = jedis.multi();
            whole.set(key, "1");
            Response<Long> sum = whole.incr(key);
            Response<Long> visits = whole.hincrBy(prefix + "user", "visits", 4);
            assertEquals(List.of("OK", 2L, 4L), whole.exec());
            assertEquals(2, sum.get());
            assertEquals(4, visits.get());
            jedis.watch(key);
            other.incr(key);
            Transaction late = jedis.multi();
            late.set(key, "lost");
            assertNull(late.exec());
            Transaction wrong = jedis.multi();
            wrong.set(key, "lost");
            wrong.sendCommand(Protocol.Command.SET, key);
            assertThrows(JedisDataException.class, wrong::exec);
            assertEquals("3", jedis.get(key));
        }
    }

    @Test
    void lettuceHashesAndTransactions() {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + server.respPort);
        try (StatefulRedisConnection<String, String> connection = client.connect();
                StatefulRedisConnection<String, String> other = client.connect()) {
            RedisCommands<String, String> commands = connection.sync();
            assertEquals(300, commands.hset("lettuce:wide", manyFields()));
            assertEquals(manyFields(), commands.hgetall("lettuce:wide"));
            Map<String, String> met = new HashMap<>();
            ScanIterator.hscan(commands, "lettuce:wide", ScanArgs.Builder.limit(20))
                    .forEachRemaining(field -> met.put(field.getKey(), field.getValue()));
            assertEquals(manyFields(), met);
            commands.multi();
            commands.set("lettuce:t", "1");
            commands.incr("lettuce:t");
            commands.hincrby("lettuce:user", "visits", 4);
            TransactionResult whole = commands.exec();
            assertEquals(List.of("OK", 2L, 4L), whole.stream().toList());
            commands.watch("lettuce:t");
            other.sync().incr("lettuce:t");
            commands.multi();
            commands.set("lettuce:t", "lost");
            assertTrue(commands.exec().wasDiscarded());
            assertEquals("3", commands.get("lettuce:t"));
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    @Test
    void lettuceSubscribersComeBackAfterTheServerWasStartedAgain() throws Exception {
        Server first = Server.withResp();
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + first.respPort);
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub();
                StatefulRedisConnection<String, String> connection = client.connect()) {
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String text) {
                    told.add(text);
                }
            });
            subscriber.sync().subscribe("lettuce:news");
            assertEquals(1, connection.sync().publish("lettuce:news", "one"));
            assertEquals("one", told.poll(PATIENCE_S, TimeUnit.SECONDS));
            first.close();
            try (Server second = Server.again(first)) {
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
                while (connection.sync().publish("lettuce:news", "two") == 0) {
                    assertTrue(System.nanoTime() < deadline, "it does not subscribe again");
                    Thread.sleep(20);
                }
                assertEquals("two", told.poll(PATIENCE_S, TimeUnit.SECONDS));
            }
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }
}
