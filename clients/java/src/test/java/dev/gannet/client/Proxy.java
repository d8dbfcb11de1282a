package dev.gannet.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntToLongFunction;

/** Forwards connections to a server. It stands for the network between a client and the server. */
final class Proxy implements AutoCloseable {
    private final ServerSocket listener;
    private final int target;
    private final IntToLongFunction delayMs;
    private final List<Socket> open = new ArrayList<>();
    private int accepted;
    /** The number of the first connections whose bytes are read and not sent on. */
    private int swallowed;
    /** True while the bytes of all connections wait. */
    private boolean isHeld;

    /** Starts a proxy. The bytes from the server are late by a time that depends on the connection's number. */
    Proxy(String address, IntToLongFunction delayMs) {
        this.target = Integer.parseInt(address.substring(address.indexOf(':') + 1));
        this.delayMs = delayMs;
        try {
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        daemon(this::accept);
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    synchronized int accepted() {
        return accepted;
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket client = listener.accept();
                Socket server;
                try {
                    server = new Socket(InetAddress.getLoopbackAddress(), target);
                } catch (ConnectException e) {
                    client.close();
                    continue;
                }
                client.setTcpNoDelay(true);
                server.setTcpNoDelay(true);
                int number;
                synchronized (this) {
                    number = accepted++;
                    open.add(client);
                    open.add(server);
                }
                daemon(() -> forward(client, server, at -> 0, number));
                daemon(() -> forward(server, client, delayMs, number));
            }
        } catch (IOException e) {
            // The proxy was closed.
        }
    }

    private void forward(Socket from, Socket to, IntToLongFunction delayMs, int number) {
        byte[] buffer = new byte[1 << 16];
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int size = in.read(buffer); size > 0; size = in.read(buffer)) {
                if (passes(number)) {
                    Servers.sleep(delayMs.applyAsLong(number));
                    out.write(buffer, 0, size);
                }
            }
        } catch (IOException e) {
            // One of the ends was closed.
        }
    }

    /** Discards all further bytes of the present connections, which stay open. */
    synchronized void swallow() {
        swallowed = accepted;
    }

    /** Waits while bytes are held. Returns false if those of a connection are swallowed. */
    private synchronized boolean passes(int number) throws IOException {
        try {
            while (isHeld) {
                wait();
            }
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        return number >= swallowed;
    }

    /** Changes the network as a step of a scenario does. */
    synchronized void network(String action) {
        switch (action) {
            case "swallow" -> swallowed = Integer.MAX_VALUE;
            case "hold", "forward" -> swallowed = swallowed == Integer.MAX_VALUE ? accepted : swallowed;
            default -> throw new AssertionError("unknown action of the network: " + action);
        }
        isHeld = action.equals("hold");
        notifyAll();
    }

    /** Closes all connections. */
    synchronized void cut() {
        for (Socket each : open) {
            try {
                each.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        open.clear();
    }

    @Override
    public void close() {
        try {
            listener.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        network("forward");
        cut();
    }
}
