package dev.gannet.client;

import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollChannelOption;
import java.time.Duration;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** A gRPC channel with one HTTP/2 connection. */
final class Connection {
    /**
     * Windows of HTTP/2 in bytes. A fixed window avoids the pings by which gRPC otherwise estimates it. The client
     * reads every reply at once into memory, so that the window bounds nothing else.
     */
    private static final int WINDOW_BYTES = 1 << 20;

    /** gRPC sends no pings more often than this. */
    private static final Duration PING_PERIOD_MIN = Duration.ofSeconds(10);

    private static final double DELAY_GROWTH = 1.6;

    /** The requests in flight. The lock of the limiter guards it. */
    int inFlight;

    private final ManagedChannel channel;
    private final ScheduledExecutorService timers;
    private final boolean isKeptOpen;
    private final long delayMinMs;
    private final long delayMaxMs;
    private double delayMs;
    private boolean isAwaitingDelay;

    Connection(
            Credentials target, Configuration configuration, ScheduledExecutorService timers, boolean isKeptOpen) {
        this.timers = timers;
        this.isKeptOpen = isKeptOpen;
        delayMinMs = configuration.reconnectDelayMin().toMillis();
        delayMaxMs = configuration.reconnectDelayMax().toMillis();
        delayMs = delayMinMs;
        NettyChannelBuilder builder = NettyChannelBuilder.forAddress(
                        target.host(), target.port(), target.channelCredentials())
                .directExecutor()
                .userAgent("gannet-java/" + CacheClient.VERSION)
                .disableServiceConfigLookUp()
                // A proxy for web traffic does not lead to the server.
                .proxyDetector(address -> null)
                // A connection without calls stays open.
                .idleTimeout(31, TimeUnit.DAYS)
                .initialFlowControlWindow(WINDOW_BYTES)
                .flowControlWindow(WINDOW_BYTES)
                .maxInboundMessageSize(configuration.messageBytesMax())
                .withOption(
                        ChannelOption.CONNECT_TIMEOUT_MILLIS,
                        (int) Math.min(configuration.connectTimeout().toMillis(), Integer.MAX_VALUE));
        Duration period = configuration.keepaliveTime();
        if (!period.isZero()) {
            Duration ping = period.compareTo(PING_PERIOD_MIN) < 0 ? PING_PERIOD_MIN : period;
            builder.keepAliveTime(ping.toNanos(), TimeUnit.NANOSECONDS)
                    .keepAliveTimeout(configuration.keepaliveTimeout().toNanos(), TimeUnit.NANOSECONDS)
                    .keepAliveWithoutCalls(configuration.keepaliveWithoutCalls());
            if (Epoll.isAvailable()) {
                // The kernel's probes find a broken path within the period, which gRPC's pings do not.
                builder.withOption(ChannelOption.SO_KEEPALIVE, true)
                        .withOption(EpollChannelOption.TCP_KEEPIDLE, seconds(period))
                        .withOption(EpollChannelOption.TCP_KEEPINTVL, seconds(configuration.keepaliveTimeout()))
                        .withOption(EpollChannelOption.TCP_KEEPCNT, 1);
            }
        }
        channel = builder.build();
    }

    ManagedChannel channel() {
        return channel;
    }

    private static int seconds(Duration time) {
        return (int) Math.min(Math.max(1, time.toSeconds()), 32_767);
    }

    /**
     * Observes the connection until the client is closed: after a failure it is opened again after the delays of the
     * configuration, which are shorter than gRPC's own. A connection that is kept open is opened again whenever it was
     * lost, so that no request waits for a handshake.
     */
    void watch() {
        ConnectivityState state = channel.getState(isKeptOpen);
        if (state == ConnectivityState.SHUTDOWN) {
            return;
        }
        synchronized (this) {
            if (state == ConnectivityState.READY) {
                delayMs = delayMinMs;
            } else if (state == ConnectivityState.TRANSIENT_FAILURE && !isAwaitingDelay) {
                isAwaitingDelay = true;
                scheduleReconnect();
            }
        }
        channel.notifyWhenStateChanged(state, this::watch);
    }

    private synchronized void reconnect() {
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            channel.resetConnectBackoff();
            delayMs = Math.min(delayMaxMs, delayMs * DELAY_GROWTH);
            scheduleReconnect();
        } else {
            isAwaitingDelay = false;
        }
    }

    private void scheduleReconnect() {
        double delay = delayMs * (0.8 + 0.4 * ThreadLocalRandom.current().nextDouble());
        if (!timers.isShutdown()) {
            timers.schedule(this::reconnect, (long) (Math.min(delayMaxMs, delay) * 1_000), TimeUnit.MICROSECONDS);
        }
    }
}
