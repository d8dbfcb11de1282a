package gannet;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.CachedData;
import net.spy.memcached.ConnectionFactory;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.transcoders.SerializingTranscoder;
import net.spy.memcached.transcoders.Transcoder;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests a memcached server with the published, unmodified spymemcached, through the text protocol. */
final class SpymemcachedTest {
    private static final int ITEM_MAX = 1024 * 1024;
    private static Server server;
    private MemcachedClient client;

    /** Transfers bytes unchanged: neither compressed nor serialised. */
    private static final Transcoder<byte[]> RAW = new Transcoder<>() {
        @Override
        public boolean asyncDecode(CachedData data) {
            return false;
        }

        @Override
        public CachedData encode(byte[] value) {
            return new CachedData(0, value, Integer.MAX_VALUE);
        }

        @Override
        public byte[] decode(CachedData data) {
            return data.getData();
        }

        @Override
        public int getMaxSize() {
            return Integer.MAX_VALUE;
        }
    };

    private static ConnectionFactory factory() {
        SerializingTranscoder transcoder = new SerializingTranscoder(4 * ITEM_MAX);
        transcoder.setCompressionThreshold(Integer.MAX_VALUE);
        return new ConnectionFactoryBuilder()
            .setProtocol(ConnectionFactoryBuilder.Protocol.TEXT)
            .setTranscoder(transcoder)
            .setOpTimeout(20_000)
            .setFailureMode(FailureMode.Redistribute)
            .setMaxReconnectDelay(1)
            .build();
    }

    private static MemcachedClient connect(Server to) throws Exception {
        return new MemcachedClient(factory(), List.of(to.address()));
    }

    private static <T> T done(Future<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    @BeforeAll
    static void startServer() throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.Logger.getLogger("net.spy").setLevel(java.util.logging.Level.OFF);
        server = new Server();
    }

    @AfterAll
    static void stopServer() throws Exception {
        server.close();
    }

    @BeforeEach
    void connectClient() throws Exception {
        client = connect(server);
        assertTrue(done(client.flush()));
    }

    @AfterEach
    void closeClient() {
        client.shutdown(5, TimeUnit.SECONDS);
    }

    @Test
    void aValueIsReadBackWithItsTypeWhichIsInTheFlags() throws Exception {
        assertTrue(done(client.set("text", 0, "value")));
        assertTrue(done(client.set("number", 0, 1234567890123L)));
        assertTrue(done(client.set("list", 0, new ArrayList<>(List.of("a", "b")))));
        assertEquals("value", client.get("text"));
        assertEquals(1234567890123L, client.get("number"));
        assertEquals(List.of("a", "b"), client.get("list"));
        assertNull(client.get("missing"));
    }

