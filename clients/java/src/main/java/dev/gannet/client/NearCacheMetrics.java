package dev.gannet.client;

/**
 * A snapshot of a near cache. Counters are those since it was created.
 *
 * @param hits the number of reads that needed no request
 * @param misses the number of reads that were sent to the server
 * @param invalidations the number of copies that were dropped because the server reported a change of their keys
 * @param evictions the number of copies that were dropped for the maxima
 * @param drops the number of times that all copies were dropped: the watch was lost, or the cache was flushed
 * @param entries the number of copies
 * @param bytes the memory of the copies
 * @param isWatching true while the server reports changes, so that values are copied
 */
public record NearCacheMetrics(
        long hits, long misses, long invalidations, long evictions, long drops, int entries, long bytes,
        boolean isWatching) {}
