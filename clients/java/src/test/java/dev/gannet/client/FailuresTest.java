package dev.gannet.client;

import static dev.gannet.client.Expect.error;
import static dev.gannet.client.Expect.got;
import static dev.gannet.client.Expect.success;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Common mistakes: each error names its remedy. */
class FailuresTest {
    private static final String CACHE = "default";

    private static CacheError failure(Credentials credentials, ErrorCode code, String... parts) {
        Configuration configuration = Configurations.Laptop.v1()
                .withDeadline(Duration.ofSeconds(5)).withConnectTimeout(Duration.ofSeconds(1));
        try (CacheClient client = CacheClient.create(credentials, configuration, Duration.ofMinutes(1))) {
            return error(code, client.get(CACHE, "k"), parts);
        }
    }

    private static Credentials at(int port) {
        return Credentials.noToken("127.0.0.1:" + port);
    }

    @Test
    void serverThatIsDown() {
        Credentials credentials = at(Servers.freePort());
        CacheError error = failure(credentials, ErrorCode.UNAVAILABLE,
                "no server listens there", "gannet serve --grpc " + credentials.address());
        assertTrue(error.isRetryable() && error.cause().isPresent());
        try (CacheClient client =
                CacheClient.create(credentials, Configurations.InRegion.Default.v1(), Duration.ofMinutes(1))) {
            error(ErrorCode.UNAVAILABLE, client.connect(), "no server listens there");
        }
    }

    @Test
    void requestThatIsWrittenToAConnectionThatHasJustClosed() {
        Status closed = Status.UNKNOWN.withDescription("channel closed").withCause(new ClosedChannelException());
        assertEquals(Status.Code.UNAVAILABLE, Failures.ofTransport(closed).getCode());
        Status ofServer = Status.UNKNOWN.withDescription("ERR");
        assertEquals(ofServer, Failures.ofTransport(ofServer));
    }

    @Test
    void portsOfOtherProtocols() {
        for (int port : new int[] {Servers.shared().memcachedPort(), Servers.shared().redisPort()}) {
            failure(at(port), ErrorCode.UNAVAILABLE, "does not speak gRPC", "gannet serve --grpc", "withTls()");
        }
    }

    @Test
    void portOfAWebServer() throws IOException {
        com.sun.net.httpserver.HttpServer web =
                com.sun.net.httpserver.HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        web.start();
        try {
            failure(at(web.getAddress().getPort()), ErrorCode.UNAVAILABLE,
                    "does not speak gRPC", "gannet serve --grpc");
        } finally {
            web.stop(0);
        }
    }

    @Test
    void serverThatDoesNotAnswer() {
        try (Servers.Server own = Servers.own()) {
            own.pause();
            Configuration configuration = Configurations.Laptop.v1().withDeadline(Duration.ofMillis(300));
            try (CacheClient client = Servers.client(own, configuration)) {
                error(ErrorCode.TIMEOUT, client.get(CACHE, "k"), "raise the deadline");
                error(ErrorCode.TIMEOUT, client.connect(), "firewall");
            }
        }
    }

    @Test
    void hostThatDoesNotExist() {
        failure(Credentials.noToken("gannet.invalid:7000").withPlaintext(), ErrorCode.UNAVAILABLE,
                "the host name is unknown", "DNS");
    }

