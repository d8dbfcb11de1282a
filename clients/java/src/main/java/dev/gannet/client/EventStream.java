package dev.gannet.client;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * A stream of events that the client begins again when it is lost, after delays that grow, until it is closed or the
 * server refuses it for a reason that does not pass.
 */
abstract class EventStream<Q extends Message, P extends Message> {
    /** Statuses that another attempt would get too. */
    private static final Set<Status.Code> PERMANENT = EnumSet.of(
            Status.Code.NOT_FOUND, Status.Code.PERMISSION_DENIED, Status.Code.UNAUTHENTICATED,
            Status.Code.INVALID_ARGUMENT, Status.Code.UNIMPLEMENTED, Status.Code.FAILED_PRECONDITION,
            Status.Code.OUT_OF_RANGE, Status.Code.ALREADY_EXISTS);

    private static final double DELAY_GROWTH = 1.6;

    final Engine engine;
    private final Method<Q, P> method;
    private final String cache;
    private Attempt current;
    private boolean hadEvents;
    private boolean hasEnded;
    private double delayMs;

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
        engine.eventStreams.add(this);
        if (!Credentials.isPrintableAscii(cache)) {
            end(Refusal.badCacheName().error(method.name()));
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
            if (call == null) {
                // The stream is about to start, and requests them then.
                current.credit += events;
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
            ended(error);
        }
        engine.eventStreams.remove(this);
        if (attempt != null && attempt.call != null) {
            attempt.call.cancel("the stream is not needed any more", null);
        }
    }

    synchronized boolean hasEnded() {
        return hasEnded;
    }

    /** Ends the present stream, and begins another one. */
    void restart() {
        Attempt attempt;
        synchronized (this) {
            attempt = current;
        }
        if (attempt != null && attempt.call != null) {
            attempt.call.cancel("the stream is silent", null);
        }
    }

    private final class Attempt extends ClientCall.Listener<P> {
        private final Connection connection;
        private volatile ClientCall<Q, P> call;
        private boolean hasEvents;
        /** The events to request when the stream starts. The lock of the outer object guards it. */
        private int credit;

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
            if (hasEnded()) {
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
                end(engine.errorOf(method.name(), status, 0));
            } else {
                openLater();
            }
        }
    }

    private void openLater() {
        double jitter = 0.8 + 0.4 * ThreadLocalRandom.current().nextDouble();
        long delay;
        synchronized (this) {
            delay = (long) (delayMs * jitter * 1_000);
            delayMs = Math.min(engine.configuration.reconnectDelayMax().toMillis(), delayMs * DELAY_GROWTH);
        }
        try {
            engine.timers.schedule(this::open, delay, TimeUnit.MICROSECONDS);
        } catch (RejectedExecutionException e) {
            end(Refusal.CLOSED.error(method.name()));
        }
    }
}
