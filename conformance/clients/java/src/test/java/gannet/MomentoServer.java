package gannet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.ProxySelector;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import momento.sdk.AuthClient;
import momento.sdk.CacheClient;
import momento.sdk.ILeaderboard;
import momento.sdk.LeaderboardClient;
import momento.sdk.TopicClient;
import momento.sdk.auth.CredentialProvider;
import momento.sdk.auth.MomentoLocalProvider;
import momento.sdk.config.Configuration;
import momento.sdk.config.Configurations;
import momento.sdk.config.LeaderboardConfigurations;
import momento.sdk.config.TopicConfigurations;
import momento.sdk.exceptions.MomentoErrorCode;
import momento.sdk.exceptions.SdkException;
import redis.clients.jedis.Jedis;

/** One server, and clients of Momento's published library that are aimed at it. */
final class MomentoServer implements AutoCloseable {
    static final String CACHE = "default";

    final int port;
    /** A Redis client, which sees the same items. */
    final Jedis plain;
    /** The way to the port with TLS. */
    final TunnelProxy proxy;
    private final Server server;
    private final ProxySelector proxies = ProxySelector.getDefault();
    private final List<AutoCloseable> clients = new ArrayList<>();

    /**
     * Starts a server. The clients for topics, tokens, leaderboards and storage always use TLS and port 443: they reach
     * the server through a proxy, and trust the certificate that is created in {@code folder}.
     */
    MomentoServer(Path folder) throws Exception {
        Server.createCertificates(folder);
        Path trusted = folder.resolve("trusted.p12");
        try (OutputStream file = Files.newOutputStream(trusted)) {
            Server.trusting(folder).store(file, "trusted".toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", trusted.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", "trusted");
        port = Server.freePort();
        int tlsPort = Server.freePort();
        server = Server.withGrpc(port, tlsPort, folder);
        plain = new Jedis("127.0.0.1", server.respPort);
        proxy = new TunnelProxy(tlsPort);
        ProxySelector.setDefault(proxy);
    }

    @Override
    public void close() throws Exception {
        for (AutoCloseable client : clients) {
            client.close();
        }
        System.clearProperty("javax.net.ssl.trustStore");
        System.clearProperty("javax.net.ssl.trustStorePassword");
        ProxySelector.setDefault(proxies);
        plain.close();
        proxy.close();
        server.close();
    }

    /** Credentials with a password or token, which the local provider of the library does not have. */
    CredentialProvider credentials(String secret) {
        return new MomentoLocalProvider("127.0.0.1", port) {
            @Override
            public String getAuthToken() {
                return secret;
            }
        };
    }

    CredentialProvider credentials() {
        return new MomentoLocalProvider("127.0.0.1", port);
    }

    CacheClient cacheClient() {
        return cacheClient(credentials());
    }

    CacheClient cacheClient(CredentialProvider credentials) {
        // Longer than that of the preset, for a busy host.
        Configuration configuration = Configurations.Laptop.latest().withTimeout(Duration.ofSeconds(30));
        return opened(CacheClient.create(credentials, configuration, Duration.ofSeconds(60)));
    }

    TopicClient topicClient(CredentialProvider credentials) {
        TopicClient client = TopicClient.create(credentials, TopicConfigurations.Laptop.latest());
        clients.add(client::close);
        return client;
    }

    AuthClient authClient() {
        AuthClient client = AuthClient.create(credentials());
        clients.add(client::close);
        return client;
    }

    ILeaderboard leaderboard(String name) {
        LeaderboardClient client =
            LeaderboardClient.builder(credentials(), LeaderboardConfigurations.Laptop.latest()).build();
        return opened(client).leaderboard(CACHE, name);
    }

    private <T extends AutoCloseable> T opened(T client) {
        clients.add(client);
        return client;
    }

    /** Waits for a reply and fails unless it has this type. */
    static <T> T is(Class<T> type, CompletableFuture<?> reply) throws Exception {
        Object got = reply.get(20, TimeUnit.SECONDS);
        return assertInstanceOf(type, got, () -> got instanceof SdkException error ? cause(error) : got.toString());
    }

    /** Waits for an error with this code. */
    static SdkException fails(MomentoErrorCode code, CompletableFuture<?> reply) throws Exception {
        return failed(code, reply.get(20, TimeUnit.SECONDS));
    }

    static SdkException failed(MomentoErrorCode code, Object reply) {
        SdkException error = assertInstanceOf(SdkException.class, reply);
        assertEquals(code, error.getErrorCode(), () -> cause(error));
        return error;
    }

    private static String cause(SdkException error) {
        return error.getMessage() + " (" + error.getCause() + ")";
    }

    /** Fails unless the metadata {@code err} of the error names this limit. */
    static void names(String limit, SdkException error) {
        Metadata metadata =
            error.getTransportErrorDetails().orElseThrow().getGrpcErrorDetails().getMetadata().orElseThrow();
        assertEquals(limit, metadata.get(Metadata.Key.of("err", Metadata.ASCII_STRING_MARSHALLER)));
    }

    static void until(String what, Callable<Boolean> holds) throws Exception {
        for (int attempt = 0; attempt < 1000; attempt++) {
            if (holds.call()) {
                return;
            }
            Thread.sleep(20);
        }
        throw new AssertionError(what + " did not happen");
    }

    /** Returns the token in an API key, which the library encodes together with an endpoint. */
    static String tokenOf(String key) {
        String text = new String(Base64.getDecoder().decode(key), StandardCharsets.UTF_8);
        String name = "\"api_key\":\"";
        int start = text.indexOf(name) + name.length();
        return text.substring(start, text.indexOf('"', start));
    }

    /** Fails if the sources of the tests do not call each public method of the type, of which there are some. */
    static void haveCallsOfEveryMethodOf(Class<?> type, int least) throws Exception {
        String source = "";
        for (Class<?> test : List.of(MomentoTest.class, MomentoDifferencesTest.class)) {
            source += Files.readString(Path.of("src/test/java/gannet", test.getSimpleName() + ".java"));
        }
        List<String> missing = new ArrayList<>();
        int count = 0;
        for (Method method : type.getDeclaredMethods()) {
            int modifiers = method.getModifiers();
            boolean isCall = CompletableFuture.class.isAssignableFrom(method.getReturnType());
            if (isCall && Modifier.isPublic(modifiers) && !Modifier.isStatic(modifiers)) {
                count++;
                if (!source.contains("." + method.getName() + "(")) {
                    missing.add(method.getName());
                }
            }
        }
        assertEquals(List.of(), missing);
        assertTrue(count >= least, count + " methods");
    }
}
