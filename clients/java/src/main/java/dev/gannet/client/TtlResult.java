package dev.gannet.client;

import java.time.Duration;
import java.util.Optional;

/** The result of a read of a time to live. */
public sealed interface TtlResult {
    /** The rest of the time to live, or empty if the item has none. */
    record Hit(Optional<Duration> remaining) implements TtlResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements TtlResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements TtlResult, ErrorResult {}
}
