package dev.gannet.client;

import java.time.Duration;

/**
 * The time to live of the item that a call writes, instead of the client's default. Each write to a collection sets it
 * again, unless {@link KeepTtl} is passed too.
 *
 * <pre>{@code client.set("default", "greeting", "hello", Ttl.of(Duration.ofMinutes(1)))}</pre>
 */
public final class Ttl implements SetOption {
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

    static long millisecondsOf(Duration ttl) {
        return Math.max(0, ttl.toMillis());
    }
}
