package dev.gannet.client;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * One call of the user, from its start to its result.
 *
 * <pre>
 * begin -> enter -> queued -> granted -> send -> ended -> conclude -> run (on the executor)
 *            ^ |                          ^        |
 *            | +--------------------------+        |
 *            +------------------ retry <-----------+
 * </pre>
 *
 * Any step may also conclude the call, and only the first conclusion counts. A step that holds a place releases it.
 */
final class PendingCall<Q extends Message, P extends Message, R> extends Limiter.Waiter implements Runnable {
    private static final VarHandle CONCLUDED;

    static {
        try {
            CONCLUDED = MethodHandles.lookup().findVarHandle(PendingCall.class, "isConcluded", boolean.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Engine engine;
    private final Method<Q, P> method;
    private final String cache;
    private final Q request;
    private final Reading<P, R> reading;
    private final Result result = new Result();
    private final long begun = System.nanoTime();
    private final long deadline;
    private Object[] contexts;

    private long entered;
    private long queuedNs;
    private int retries;
    private Duration previousDelay = Duration.ZERO;
    private boolean isHedged;
    /** Ends the wait in the queue. Not the field of the retries: a place may be granted before it is assigned. */
    private volatile ScheduledFuture<?> queueTimer;
    private volatile ScheduledFuture<?> retryTimer;
    private volatile ScheduledFuture<?> hedgeTimer;
    private volatile Attempt first;
    private volatile Attempt second;
    /** The attempts whose end is awaited. The lock of this object guards it. */
    private int openAttempts;

    private volatile boolean isConcluded;
    private R outcome;
    private CacheError error;
    /** The exception of the user's retry strategy, which completes the future in place of the result. */
    private Throwable thrown;
    private long durationNs;

    PendingCall(Engine engine, Method<Q, P> method, String cache, Q request, Reading<P, R> reading, long deadlineNs) {
        this.engine = engine;
        this.method = method;
        this.cache = cache;
        this.request = request;
        this.reading = reading;
        this.deadline = begun + deadlineNs;
    }

    /** The future of a caller. A call whose future was cancelled, or completed by the caller, is given up. */
    private final class Result extends CompletableFuture<R> {
        @Override
        public boolean cancel(boolean mayInterrupt) {
            abandon();
            return super.cancel(mayInterrupt);
        }

        @Override
        public boolean completeExceptionally(Throwable thrown) {
            abandon();
            return super.completeExceptionally(thrown);
        }

        @Override
        public boolean complete(R value) {
            abandon();
            return super.complete(value);
        }

        void completeByOutcome() {
            if (thrown == null) {
                super.complete(outcome);
            } else {
                super.completeExceptionally(thrown);
            }
        }
    }

    CompletableFuture<R> future() {
        return result;
    }

    /** Begins the call, on the thread of the caller. */
    void begin() {
        List<Middleware> middleware = engine.middleware;
        int bytes = request.getSerializedSize();
        if (!middleware.isEmpty()) {
            CallStart start = new CallStart(method.name(), cache, bytes);
            contexts = new Object[middleware.size()];
            for (int at = 0; at < contexts.length; at++) {
                contexts[at] = middleware.get(at).before(start);
            }
        }
        Optional<String> bad = method.badText(request);
        if (!Credentials.isPrintableAscii(cache)) {
            refuse(Refusal.badCacheName());
        } else if (bad.isPresent()) {
            refuse(Refusal.badText(bad.get()));
        } else if (bytes > engine.configuration.messageBytesMax()) {
            refuse(Refusal.requestTooLarge(bytes, engine.configuration.messageBytesMax()));
        } else {
            enter(true);
        }
    }

    private void enter(boolean isFirst) {
        entered = System.nanoTime();
        try {
            Connection used = engine.limiter.enter(this, isFirst);
            if (used != null) {
                send(used);
            } else {
                ScheduledFuture<?> own = schedule(this::leaveAtDeadline, deadline - System.nanoTime());
                queueTimer = own;
                if (!isQueued()) {
                    cancel(own);
                }
                // A cancellation before the request was queued did not find it in the queue.
                if (isConcluded) {
                    engine.limiter.leave(this);
                }
            }
        } catch (Refusal refusal) {
            refuse(refusal);
        }
    }

    private void leaveAtDeadline() {
        if (engine.limiter.leave(this)) {
            queuedNs += System.nanoTime() - entered;
            refuse(Refusal.QUEUE_TIMEOUT);
        }
    }

    /** Sends the request, which waited in the queue, on a connection. */
    void granted(Connection used) {
        queuedNs += System.nanoTime() - entered;
        cancel(queueTimer);
        send(used);
    }

    private void send(Connection used) {
        if (isConcluded || deadline - System.nanoTime() <= 0) {
            engine.release(used);
            if (retries == 0) {
                refuse(Refusal.QUEUE_TIMEOUT);
            } else if (!isConcluded) {
                // The server has received the request at least once.
                fail(errorOf(Status.DEADLINE_EXCEEDED));
            }
            return;
        }
        synchronized (this) {
            openAttempts = 1;
        }
        Attempt attempt = new Attempt(used);
        first = attempt;
        second = null;
        if (method.isHedged() && engine.hedgeNs > 0) {
            hedgeTimer = schedule(() -> hedge(attempt), engine.hedgeNs);
        }
        attempt.start();
    }

    /** Sends the request a second time, if its first attempt has not ended. */
    private void hedge(Attempt slow) {
        Connection used = isConcluded || first != slow ? null : engine.limiter.acquireForHedge(slow.connection);
        if (used == null) {
            return;
        }
        Attempt attempt;
        synchronized (this) {
            boolean isOpen = openAttempts == 1 && first == slow && !isConcluded;
            attempt = isOpen ? new Attempt(used) : null;
            if (isOpen) {
                openAttempts = 2;
                isHedged = true;
                second = attempt;
            }
        }
        if (attempt == null) {
            engine.release(used);
            return;
        }
        engine.hedges.incrementAndGet();
        attempt.start();
    }

    /** One request on one connection. Its place is released when it has ended. */
    private final class Attempt extends ClientCall.Listener<P> {
        private final Connection connection;
        private volatile ClientCall<Q, P> call;
        private P reply;
        private List<P> replies;

        Attempt(Connection connection) {
            this.connection = connection;
        }

        void start() {
            long time = deadline - System.nanoTime();
            if (engine.attemptNs > 0) {
                time = Math.min(time, engine.attemptNs);
            }
            ClientCall<Q, P> started = connection.channel().newCall(
                    method.descriptor(), CallOptions.DEFAULT.withDeadlineAfter(time, TimeUnit.NANOSECONDS));
            started.start(this, engine.metadataOf(cache));
            // A second message of a call with one reply is an error, which gRPC reports.
            started.request(method.isStream() ? Integer.MAX_VALUE : 2);
            started.sendMessage(request);
            started.halfClose();
            call = started;
            if (isConcluded) {
                abort();
            }
        }

        void abort() {
            ClientCall<Q, P> started = call;
            if (started != null) {
                started.cancel("the client gave it up", null);
            }
        }

        @Override
        public void onMessage(P message) {
            if (method.isStream()) {
                if (replies == null) {
                    replies = new ArrayList<>();
                }
                replies.add(message);
            } else {
                reply = message;
            }
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            engine.release(connection);
            if (status.isOk()) {
                succeeded(this);
            } else {
                failed(Failures.ofTransport(status));
            }
        }

        R read() {
            if (method.isStream()) {
                return reading.many().apply(replies == null ? List.of() : replies);
            }
            if (reply == null) {
                throw BadReplyException.empty();
            }
            return reading.one().apply(reply);
        }
    }

    private void succeeded(Attempt attempt) {
        try {
            conclude(attempt.read(), null, null);
        } catch (BadReplyException e) {
            fail(e.error(method.name()));
        } catch (RuntimeException e) {
            fail(BadReplyException.unreadable(e).error(method.name()));
        }
        abortAttempts();
    }

    private void failed(Status status) {
        synchronized (this) {
            openAttempts--;
            if (openAttempts > 0) {
                return;
            }
        }
        cancel(hedgeTimer);
        if (isConcluded) {
            return;
        }
        if (engine.limiter.isClosed()) {
            refuse(Refusal.CLOSED);
            return;
        }
        Optional<Duration> delay;
        try {
            delay = retryDelay(status);
        } catch (Throwable e) {
            // The strategy is code of the user: the caller gets the exception instead of the result.
            CacheError failure = errorOf(status);
            conclude(reading.error().apply(failure), failure, e);
            return;
        }
        if (delay.isEmpty() || !engine.limiter.takeRetryToken()) {
            fail(errorOf(status));
            return;
        }
        retries++;
        engine.retries.incrementAndGet();
        previousDelay = delay.get();
        if (previousDelay.isZero()) {
            engine.run(() -> enter(false));
            return;
        }
        engine.delayed.add(this);
        retryTimer = schedule(this::repeat, previousDelay.toNanos());
        // The client may have been closed before the call was in the set.
        if (engine.limiter.isClosed()) {
            refuse(Refusal.CLOSED);
        }
    }

    private void repeat() {
        engine.delayed.remove(this);
        if (!isConcluded) {
            enter(false);
        }
    }

    /** Returns the time after which a failed request is repeated, or empty if it is not. The budget is not asked. */
    private Optional<Duration> retryDelay(Status status) {
        boolean mayRepeat = switch (status.getCode()) {
            case UNAVAILABLE, INTERNAL -> true;
            // The attempt was given up, and the call has time left.
            case DEADLINE_EXCEEDED -> engine.attemptNs > 0;
            default -> false;
        };
        if (!method.isIdempotent() || !mayRepeat) {
            return Optional.empty();
        }
        return engine.configuration.retryStrategy().delay(retries, previousDelay)
                .filter(delay -> deadline - System.nanoTime() > delay.toNanos());
    }

    /** Ends the call without a reply. */
    void refuse(Refusal refusal) {
        if (!isConcluded) {
            fail(refusal.error(method.name()));
        }
    }

    private CacheError errorOf(Status status) {
        return engine.errorOf(method, status, request.getSerializedSize());
    }

    private void fail(CacheError failure) {
        conclude(reading.error().apply(failure), failure, null);
    }

    private void conclude(R value, CacheError failure, Throwable exception) {
        if (!CONCLUDED.compareAndSet(this, false, true)) {
            return;
        }
        outcome = value;
        error = failure;
        thrown = exception;
        settle();
        try {
            engine.configuration.executor().execute(this);
        } catch (RuntimeException e) {
            // The executor is code of the user, and may have been shut down.
            run();
        }
    }

    /** Releases all that the call occupies, except the places of attempts, which they release when they have ended. */
    private void settle() {
        durationNs = System.nanoTime() - begun;
        cancel(queueTimer);
        cancel(retryTimer);
        cancel(hedgeTimer);
        if (retries > 0) {
            engine.delayed.remove(this);
        }
        if (!engine.nearCaches.isEmpty() && !method.isRead()) {
            // Before the future completes, so that a read after it does not return an older copy.
            engine.nearCaches.forEach(each -> each.changedByOwn(cache, request));
        }
        if (engine.recorder != null) {
            engine.recorder.record(method, durationNs, error);
        }
    }

    /** Completes the future. */
    @Override
    public void run() {
        try {
            after();
        } finally {
            result.completeByOutcome();
        }
    }

    private void after() {
        if (contexts == null) {
            return;
        }
        CallEnd end = new CallEnd(method.name(), cache, Duration.ofNanos(durationNs), Duration.ofNanos(queuedNs),
                retries, isHedged, Optional.ofNullable(error));
        for (int at = contexts.length - 1; at >= 0; at--) {
            engine.middleware.get(at).after(end, contexts[at]);
        }
    }

    /** Gives up a call whose result the caller does not need. */
    private void abandon() {
        if (!CONCLUDED.compareAndSet(this, false, true)) {
            return;
        }
        error = Refusal.CANCELLED.error(method.name());
        boolean wasQueued = engine.limiter.leave(this);
        if (wasQueued) {
            queuedNs += System.nanoTime() - entered;
        }
        settle();
        abortAttempts();
        after();
    }

    private void abortAttempts() {
        abort(first);
        abort(second);
    }

    private void abort(Attempt attempt) {
        if (attempt != null) {
            attempt.abort();
        }
    }

    private ScheduledFuture<?> schedule(Runnable work, long ns) {
        try {
            return engine.timers.schedule(work, Math.max(0, ns), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            // The client was closed, which ends the call.
            return null;
        }
    }

    private static void cancel(ScheduledFuture<?> pending) {
        if (pending != null) {
            pending.cancel(false);
        }
    }
}