    @Test
    void tokens() {
        try (Servers.Server own = Servers.own()) {
            Servers.redis(own, "ACL SETUSER reader on >pass ~* +get", "CONFIG SET requirepass secret");
            failure(Credentials.noToken(own.address()), ErrorCode.UNAUTHENTICATED,
                    "none was passed", "Credentials.token(ADDRESS, TOKEN)");
            failure(Credentials.token(own.address(), "wrong"), ErrorCode.UNAUTHENTICATED,
                    "does not accept the token", "Credentials.token(ADDRESS, TOKEN)");
            try (CacheClient client = CacheClient.create(Credentials.token(own.address(), "secret"),
                    Configurations.Laptop.latest(), Duration.ofMinutes(1))) {
                success(client.set(CACHE, "k", "v"));
            }
            Credentials reader = Credentials.token(own.address(), "reader:pass");
            assertFalse(reader.toString().contains("pass"));
            try (CacheClient client =
                    CacheClient.create(reader, Configurations.Laptop.latest(), Duration.ofMinutes(1))) {
                assertEquals(new GetResult.Hit(Bytes.of("v")), got(client.get(CACHE, "k")));
                error(ErrorCode.PERMISSION_DENIED, client.set(CACHE, "k", "w"),
                        "gannet user token", "generateDisposableToken", "ACL SETUSER");
            }
        }
    }

    @Test
    void tls(@TempDir Path folder) throws Exception {
        Process certificates = new ProcessBuilder(
                Servers.REPOSITORY.resolve("conformance/clients/certificates").toString(), folder.toString())
                .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        assertEquals(0, certificates.waitFor());
        Path ca = folder.resolve("ca.crt");
        try (Servers.Server secure = new Servers.Server(Map.of("TLS", folder.toString()))) {
            Credentials plain = Credentials.noToken(secure.address());
            try (CacheClient client = CacheClient.create(plain.withCaFile(ca),
                    Configurations.InRegion.Default.latest(), Duration.ofMinutes(1))) {
                success(client.set(CACHE, "k", "v"));
            }
            failure(plain.withTls(), ErrorCode.UNAVAILABLE, "not signed by a known CA", "withCaFile");
            failure(plain, ErrorCode.UNAVAILABLE, "withTls()");
            failure(Credentials.noToken("127.0.0.2:" + secure.address().split(":")[1]).withCaFile(ca),
                    ErrorCode.UNAVAILABLE);
            failure(at(secure.redisPort()).withCaFile(ca), ErrorCode.UNAVAILABLE, "gannet serve --grpc");
        }
        failure(Credentials.noToken(Servers.shared().address()).withTls(), ErrorCode.UNAVAILABLE,
                "does not use TLS", "withPlaintext()");
        failure(at(Servers.shared().redisPort()).withTls(), ErrorCode.UNAVAILABLE, "withPlaintext()");
    }

    private static void refused(String part, Executable creation) {
        Expect.check(ErrorCode.INVALID_ARGUMENT, assertThrows(CacheException.class, creation).error(), part);
    }

    @Test
    void wrongArgumentsOfAClient(@TempDir Path folder) throws IOException {
        Credentials good = Credentials.noToken("127.0.0.1:7000");
        Configuration laptop = Configurations.Laptop.latest();
        Duration minute = Duration.ofMinutes(1);
        Path empty = Files.createFile(folder.resolve("empty.pem"));
        for (String address : new String[] {"localhost", "http://localhost:7000", "localhost:70000", "a:0", ""}) {
            refused("HOST:PORT", () -> Credentials.noToken(address));
        }
        assertEquals("::1", Credentials.noToken("[::1]:7000").host());
        refused("printable ASCII", () -> Credentials.token("127.0.0.1:7000", "a\nb"));
        refused("export GANNET_TOKEN_THAT_IS_NOT_SET=TOKEN",
                () -> Credentials.tokenFromEnvironment("127.0.0.1:7000", "GANNET_TOKEN_THAT_IS_NOT_SET"));
        refused("PEM", () -> CacheClient.create(good.withCaFile(folder.resolve("absent.pem")), laptop, minute));
        refused("no certificate", () -> CacheClient.create(good.withCaFile(empty), laptop, minute));
        refused("1 ms", () -> CacheClient.create(good, laptop, Duration.ofNanos(1)));
        refused("requestsInFlightMax is 0",
                () -> CacheClient.create(good, laptop.withRequestsInFlightMax(0), minute));
        refused("deadline", () -> CacheClient.create(good, laptop.withDeadline(Duration.ZERO), minute));
    }
}
