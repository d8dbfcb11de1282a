package dev.gannet.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.gannet.v1.CacheName;
import dev.gannet.v1.SetBatchRequest;
import dev.gannet.v1.WatchKeysEvent;
import dev.gannet.v1.WatchKeysRequest;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * Copies of values in the process of the client: a read of a present key needs no request.
 *
 * <pre>
 * get -> copy                                  a hit
 *     -> server -> reply -> copy               a miss; not copied if the key has changed meanwhile
 * watch -> key has changed -> drop the copy
 *       -> lost, or silent for too long -> drop all copies, and read from the server until it is back
 * </pre>
 *
 * <p><b>Staleness.</b> A read after a change by another client may return the old value until the report of the change
 * has arrived. That is usually less than a millisecond later than a reply would be, and at most the maximum of silence:
 * the server sends an event at least every 5 s, in the order of the changes. A read after a change by the same client
 * has ended does not return an older value.
 *
 * <p>The copies have a maximum number and a maximum of bytes. Those that were not read for the longest time are dropped
 * first.
 *
 * @param <T> String or Bytes
 */
public final class NearCache<T> implements AutoCloseable {
    /** Events that the server may send before more are requested, which happens at each event. */
    private static final int EVENTS_REQUESTED = 1_024;

    /** The time after which a watch that the server has refused or ended begins again. */
    private static final long REFUSED_DELAY_MS = 5_000;

    /** Memory of a copy beside its key and its value. */
    private static final int ENTRY_BYTES = 200;

    private final CacheCalls<T> calls;
    private final Engine engine;
    private final String cache;
    private final List<ByteString> prefixes;
    private final int entriesMax;
    private final long bytesMax;
    private Watch watch;
    private boolean isClosed;
    private final CompletableFuture<Void> begun = new CompletableFuture<>();

    // The lock of this object guards the rest. The least recently read copy is the first one.
    private final LinkedHashMap<ByteString, ByteString> copies = new LinkedHashMap<>(16, 0.75f, true);
    /** Reads of keys whose replies have not arrived, by key. */
    private final Map<ByteString, Reads> reads = new HashMap<>();
    private boolean isWatching;
    private CacheError failure;
    /** The time of the latest event. Tests move it into the past. */
    long lastEvent = System.nanoTime();
    private long bytes;
    private long hits;
    private long misses;
    private long invalidations;
    private long evictions;
    private long drops;

    /** The reads of one key. */
    private static final class Reads {
        private int count;
        /** True once the key has changed: the replies may be older than the change. */
        private boolean isOutdated;
    }

    NearCache(CacheCalls<T> calls, String cache, int entriesMax, long bytesMax, List<ByteString> prefixes) {
        if (entriesMax < 1 || bytesMax < 1) {
            throw new IllegalArgumentException("cannot use a near cache of " + entriesMax + " entries and " + bytesMax
                    + " bytes: it holds nothing; pass at least 1");
        }
        this.calls = calls;
        this.engine = calls.engine;
        this.cache = cache;
        this.prefixes = prefixes;
        this.entriesMax = entriesMax;
        this.bytesMax = bytesMax;
        engine.nearCaches.add(this);
        watch = new Watch();
        watch.open();
    }

    /** The stream of changed keys. */
    private final class Watch extends EventStream<WatchKeysRequest, WatchKeysEvent> {
        Watch() {
            super(NearCache.this.engine, Methods.WATCH_KEYS, cache);
        }

        @Override
        WatchKeysRequest request() {
            return WatchKeysRequest.newBuilder().addAllPrefixes(prefixes).build();
        }

        @Override
        int credit() {
            return EVENTS_REQUESTED;
        }

        @Override
        void received(WatchKeysEvent event) {
            synchronized (NearCache.this) {
                lastEvent = System.nanoTime();
                isWatching = true;
                switch (event.getKindCase()) {
                    case KEYS -> event.getKeys().getKeysList().forEach(key -> {
                        if (drop(key)) {
                            invalidations++;
                        }
                    });
                    case ALL -> dropAll();
                    default -> { }
                }
            }
            begun.complete(null);
            requestMore(1);
        }

        @Override
        void lost() {
            stopCopying(null);
        }

        @Override
        void ended(CacheError error) {
            stopCopying(error);
            begun.complete(null);
            if (error != null) {
                watchLater();
            }
        }
    }

    /** Begins a watch that the server has refused again after a delay. */
    private void watchLater() {
        try {
            engine.timers.schedule(this::watchAgain, REFUSED_DELAY_MS, TimeUnit.MILLISECONDS);
        } catch (RejectedExecutionException e) {
            // The client is closed, and with it the near cache.
        }
    }

    private void watchAgain() {
        Watch next;
        synchronized (this) {
            if (isClosed) {
                return;
            }
            next = new Watch();
            watch = next;
        }
        next.open();
    }

