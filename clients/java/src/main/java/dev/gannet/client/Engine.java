package dev.gannet.client;

import com.google.protobuf.Message;
import dev.gannet.v1.Done;
import io.grpc.CallOptions;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Executes the calls of a client:
 *
 * <pre>
 * caller -> before (middleware) -> queue -> connection -> reply -> after -> result
 *                                    ^                      |
 *                                    +---- delay <- retry <-+
 * </pre>
 */
final class Engine {
    private static final Metadata.Key<String> CACHE = Metadata.Key.of("cache", Metadata.ASCII_STRING_MARSHALLER);
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    /** Bounds the names of caches whose metadata the client retains. */
    private static final int CACHES_REMEMBERED_MAX = 64;

    private static final MethodDescriptor<Done, Done> HEALTH = MethodDescriptor.<Done, Done>newBuilder()
            .setType(MethodType.UNARY)
            .setFullMethodName("grpc.health.v1.Health/Check")
            .setRequestMarshaller(ProtoUtils.marshaller(Done.getDefaultInstance()))
            .setResponseMarshaller(ProtoUtils.marshaller(Done.getDefaultInstance()))
            .build();

    final Configuration configuration;
    final Limiter limiter;
    final ScheduledThreadPoolExecutor timers;
    final AtomicLong retries = new AtomicLong();
    final AtomicLong hedges = new AtomicLong();
    final AtomicLong resumes = new AtomicLong();
    final StreamConnections streams;
    /** Subscriptions and watches that are open. */
    final Set<EventStream<?, ?>> eventStreams = ConcurrentHashMap.newKeySet();
    /** The near caches, which drop their copies of what this client changes. */
    final List<NearCache<?>> nearCaches = new CopyOnWriteArrayList<>();
    final Recorder recorder;
    final List<Middleware> middleware;
    final long hedgeNs;
    final long attemptNs;
    /** The time without an event after which a stream is begun again. */
    volatile long silenceNs = EventStream.SILENCE_MAX.toNanos();
    /** Calls that wait before they are repeated. */
    final Set<PendingCall<?, ?, ?>> delayed = ConcurrentHashMap.newKeySet();

    private final Credentials target;
    private final Failures failures;
    private final Connection[] connections;
    private final Map<String, Metadata> metadata = new ConcurrentHashMap<>();
    private final ThreadLocal<Grants> grants = ThreadLocal.withInitial(Grants::new);

    /** The requests that a thread has to send, one after another. */
    private static final class Grants {
        final ArrayDeque<Runnable> waiting = new ArrayDeque<>();
        boolean isRunning;
    }

    Engine(Credentials target, Configuration configuration) {
        this.target = target;
        this.configuration = configuration;
        failures = new Failures(target, configuration.messageBytesMax());
        middleware = configuration.middleware();
        recorder = configuration.metrics() ? new Recorder() : null;
        hedgeNs = configuration.hedgeDelay().toNanos();
        attemptNs = configuration.retryStrategy().responseTimeout().toNanos();
        timers = new ScheduledThreadPoolExecutor(1, work -> {
            Thread thread = new Thread(work, "gannet-timers");
            thread.setDaemon(true);
            return thread;
        });
        timers.setRemoveOnCancelPolicy(true);
        streams = new StreamConnections(target, configuration, timers);
        connections = new Connection[configuration.connectionsMax()];
        try {
            for (int at = 0; at < connections.length; at++) {
                connections[at] = new Connection(
                        target, configuration, timers, configuration.eagerConnect());
                connections[at].watch();
            }
        } catch (RuntimeException e) {
            closeConnections();
            throw e;
        }
        limiter = new Limiter(connections, configuration);
    }

    /** Executes a call. */
    <Q extends Message, P extends Message, R> CompletableFuture<R> call(
            Method<Q, P> method, Scope scope, String cache, Q request, Reading<P, R> reading) {
        PendingCall<Q, P, R> call = new PendingCall<>(this, method, cache, request, reading, scope.deadlineNs());
        call.begin();
        return call.future();
    }

