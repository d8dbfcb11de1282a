package dev.gannet.client;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Decides when a failed request is sent again. The client asks it only about calls whose repetition changes nothing,
 * and only if the server was unavailable or failed. Many threads call it at once, and it must not block. An exception
 * of the strategy completes the call's future.
 */
public interface RetryStrategy {
    /**
     * Returns the time before the next retry, or empty if there is none.
     *
     * @param retries the number of retries of this call so far
     * @param previous the delay before the latest of them; zero before the first
     */
    Optional<Duration> delay(int retries, Duration previous);

    /** Returns the time that one attempt may take; zero stands for the rest of the call's deadline. */
    default Duration responseTimeout() {
        return Duration.ZERO;
    }

    /** Returns the strategy that never repeats a request. */
    static RetryStrategy none() {
        return new NoRetry();
    }

    /** Returns the strategy that repeats a failed request at once, at most this number of times. */
    static RetryStrategy fixedCount(int retries) {
        return new FixedCount(retries);
    }

    /** Returns the {@link FixedTimeout} with a delay of 100 ms and 1 s for a response. */
    static RetryStrategy fixedTimeout() {
        return new FixedTimeout(Duration.ofMillis(100), Duration.ofSeconds(1));
    }

    /** Returns the {@link ExponentialBackoff} with delays from 500 us to 1 s. */
    static RetryStrategy exponentialBackoff() {
        return new ExponentialBackoff(Duration.ofNanos(500_000), Duration.ofSeconds(1));
    }

    /** Never repeats a request. */
    record NoRetry() implements RetryStrategy {
        @Override
        public Optional<Duration> delay(int retries, Duration previous) {
            return Optional.empty();
        }
    }

    /** Repeats a failed request at once, at most {@code count} times. */
    record FixedCount(int count) implements RetryStrategy {
        @Override
        public Optional<Duration> delay(int retries, Duration previous) {
            return retries < count ? Optional.of(Duration.ZERO) : Optional.empty();
        }
    }

    /**
     * Repeats a failed request after about {@code retryDelay}, until the deadline of the call. The delay varies by 10 %
     * in both directions. An attempt that has no reply after {@code response} is given up and repeated, so that a
     * server that hangs costs this time and not the whole deadline.
     */
    record FixedTimeout(Duration retryDelay, Duration response) implements RetryStrategy {
        @Override
        public Optional<Duration> delay(int retries, Duration previous) {
            double factor = 0.9 + 0.2 * ThreadLocalRandom.current().nextDouble();
            return Optional.of(Duration.ofNanos((long) (retryDelay.toNanos() * factor)));
        }

        @Override
        public Duration responseTimeout() {
            return response;
        }
    }

    /**
     * Repeats a failed request after delays that grow, until the deadline of the call. Each delay is a random time
     * between {@code initial} and three times the previous delay, at most {@code max} (decorrelated jitter). Clients
     * that failed at the same instant therefore do not return at the same instant.
     */
    record ExponentialBackoff(Duration initial, Duration max) implements RetryStrategy {
        @Override
        public Optional<Duration> delay(int retries, Duration previous) {
            long least = initial.toNanos();
            long longest = Math.max(least, 3 * previous.toNanos());
            long delay = ThreadLocalRandom.current().nextLong(least, longest + 1);
            return Optional.of(Duration.ofNanos(Math.min(max.toNanos(), delay)));
        }
    }
}
