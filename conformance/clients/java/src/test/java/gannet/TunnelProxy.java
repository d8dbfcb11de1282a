package gannet;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * An HTTP proxy that tunnels connections (RFC 9110, 9.3.6). Those to port 443 lead to another port, because tests do
 * not listen on 443. Connections to other ports do not use the proxy.
 */
final class TunnelProxy extends ProxySelector implements AutoCloseable {
    private static final String END = "\r\n\r\n";

    private final ServerSocket listener;
    private final int target;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();

    TunnelProxy(int target) throws IOException {
        this.target = target;
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        thread(() -> {
            while (true) {
                Socket client = listener.accept();
                thread(() -> tunnel(client));
            }
        });
    }

    /** Ends all connections. Later ones are tunnelled. */
    void cut() throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }

    @Override
    public List<Proxy> select(URI uri) {
        boolean isTunnelled = uri.getPort() == 443;
        return List.of(isTunnelled ? new Proxy(Proxy.Type.HTTP, listener.getLocalSocketAddress()) : Proxy.NO_PROXY);
    }

    @Override
    public void connectFailed(URI uri, SocketAddress address, IOException error) {
    }

    private void tunnel(Socket client) throws IOException {
        sockets.add(client);
        ByteArrayOutputStream head = new ByteArrayOutputStream();
        while (!head.toString(StandardCharsets.US_ASCII).endsWith(END)) {
            int next = client.getInputStream().read();
            if (next < 0) {
                client.close();
                return;
            }
            head.write(next);
        }
        Socket upstream = new Socket();
        upstream.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), target));
        sockets.add(upstream);
        client.getOutputStream().write(("HTTP/1.1 200 OK" + END).getBytes(StandardCharsets.US_ASCII));
        thread(() -> forward(client, upstream));
        forward(upstream, client);
    }

    private static void forward(Socket from, Socket to) throws IOException {
        try (from; to) {
            InputStream input = from.getInputStream();
            OutputStream output = to.getOutputStream();
            input.transferTo(output);
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void thread(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException ended) {
                // The socket was closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