    /** Returns new metadata of a call on a cache. gRPC changes it. */
    Metadata metadataOf(String cache) {
        Metadata known = metadata.get(cache);
        if (known == null) {
            known = new Metadata();
            if (!cache.isEmpty()) {
                known.put(CACHE, cache);
            }
            if (target.token().isPresent()) {
                known.put(AUTHORIZATION, target.token().get());
            }
            if (metadata.size() < CACHES_REMEMBERED_MAX) {
                metadata.put(cache, known);
            }
        }
        Metadata own = new Metadata();
        own.merge(known);
        Map<String, String> added = configuration.metadata();
        if (!added.isEmpty()) {
            added.forEach((name, text) -> own.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), text));
        }
        return own;
    }

    /** Returns the error of a call whose request has this size in bytes. */
    CacheError errorOf(Method<?, ?> method, Status status, int requestBytes) {
        return failures.errorOf("cannot execute " + method.name() + " at " + target.address(), method.service(), status,
                requestBytes);
    }

    /** Passes a place on. */
    void release(Connection used) {
        if (limiter.release(used) instanceof PendingCall<?, ?, ?> next) {
            run(() -> next.granted(used));
        }
    }

    /**
     * Runs work on this thread, after the work that the thread is doing. A request on a broken connection ends at once
     * and passes its place to the next one: the queue would otherwise grow the stack.
     */
    void run(Runnable work) {
        Grants own = grants.get();
        own.waiting.add(work);
        if (own.isRunning) {
            return;
        }
        own.isRunning = true;
        try {
            for (Runnable next = own.waiting.poll(); next != null; next = own.waiting.poll()) {
                next.run();
            }
        } finally {
            own.isRunning = false;
        }
    }

    Metrics metrics() {
        return new Metrics(limiter.inFlight(), limiter.queued(), connections.length, retries.get(), hedges.get(),
                resumes.get(), recorder == null ? Map.of() : recorder.snapshot());
    }

    /** Opens all connections. */
    CompletableFuture<DoneResult> connect() {
        List<CompletableFuture<DoneResult>> opening = new ArrayList<>();
        for (Connection each : connections) {
            CompletableFuture<DoneResult> opened = new CompletableFuture<>();
            opening.add(opened);
            open(each.channel(), opened);
        }
        CacheError late = new CacheError(ErrorCode.TIMEOUT, "cannot connect to " + target.address(),
                "the connection was not open before the deadline", "check the address, the network and the firewall",
                null);
        return CompletableFuture.allOf(opening.toArray(CompletableFuture<?>[]::new))
                .<DoneResult>handle((none, thrown) -> opening.stream().map(CompletableFuture::join)
                        .filter(ErrorResult.class::isInstance).findFirst().orElse(DoneResult.Success.INSTANCE))
                .completeOnTimeout(new DoneResult.Error(late), Ttl.deadlineNsOf(configuration.deadline()),
                        TimeUnit.NANOSECONDS);
    }

    private void open(ManagedChannel channel, CompletableFuture<DoneResult> opened) {
        ConnectivityState state = channel.getState(true);
        switch (state) {
            case READY -> opened.complete(DoneResult.Success.INSTANCE);
            case SHUTDOWN -> opened.complete(new DoneResult.Error(Refusal.CLOSED.error("connect")));
            case TRANSIENT_FAILURE -> reason(channel, opened);
            default -> channel.notifyWhenStateChanged(state, () -> open(channel, opened));
        }
    }

    /** Completes with the error of a connection that failed: a call on it ends with this error at once. */
    private void reason(ManagedChannel channel, CompletableFuture<DoneResult> opened) {
        ClientCalls.asyncUnaryCall(
                channel.newCall(HEALTH, CallOptions.DEFAULT),
                Done.getDefaultInstance(),
                new StreamObserver<Done>() {
                    @Override
                    public void onNext(Done reply) {}

                    @Override
                    public void onCompleted() {
                        opened.complete(DoneResult.Success.INSTANCE);
                    }

                    @Override
                    public void onError(Throwable thrown) {
                        Status status = Status.fromThrowable(thrown);
                        // Any other status is a reply of the server.
                        opened.complete(status.getCode() != Status.Code.UNAVAILABLE
                                ? DoneResult.Success.INSTANCE
                                : new DoneResult.Error(
                                        failures.errorOf(
                                                "cannot connect to " + target.address(), "", status, 0)));
                    }
                });
    }

    /** Ends all calls and closes the connections. */
    void close() {
        for (Limiter.Waiter each : limiter.close()) {
            ((PendingCall<?, ?, ?>) each).refuse(Refusal.CLOSED);
        }
        delayed.forEach(each -> each.refuse(Refusal.CLOSED));
        eventStreams.forEach(each -> each.end(Refusal.CLOSED.error(each.method().name())));
        closeConnections();
    }

    private void closeConnections() {
        timers.shutdownNow();
        streams.close();
        for (Connection each : connections) {
            if (each != null) {
                each.channel().shutdownNow();
            }
        }
    }
}