    private synchronized void stopCopying(CacheError error) {
        isWatching = false;
        failure = error;
        dropAll();
    }

    /** Drops a copy, and returns true if there was one. The replies of reads that are under way are not copied. */
    private boolean drop(ByteString key) {
        Reads pending = reads.get(key);
        if (pending != null) {
            pending.isOutdated = true;
        }
        ByteString copy = copies.remove(key);
        if (copy == null) {
            return false;
        }
        bytes -= sizeOf(key, copy);
        return true;
    }

    private void dropAll() {
        reads.values().forEach(each -> each.isOutdated = true);
        if (!copies.isEmpty()) {
            drops++;
        }
        copies.clear();
        bytes = 0;
    }

    private static long sizeOf(ByteString key, ByteString value) {
        return (long) key.size() + value.size() + ENTRY_BYTES;
    }

    /** Drops what a call of the same client changes. */
    synchronized void changedByOwn(String changedCache, Message request) {
        if (request instanceof CacheName name) {
            if (name.getName().equals(cache)) {
                dropAll();
            }
        } else if (!changedCache.equals(cache)) {
            return;
        } else if (request instanceof SetBatchRequest batch) {
            batch.getItemsList().forEach(each -> drop(each.getKey()));
        } else {
            FieldDescriptor key = request.getDescriptorForType().findFieldByName("key");
            if (key != null) {
                drop((ByteString) request.getField(key));
            }
        }
    }

    /** Returns the value of a key: a copy, or that of the server. */
    public CompletableFuture<GetResult> get(T key) {
        ByteString name = calls.bytes(key);
        Reads own;
        synchronized (this) {
            boolean isCurrent = isWatching && System.nanoTime() - lastEvent <= engine.silenceNs;
            if (isWatching && !isCurrent) {
                // The process was stopped for a while: the check of the stream may run later than this read.
                dropAll();
            }
            ByteString copy = copies.get(name);
            if (copy != null) {
                hits++;
                return CompletableFuture.completedFuture(new GetResult.Hit(new Bytes(copy)));
            }
            misses++;
            own = isCurrent && isCovered(name) ? reading(name) : null;
        }
        CompletableFuture<GetResult> call = calls.get(cache, key);
        if (own != null) {
            // The future that the caller gets is the call itself, so that its cancellation ends the request.
            CompletableFuture<GetResult> copied = call.whenComplete((result, thrown) -> ended(name, own, result));
            copied.whenComplete((result, thrown) -> {
                if (copied.isCancelled()) {
                    call.cancel(true);
                }
            });
            return copied;
        }
        return call;
    }

    private boolean isCovered(ByteString name) {
        return prefixes.isEmpty() || prefixes.stream().anyMatch(name::startsWith);
    }

    private Reads reading(ByteString name) {
        Reads own = reads.computeIfAbsent(name, unused -> new Reads());
        if (own.isOutdated) {
            // The earlier reads do not delay the copy of this one.
            own = new Reads();
            reads.put(name, own);
        }
        own.count++;
        return own;
    }

    private synchronized void ended(ByteString name, Reads own, GetResult result) {
        own.count--;
        if (own.count == 0 && reads.get(name) == own) {
            reads.remove(name);
        }
        if (own.isOutdated || !isWatching || !(result instanceof GetResult.Hit hit)) {
            return;
        }
        ByteString value = hit.value().data();
        if (sizeOf(name, value) > bytesMax) {
            return;
        }
        ByteString before = copies.put(name, value);
        bytes += sizeOf(name, value) - (before == null ? 0 : sizeOf(name, before));
        Iterator<Map.Entry<ByteString, ByteString>> oldest = copies.entrySet().iterator();
        while (copies.size() > entriesMax || bytes > bytesMax) {
            Map.Entry<ByteString, ByteString> entry = oldest.next();
            bytes -= sizeOf(entry.getKey(), entry.getValue());
            oldest.remove();
            evictions++;
        }
    }

    /** Completes when the server begins to report changes, or refuses to: {@link #failure()} has the error. */
    public CompletableFuture<Void> begun() {
        return begun.copy();
    }

    /**
     * Returns the error for which the server does not report changes now. All reads then go to the server, and the
     * client asks again after 5 s.
     */
    public synchronized Optional<CacheError> failure() {
        return Optional.ofNullable(failure);
    }

    /** Returns a snapshot of the metrics. */
    public synchronized NearCacheMetrics metrics() {
        return new NearCacheMetrics(
                hits, misses, invalidations, evictions, drops, copies.size(), bytes, isWatching);
    }

    /** Drops all copies, and ends the watch. Later reads go to the server. */
    @Override
    public void close() {
        engine.nearCaches.remove(this);
        Watch last;
        synchronized (this) {
            isClosed = true;
            last = watch;
        }
        last.end(null);
    }
}
