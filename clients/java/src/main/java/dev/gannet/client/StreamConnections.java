package dev.gannet.client;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledExecutorService;

/**
 * The connections of streams that stay open, such as subscriptions. They are not those of requests: the server bounds
 * the streams of a connection, so that subscriptions would take the places of requests. A connection is opened with its
 * first stream, and closed with its last one.
 */
final class StreamConnections {
    private final Credentials target;
    private final Configuration configuration;
    private final ScheduledExecutorService timers;
    private final List<Connection> connections = new ArrayList<>();
    private boolean isClosed;

    StreamConnections(Credentials target, Configuration configuration, ScheduledExecutorService timers) {
        this.target = target;
        this.configuration = configuration;
        this.timers = timers;
    }

    /** Returns a connection with a free stream, which the caller releases; null if the client is closed. */
    synchronized Connection acquire() {
        if (isClosed) {
            return null;
        }
        for (Connection each : connections) {
            if (each.inFlight < configuration.streamsPerConnection()) {
                each.inFlight++;
                return each;
            }
        }
        Connection created = new Connection(target, configuration, timers, false);
        created.watch();
        created.inFlight = 1;
        connections.add(created);
        return created;
    }

    /** Closes the connection if it has no further stream: the next stream opens another one. */
    synchronized void release(Connection used) {
        used.inFlight--;
        if (used.inFlight == 0) {
            connections.remove(used);
            used.channel().shutdown();
        }
    }

    /** Gives no further streams to a connection that is silent. It is closed after its last one. */
    synchronized void retire(Connection used) {
        connections.remove(used);
    }

    /** Returns the number of streams that are open. */
    synchronized int inFlight() {
        return connections.stream().mapToInt(each -> each.inFlight).sum();
    }

    /** Returns the number of connections. */
    synchronized int size() {
        return connections.size();
    }

    synchronized void close() {
        isClosed = true;
        connections.forEach(each -> each.channel().shutdownNow());
    }
}
