package dev.gannet.client;

import java.util.List;
import java.util.function.Function;

/**
 * Makes the result of a call from its replies or from its error.
 *
 * @param one for the reply of a call that is no stream
 * @param many for the replies of a stream; null for other calls
 */
record Reading<P, R>(Function<P, R> one, Function<List<P>, R> many, Function<CacheError, R> error) {
    /** Returns the reading of a call with one reply. */
    static <P, R> Reading<P, R> one(Function<P, R> reply, Function<CacheError, R> error) {
        return new Reading<>(reply, null, error);
    }

    /** Returns the reading of a stream that the server ends. */
    static <P, R> Reading<P, R> many(Function<List<P>, R> replies, Function<CacheError, R> error) {
        return new Reading<>(null, replies, error);
    }
}
