package dev.gannet.client;

import java.util.concurrent.atomic.AtomicLongArray;

/** Counts latencies in nanoseconds. Any number of threads may record. */
final class Histogram {
    // A value below 64 ns has a bucket of its own. Larger ones have 64 buckets for each power of two:
    //
    //     64..127 in steps of 1, 128..255 in steps of 2, 256..511 in steps of 4, ...
    //
    // so that a bucket is at most 1/64 of its values wide. Values of 2^40 ns (18 minutes) and more share the last one.
    private static final int BUCKET_BITS = 6;
    private static final int VALUE_BITS_MAX = 40;
    private static final int BUCKETS = (VALUE_BITS_MAX - BUCKET_BITS + 1) << BUCKET_BITS;

    /** The number of values, and the upper ends of the buckets that reach the shares, or 0 without values. */
    record Quantiles(long count, long[] ends) {}

    private final AtomicLongArray buckets = new AtomicLongArray(BUCKETS);

    void record(long ns) {
        long value = Math.max(0, ns);
        long at = value;
        int length = Long.SIZE - Long.numberOfLeadingZeros(value);
        if (length > BUCKET_BITS + 1) {
            int shift = length - BUCKET_BITS - 1;
            at = ((long) shift << BUCKET_BITS) + (value >> shift);
        }
        buckets.incrementAndGet((int) Math.min(at, BUCKETS - 1));
    }

    /** Returns the quantiles of these shares, which ascend. */
    Quantiles quantiles(double... shares) {
        long[] counts = new long[BUCKETS];
        long count = 0;
        for (int at = 0; at < BUCKETS; at++) {
            counts[at] = buckets.get(at);
            count += counts[at];
        }
        long[] ends = new long[shares.length];
        long passed = 0;
        int next = 0;
        for (int at = 0; at < BUCKETS && next < shares.length; at++) {
            passed += counts[at];
            while (next < shares.length && counts[at] > 0 && passed >= shares[next] * count) {
                ends[next++] = bucketEnd(at);
            }
        }
        return new Quantiles(count, ends);
    }

    private static long bucketEnd(int at) {
        if (at < 2 << BUCKET_BITS) {
            return at;
        }
        int shift = (at >> BUCKET_BITS) - 1;
        return ((long) (at - (shift << BUCKET_BITS) + 1) << shift) - 1;
    }
}
