package gannet;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** One server, started through {@code ../serve} and ended by its process id. */
final class Server implements AutoCloseable {
    final int port;
    /** The port for Redis clients; 0: none. */
    final int respPort;
    private final Process process;

    Server() throws Exception {
        this(freePort());
    }

    Server(int port) throws Exception {
        this(port, 0);
    }

    /** Starts a server that also serves Redis clients. */
    static Server withResp() throws Exception {
        return new Server(freePort(), freePort());
    }

    /** Starts a server whose ports use TLS, with the certificate in {@code folder}. */
    static Server withTls(Path folder) throws Exception {
        return new Server(freePort(), freePort(), Map.of("TLS", folder.toString()));
    }

    /**
     * Starts a server that also serves Redis clients, and gRPC clients on {@code grpcPort}, and over TLS on
     * {@code grpcTlsPort} with the certificate in {@code folder}.
     */
    static Server withGrpc(int grpcPort, int grpcTlsPort, Path folder) throws Exception {
        Map<String, String> more = Map.of("GRPC_PORT", Integer.toString(grpcPort), "GRPC_TLS_PORT",
            Integer.toString(grpcTlsPort), "CERTIFICATE", folder.toString());
        Server server = new Server(freePort(), freePort(), more);
        server.waitFor(new InetSocketAddress("127.0.0.1", grpcPort));
        server.waitFor(new InetSocketAddress("127.0.0.1", grpcTlsPort));
        return server;
    }

    /** Creates a CA and the certificate of a server in {@code folder}. */
    static void createCertificates(Path folder) throws Exception {
        String script = new File("../certificates").getCanonicalPath();
        Process process = new ProcessBuilder(script, folder.toString())
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
        if (process.waitFor() != 0) {
            throw new IOException("../certificates ended with " + process.exitValue());
        }
    }

    /** Returns a store that trusts the CA in {@code folder}. */
    static KeyStore trusting(Path folder) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream ca = Files.newInputStream(folder.resolve("ca.crt"))) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(ca));
        }
        return store;
    }

    /** Starts Debian's redis-server, for comparisons. */
    static Server redis() throws Exception {
        return new Server(freePort(), freePort(), Map.of("SERVER", "redis"));
    }

    /** Starts a server that replaces one that has ended. */
    static Server again(Server ended) throws Exception {
        return new Server(ended.port, ended.respPort);
    }

    private Server(int port, int respPort) throws Exception {
        this(port, respPort, Map.of());
    }

    /** {@code more}: variables for {@code ../serve}. */
    private Server(int port, int respPort, Map<String, String> more) throws Exception {
        this.port = port;
        this.respPort = respPort;
        File script = new File("../serve").getCanonicalFile();
        ProcessBuilder builder = new ProcessBuilder(script.getPath(), Integer.toString(port)).inheritIO();
        if (respPort != 0) {
            builder.environment().put("RESP_PORT", Integer.toString(respPort));
        }
        builder.environment().putAll(more);
        process = builder.start();
        waitFor(address());
    }

    private void waitFor(InetSocketAddress address) throws Exception {
        for (int attempt = 0; attempt < 500; attempt++) {
            try (Socket socket = new Socket()) {
                socket.connect(address, 1000);
                return;
            } catch (IOException notYet) {
                if (!process.isAlive()) {
                    break;
                }
                Thread.sleep(20);
            }
        }
        close();
        throw new IOException("the server does not listen on " + address);
    }

    InetSocketAddress address() {
        return new InetSocketAddress("127.0.0.1", respPort == 0 ? port : respPort);
    }

    static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(new InetSocketAddress("127.0.0.1", 0));
            return socket.getLocalPort();
        }
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        if (!process.waitFor(10, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
    }
}
