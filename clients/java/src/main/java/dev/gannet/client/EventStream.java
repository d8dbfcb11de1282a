package dev.gannet.client;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * A stream of events that the client begins again when it is lost, after delays that grow, until it is closed or the
 * server refuses it for a reason that does not pass.
 */
abstract class EventStream<Q extends Message, P extends Message> {
    /** Three heartbeats of the server. A connection that is silent for longer may be broken without notice. */
    static final Duration SILENCE_MAX = Duration.ofSeconds(15);

    /** Statuses that another attempt would get too, as in clients/streams.toml. */
    static final Set<Status.Code> PERMANENT = EnumSet.of(
            Status.Code.NOT_FOUND, Status.Code.PERMISSION_DENIED, Status.Code.UNAUTHENTICATED,
            Status.Code.INVALID_ARGUMENT, Status.Code.UNIMPLEMENTED, Status.Code.FAILED_PRECONDITION,
            Status.Code.OUT_OF_RANGE, Status.Code.ALREADY_EXISTS, Status.Code.RESOURCE_EXHAUSTED);

    private static final double DELAY_GROWTH = 1.6;

    final Engine engine;
    private final Method<Q, P> method;
    private final String cache;
    private Attempt current;
    private boolean hadEvents;
    private boolean hasEnded;
    private double delayMs;
    /** The next beginning of the stream, or the next check of the present one. */
    private ScheduledFuture<?> timer;

    EventStream(Engine engine, Method<Q, P> method, String cache) {
        this.engine = engine;
        this.method = method;
        this.cache = cache;
        delayMs = engine.configuration.reconnectDelayMin().toMillis();
    }

    Method<Q, P> method() {
        return method;
    }

    /** Returns the request of the next stream. */
    abstract Q request();

    /** Returns the number of events that the next stream may send before more are requested. */
    abstract int credit();

    /** Takes an event. The lock of this object is held. */
    abstract void received(P event);

    /** Learns that the stream was lost, and is begun again later. The lock of this object is held. */
    abstract void lost();

    /** Learns that no event follows; the error is null if the user has closed the stream. The lock is held. */
    abstract void ended(CacheError error);

    /** Begins the stream. */
    void open() {
        synchronized (this) {
            // It may have been closed during the delay.
            if (hasEnded) {
                return;
            }
            engine.eventStreams.add(this);
        }
        if (!Credentials.isPrintableAscii(cache)) {
            end(Refusal.badCacheName().error(method.name()));
            return;
        }
        Optional<String> bad = method.badText(request());
        if (bad.isPresent()) {
            end(Refusal.badText(bad.get()).error(method.name()));
            return;
        }
        Connection connection = engine.streams.acquire();
        if (connection == null) {
            end(Refusal.CLOSED.error(method.name()));
            return;
        }
        Attempt attempt = new Attempt(connection);
        Q request;
        synchronized (this) {
            if (hasEnded) {
                engine.streams.release(connection);
                return;
            }
            current = attempt;
            request = request();
            attempt.credit = credit();
        }
        later(() -> checkSilence(attempt), engine.silenceNs);
        attempt.start(request);
    }

    /** Lets the server send more events. */
    void requestMore(int events) {
        ClientCall<Q, P> call;
        synchronized (this) {
            if (current == null) {
                return;
            }
            call = current.call;
            if (current.credit == 0) {
                // While no event was requested, none could arrive.
                current.heardNs = System.nanoTime();
            }
            current.credit += events;
            if (call == null) {
                // The stream is about to start, and requests them then.
                return;
            }
        }
        call.request(events);
    }

    /** Ends the stream for good. */
    void end(CacheError error) {
        Attempt attempt;
        synchronized (this) {
            if (hasEnded) {
                return;
            }
            hasEnded = true;
            attempt = current;
            if (timer != null) {
                timer.cancel(false);
            }
            ended(error);
        }
        engine.eventStreams.remove(this);
        if (attempt != null && attempt.call != null) {
            attempt.call.cancel("the stream is not needed any more", null);
        }
    }

    /** Runs work after a delay, unless the stream has ended by then. */
    private void later(Runnable work, long delayNs) {
        try {
            synchronized (this) {
                if (timer != null) {
                    timer.cancel(false);
                }
                if (!hasEnded) {
                    timer = engine.timers.schedule(work, delayNs, TimeUnit.NANOSECONDS);
                }
            }
        } catch (RejectedExecutionException e) {
            end(Refusal.CLOSED.error(method.name()));
        }
    }

    /** Begins another stream on another connection if this attempt has been silent for too long. */
    private void checkSilence(Attempt attempt) {
        long remainingNs;
        synchronized (this) {
            if (hasEnded || current != attempt) {
                return;
            }
            remainingNs = engine.silenceNs;
            if (attempt.credit > 0) {
                remainingNs -= System.nanoTime() - attempt.heardNs;
            }
            if (remainingNs <= 0) {
                current = null;
                lost();
            }
        }
        if (remainingNs > 0) {
            later(() -> checkSilence(attempt), remainingNs);
            return;
        }
        // The other streams of the connection notice its silence themselves.
        engine.streams.retire(attempt.connection);
        if (attempt.call != null) {
            attempt.call.cancel("the stream is silent", null);
        }
        openLater();
    }

    private synchronized boolean isCurrent(Attempt attempt) {
        return !hasEnded && current == attempt;
    }

    private final class Attempt extends ClientCall.Listener<P> {
        private final Connection connection;
        private volatile ClientCall<Q, P> call;
        private boolean hasEvents;
        /** The events that are requested and have not arrived. The lock of the outer object guards it. */
        private int credit;
        /** The time of the latest event, or of the beginning. The lock of the outer object guards it. */
        private long heardNs = System.nanoTime();

        Attempt(Connection connection) {
            this.connection = connection;
        }

        void start(Q request) {
            ClientCall<Q, P> started = connection.channel().newCall(method.descriptor(), CallOptions.DEFAULT);
            started.start(this, engine.metadataOf(cache));
            started.sendMessage(request);
            started.halfClose();
            int events;
            synchronized (EventStream.this) {
                call = started;
                events = credit;
            }
            // Without a free place in the buffer, events are requested when it is read.
            if (events > 0) {
                started.request(events);
            }
            if (!isCurrent(this)) {
                started.cancel("the stream is not needed any more", null);
            }
        }

        @Override
        public void onMessage(P event) {
            synchronized (EventStream.this) {
                if (hasEnded || current != this) {
                    return;
                }
                if (!hasEvents) {
                    hasEvents = true;
                    delayMs = engine.configuration.reconnectDelayMin().toMillis();
                    if (hadEvents) {
                        engine.resumes.incrementAndGet();
                    }
                    hadEvents = true;
                }
                credit--;
                heardNs = System.nanoTime();
                received(event);
            }
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            engine.streams.release(connection);
            synchronized (EventStream.this) {
                if (hasEnded || current != this) {
                    return;
                }
                current = null;
                lost();
            }
            if (PERMANENT.contains(status.getCode())) {
                end(engine.errorOf(method, status, 0));
            } else {
                openLater();
            }
        }
    }

    private void openLater() {
        double jitter = 0.8 + 0.4 * ThreadLocalRandom.current().nextDouble();
        long delayNs;
        synchronized (this) {
            delayNs = (long) (delayMs * jitter * 1_000_000);
            delayMs = Math.min(engine.configuration.reconnectDelayMax().toMillis(), delayMs * DELAY_GROWTH);
        }
        later(this::open, delayNs);
    }
}
