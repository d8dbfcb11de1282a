package dev.gannet.client;

import dev.gannet.v1.CacheName;
import dev.gannet.v1.GraphStatsRequest;
import dev.gannet.v1.ListCachesReply;
import dev.gannet.v1.ListCachesRequest;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * All calls of a client, on keys, values, fields and elements of type {@code T}: texts, or {@link Bytes}.
 *
 * <p>A call replies with a future of a result, which is a hit, a miss, a success or an error. A future never completes
 * exceptionally unless its caller does so: {@code cancel} gives the call up, as {@code orTimeout} does. {@code join()}
 * waits for the result.
 *
 * @param <T> String or Bytes
 */
public class CacheCalls<T> extends TokenCalls<T> {
    CacheCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Returns a view of the client whose keys, values, fields and elements are bytes. */
    public CacheCalls<Bytes> binary() {
        return new CacheCalls<>(engine, scope, Codec.BYTES);
    }

    /**
     * Returns a view of the client with another deadline of each call, instead of that of the configuration.
     *
     * @throws IllegalArgumentException if it is not above zero
     */
    public CacheCalls<T> withDeadline(Duration deadline) {
        if (deadline.isZero() || deadline.isNegative()) {
            throw new IllegalArgumentException(
                    "cannot use deadline " + deadline + ": it is not above zero; pass a longer time");
        }
        return new CacheCalls<>(engine, new Scope(scope.defaultTtlMs(), Ttl.deadlineNsOf(deadline)), codec);
    }

    /**
     * Returns a near cache of all keys of a cache, which holds at most this number of values and bytes in the process.
     * Reads through it need no request if it has a copy.
     */
    public NearCache<T> nearCache(String cache, int entriesMax, long bytesMax) {
        return new NearCache<>(this, cache, entriesMax, bytesMax, List.of());
    }

    /**
     * Returns a near cache of the keys with these prefixes.
     *
     * @param prefixes at most 256, of at most 256 bytes each
     */
    public NearCache<T> nearCache(
            String cache, int entriesMax, long bytesMax, Collection<? extends T> prefixes) {
        return new NearCache<>(this, cache, entriesMax, bytesMax, all(prefixes));
    }

    /**
     * Returns a graph, without a request. A graph is in no cache: the cache only counts its calls.
     *
     * @throws IllegalArgumentException if its name is empty
     */
    public Graph graph(String cache, String name) {
        return new Graph(this, cache, name);
    }

    /** Returns the figures of the graph store and the names of all graphs. It needs the right to all graphs. */
    public CompletableFuture<GraphStoreStatsResult> graphStoreStats(String cache) {
        return unary(Methods.GRAPH_STATS, cache, GraphStatsRequest.getDefaultInstance(),
                reply -> new GraphStoreStatsResult.Success(
                        GraphMessages.figuresOf(reply.getFiguresList()), List.copyOf(reply.getGraphsList())),
                GraphStoreStatsResult.Error::new);
    }

    /** Creates a cache. The error {@link ErrorCode#ALREADY_EXISTS} shows that it exists. */
    public CompletableFuture<DoneResult> createCache(String name) {
        return done(Methods.CREATE_CACHE, "", cacheName(name));
    }

    /** Deletes a cache and its items. */
    public CompletableFuture<DoneResult> deleteCache(String name) {
        return done(Methods.DELETE_CACHE, "", cacheName(name));
    }

    /** Deletes all items of a cache. */
    public CompletableFuture<DoneResult> flushCache(String name) {
        return done(Methods.FLUSH_CACHE, "", cacheName(name));
    }

    /** Returns the names of all caches. */
    public CompletableFuture<ListCachesResult> listCaches() {
        return unary(Methods.LIST_CACHES, "", ListCachesRequest.getDefaultInstance(), CacheCalls::listResult,
                ListCachesResult.Error::new);
    }

    private static ListCachesResult listResult(ListCachesReply reply) {
        return new ListCachesResult.Success(
                reply.getCachesList().stream().map(ListCachesReply.Cache::getName).toList());
    }

    private static CacheName cacheName(String name) {
        return CacheName.newBuilder().setName(name).build();
    }
}