    @Test
    void aMultiGetReturnsWhatIsThereAndNothingElse() throws Exception {
        List<String> keys = new ArrayList<>();
        List<Future<Boolean>> stored = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
            keys.add("key-" + i);
            keys.add("missing-" + i);
            stored.add(client.set("key-" + i, 0, "value-" + i));
        }
        for (Future<Boolean> one : stored) {
            assertTrue(done(one));
        }
        Map<String, Object> found = client.getBulk(keys);
        assertEquals(500, found.size());
        for (int i = 0; i < 500; i++) {
            assertEquals("value-" + i, found.get("key-" + i));
        }
    }

    @Test
    void conditionalWritesLookAtWhatIsThere() throws Exception {
        assertFalse(done(client.replace("key", 0, "1")));
        assertTrue(done(client.add("key", 0, "2")));
        assertFalse(done(client.add("key", 0, "3")));
        assertTrue(done(client.replace("key", 0, "4")));
        assertTrue(done(client.append("key", ">")));
        assertTrue(done(client.prepend("key", "<")));
        assertEquals("<4>", client.get("key"));
        assertTrue(done(client.delete("key")));
        assertFalse(done(client.delete("key")));
        assertFalse(done(client.append("key", ">")));
    }

    @Test
    void casStoresOnceForOneToken() throws Exception {
        assertTrue(done(client.set("key", 0, "1")));
        CASValue<Object> read = client.gets("key");
        assertEquals("1", read.getValue());
        assertEquals(CASResponse.OK, client.cas("key", read.getCas(), "2"));
        assertEquals(CASResponse.EXISTS, client.cas("key", read.getCas(), "3"));
        assertEquals(CASResponse.NOT_FOUND, client.cas("missing", read.getCas(), "3"));
        assertNull(client.gets("missing"));
        assertEquals("2", client.get("key"));
    }

    @Test
    void countersStartStepAndStopAtZero() throws Exception {
        assertEquals(-1, client.incr("key", 1));
        assertEquals(5, client.incr("key", 1, 5));
        assertEquals(47, client.incr("key", 42));
        assertEquals(0, client.decr("key", 100));
        assertEquals("0", ((String) client.get("key")).trim());
        assertTrue(done(client.set("words", 0, "words")));
        assertEquals(-1, client.incr("words", 1));
        assertEquals("words", client.get("words"));
    }

    @Test
    void anItemIsGoneWhenItsTimeIsOverAndTouchMovesIt() throws Exception {
        assertTrue(done(client.set("short", 1, "1")));
        assertTrue(done(client.set("touched", 1, "1")));
        assertTrue(done(client.set("long", 100, "1")));
        assertTrue(done(client.set("past", -1, "1")));
        assertTrue(done(client.touch("touched", 100)));
        assertNull(client.get("past"));
        assertEquals("1", client.get("short"));
        Thread.sleep(2200);
        assertNull(client.get("short"));
        assertEquals("1", client.get("touched"));
        assertEquals("1", client.get("long"));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000, 8191, 8192, 8193, 65_536, 131_072, 500_000, ITEM_MAX - 512})
    void aValueOfAnyLengthComesBackWhole(int length) throws Exception {
        byte[] value = new byte[length];
        new Random(length).nextBytes(value);
        assertTrue(done(client.set("key", 0, value, RAW)));
        assertArrayEquals(value, client.get("key", RAW));
    }

    @Test
    void aValueThatIsTooLargeIsRefusedAndTheNextRequestIsServed() throws Exception {
        assertThrows(Exception.class, () -> {
            if (!done(client.set("key", 0, new byte[ITEM_MAX + 1], RAW))) {
                throw new IllegalStateException("not stored");
            }
        });
        assertTrue(done(client.set("after", 0, "1")));
        assertEquals("1", client.get("after"));
    }

    @Test
    void bytesThatLookLikeProtocolAreData() throws Exception {
        byte[] every = new byte[256];
        for (int i = 0; i < every.length; i++) {
            every[i] = (byte) i;
        }
        List<byte[]> values = new ArrayList<>(List.of(every));
        for (String text : List.of("\r\n", "END\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n", "\0\0\0", "STORED\r\n")) {
            values.add(text.getBytes(StandardCharsets.ISO_8859_1));
        }
        for (byte[] value : values) {
            assertTrue(done(client.set("key", 0, value, RAW)));
            assertArrayEquals(value, client.get("key", RAW));
        }
    }

    @Test
    void requestsInFlightTogetherAreAnsweredEachWithItsOwn() throws Exception {
        List<Future<Boolean>> stored = new ArrayList<>();
        List<Future<Object>> read = new ArrayList<>();
        for (int i = 0; i < 5000; i++) {
            stored.add(client.set("key-" + i, 0, "value-" + i));
            read.add(client.asyncGet("key-" + i));
        }
        for (int i = 0; i < 5000; i++) {
            assertTrue(done(stored.get(i)));
            assertEquals("value-" + i, done(read.get(i)));
        }
    }

    @Test
    void aThousandConnectionsAreServedAtOnce() throws Exception {
        assertTrue(done(client.set("key", 0, "1")));
        List<Socket> sockets = new ArrayList<>();
        try {
            for (int i = 0; i < 1000; i++) {
                Socket socket = new Socket("127.0.0.1", server.port);
                socket.setSoTimeout(10_000);
                sockets.add(socket);
            }
            byte[] want = "VALUE key 0 1\r\n1\r\nEND\r\n".getBytes(StandardCharsets.US_ASCII);
            for (Socket socket : sockets) {
                socket.getOutputStream().write("get key\r\n".getBytes(StandardCharsets.US_ASCII));
            }
            for (Socket socket : sockets) {
                InputStream reply = socket.getInputStream();
                assertArrayEquals(want, reply.readNBytes(want.length));
            }
            assertEquals("1", client.get("key"));
        } finally {
            for (Socket socket : sockets) {
                socket.close();
            }
        }
    }

    @Test
    void theServerTellsItsVersionAndItsCounters() throws Exception {
        assertEquals(1, client.getVersions().size());
        assertNull(client.get("missing"));
        Map<String, String> stats = client.getStats().values().iterator().next();
        assertTrue(Long.parseLong(stats.get("get_misses")) > 0);
        assertTrue(Long.parseLong(stats.get("curr_connections")) > 0);
    }

    @Test
    void aClientComesBackAfterTheServerWent() throws Exception {
        Server first = new Server();
        MemcachedClient own = connect(first);
        try {
            assertTrue(done(own.set("key", 0, "1")));
            first.close();
            assertThrows(Exception.class, () -> own.asyncGet("key").get(1, TimeUnit.SECONDS));
            try (Server second = new Server(first.port)) {
                String read = null;
                for (int attempt = 0; attempt < 100 && read == null; attempt++) {
                    try {
                        if (own.set("key", 0, "2").get(1, TimeUnit.SECONDS)) {
                            read = (String) own.get("key");
                        }
                    } catch (Exception notYet) {
                        Thread.sleep(100);
                    }
                }
                assertEquals("2", read);
            }
        } finally {
            own.shutdown(5, TimeUnit.SECONDS);
            first.close();
        }
    }
}
