package dev.gannet.client;

import java.time.Duration;

/**
 * The time to live of the item that a call writes, instead of the client's default. Each write to a collection sets it
 * again, unless {@link KeepTtl} is passed too.
 *
 * <pre>{@code client.set("default", "greeting", "hello", Ttl.of(Duration.ofMinutes(1)))}</pre>
 */
public final class Ttl implements SetOption {
    /** The longest deadline: 100 years. */
    static final Duration LONGEST_DEADLINE = Duration.ofDays(36_500);

    private static final Duration LONGEST = Duration.ofMillis(Long.MAX_VALUE);

    private final long milliseconds;

    private Ttl(long milliseconds) {
        this.milliseconds = milliseconds;
    }

    /** Returns a time to live, rounded down to milliseconds. The server refuses less than 1 ms. */
    public static Ttl of(Duration ttl) {
        return new Ttl(millisecondsOf(ttl));
    }

    long milliseconds() {
        return milliseconds;
    }

    /** Returns a time in milliseconds, rounded down, from 0 to the greatest one that a number of 64 bits expresses. */
    static long millisecondsOf(Duration time) {
        if (time.isNegative()) {
            return 0;
        }
        return time.compareTo(LONGEST) < 0 ? time.toMillis() : Long.MAX_VALUE;
    }

    /** Returns a deadline in nanoseconds. A longer one than the longest is that one. */
    static long deadlineNsOf(Duration deadline) {
        return (deadline.compareTo(LONGEST_DEADLINE) < 0 ? deadline : LONGEST_DEADLINE).toNanos();
    }

    /** Returns a time in milliseconds, or 0 for zero, by which the server takes its default. */
    static long optionalMillisecondsOf(String name, Duration time) {
        long milliseconds = millisecondsOf(time);
        if (milliseconds == 0 && !time.isZero()) {
            throw new IllegalArgumentException(
                    "cannot use " + name + " " + time + ": it is below 1 ms; pass at least 1 ms, or zero");
        }
        return milliseconds;
    }
}
