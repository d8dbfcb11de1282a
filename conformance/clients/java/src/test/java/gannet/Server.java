package gannet;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.TimeUnit;

/** One server, started through {@code ../serve} and ended by its process id. */
final class Server implements AutoCloseable {
    final int port;
    private final Process process;

    Server() throws Exception {
        this(freePort());
    }

    Server(int port) throws Exception {
        this.port = port;
        File script = new File("../serve").getCanonicalFile();
        process = new ProcessBuilder(script.getPath(), Integer.toString(port)).inheritIO().start();
        for (int attempt = 0; attempt < 500; attempt++) {
            try (Socket socket = new Socket()) {
                socket.connect(address(), 1000);
                return;
            } catch (IOException notYet) {
                if (!process.isAlive()) {
                    break;
                }
                Thread.sleep(20);
            }
        }
        close();
        throw new IOException("the server does not listen on " + port);
    }

    InetSocketAddress address() {
        return new InetSocketAddress("127.0.0.1", port);
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
