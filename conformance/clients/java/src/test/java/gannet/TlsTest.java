package gannet;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;

/** Tests the published, unmodified Jedis over TLS. The published spymemcached has no TLS. */
final class TlsTest {
    @TempDir
    static Path folder;

    private static Server server;
    private static SSLContext trusted;

    @BeforeAll
    static void start() throws Exception {
        Server.createCertificates(folder);
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(Server.trusting(folder));
        trusted = SSLContext.getInstance("TLS");
        trusted.init(null, trust.getTrustManagers(), null);
        server = Server.withTls(folder);
    }

    @AfterAll
    static void stop() throws Exception {
        server.close();
    }

    @Test
    void jedisOverTls() {
        DefaultJedisClientConfig config =
            DefaultJedisClientConfig.builder().ssl(true).sslSocketFactory(trusted.getSocketFactory()).build();
        try (Jedis client = new Jedis(new HostAndPort("localhost", server.respPort), config)) {
            byte[] value = new byte[400_000];
            value[399_999] = 1;
            assertEquals("OK", client.set("jedis:tls".getBytes(), value));
            assertArrayEquals(value, client.get("jedis:tls".getBytes()));
            Pipeline pipeline = client.pipelined();
            for (int number = 0; number < 3000; number++) {
                pipeline.set("jedis:tls:" + number, "v");
            }
            List<Object> replies = pipeline.syncAndReturnAll();
            assertTrue(replies.stream().allMatch("OK"::equals));
        }
    }
}
