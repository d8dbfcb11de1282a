package dev.gannet.client;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/** Real servers, started through {@code conformance/clients/serve}. */
final class Servers {
    static final Path REPOSITORY = Path.of("../..").toAbsolutePath().normalize();

    private static Server shared;

    private Servers() {}

    /** One server. Its process is the server itself, so that its id ends it. */
    static final class Server implements AutoCloseable {
        private final int[] ports = new int[3];
        private final Map<String, String> environment;
        private final int connectionsMax;
        private Process process;

        Server(Map<String, String> environment) {
            this(environment, 2_000);
        }

        Server(Map<String, String> environment, int connectionsMax) {
            this.environment = environment;
            this.connectionsMax = connectionsMax;
            choosePorts();
            // Another process may take a port between its choice and its use.
            for (int attempt = 1; attempt < 3 && !startsOnce(); attempt++) {
                choosePorts();
            }
            eventually("the server listens at " + address(), () -> listens(ports[2]));
        }

        private void choosePorts() {
            try {
                List<ServerSocket> held = new ArrayList<>();
                for (int at = 0; at < ports.length; at++) {
                    ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                    held.add(socket);
                    ports[at] = socket.getLocalPort();
                }
                for (ServerSocket each : held) {
                    each.close();
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        int memcachedPort() {
            return ports[0];
        }

        int redisPort() {
            return ports[1];
        }

        String address() {
            return "127.0.0.1:" + ports[2];
        }

        /** Starts the server, and returns false if it ends instead of listening. */
        private boolean startsOnce() {
            launch();
            eventually("the server at " + address() + " listens or ends",
                    () -> !process.isAlive() || listens(ports[2]));
            return process.isAlive();
        }

        /** Starts the server on its ports, and waits until it listens. */
        void start() {
            assertTrue(startsOnce(), "the server starts");
        }

        private void launch() {
            ProcessBuilder builder = new ProcessBuilder(
                    REPOSITORY.resolve("conformance/clients/serve").toString(), Integer.toString(ports[0]),
                    Integer.toString(connectionsMax));
            builder.environment().put("RESP_PORT", Integer.toString(ports[1]));
            builder.environment().put("GRPC_PORT", Integer.toString(ports[2]));
            builder.environment().putAll(environment);
            builder.redirectError(ProcessBuilder.Redirect.INHERIT).redirectOutput(ProcessBuilder.Redirect.DISCARD);
            try {
                process = builder.start();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        /** Stops all threads of the server. */
        void pause() {
            signal("STOP");
            eventually("the server is stopped", () -> {
                try (Stream<Path> tasks = Files.list(Path.of("/proc", Long.toString(process.pid()), "task"))) {
                    return tasks.allMatch(Servers::isStopped);
                } catch (IOException e) {
                    return false;
                }
            });
        }

        void resume() {
            signal("CONT");
        }

        void kill() {
            process.destroyForcibly();
            try {
                process.waitFor();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        /** Ends the server as its operator does, so that it finishes its calls. */
        void terminate() {
            signal("TERM");
        }

        boolean hasEnded(Duration within) throws InterruptedException {
            return process.waitFor(within.toMillis(), TimeUnit.MILLISECONDS);
        }

        private void signal(String name) {
            try {
                new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void close() {
            kill();
        }
    }

    private static boolean isStopped(Path task) {
        try {
            String stat = Files.readString(task.resolve("stat"));
            return stat.substring(stat.lastIndexOf(')') + 2).startsWith("T");
        } catch (IOException e) {
            return false;
        }
    }

    private static boolean listens(int port) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1_000);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /** Returns the server of all tests that neither pause nor end it. */
    static synchronized Server shared() {
        if (shared == null) {
            shared = new Server(Map.of("TEST_FAULTS", "1"));
            Runtime.getRuntime().addShutdownHook(new Thread(shared::kill));
        }
        return shared;
    }

    /** Returns a server that the test may pause or end. */
    static Server own() {
        return new Server(Map.of("TEST_FAULTS", "1"));
    }

    /** Executes commands of Redis, each of which replies OK. */
    static void redis(Server server, String... commands) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.redisPort())) {
            BufferedReader replies = new BufferedReader(new InputStreamReader(socket.getInputStream(), US_ASCII));
            for (String command : commands) {
                socket.getOutputStream().write((command + "\r\n").getBytes(US_ASCII));
                String reply = replies.readLine();
                if (!"+OK".equals(reply)) {
                    throw new AssertionError(command + ": " + reply);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static void eventually(String what, BooleanSupplier condition) {
        long end = System.nanoTime() + Duration.ofSeconds(10).toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("not true after 10 s: " + what);
            }
            sleep(2);
        }
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Returns a client of this server. */
    static CacheClient client(Server server, Configuration configuration) {
        return client(server.address(), configuration);
    }

    /** Returns a client of the server at this address. */
    static CacheClient client(String address, Configuration configuration) {
        return CacheClient.create(Credentials.noToken(address), configuration, Duration.ofMinutes(1));
    }
}
