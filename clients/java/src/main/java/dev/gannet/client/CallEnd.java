package dev.gannet.client;

import java.time.Duration;
import java.util.Optional;

/**
 * A call that has ended.
 *
 * @param method the name of the call in the schema, such as Get
 * @param cache the name of the cache, or empty for calls on no cache
 * @param duration the time from the start of the call to its result, with the wait in the client's queue
 * @param queued the time in the client's queue
 * @param retries the number of times that the request was repeated after a failure
 * @param isHedged true if the request was sent a second time because its reply was slow
 * @param error the error, if the call failed
 */
public record CallEnd(
        String method,
        String cache,
        Duration duration,
        Duration queued,
        int retries,
        boolean isHedged,
        Optional<CacheError> error) {}
