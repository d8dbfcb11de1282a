package dev.gannet.client;

/** The result of an addition to a decimal number. */
public sealed interface IncrementResult {
    /** The sum. */
    record Success(long value) implements IncrementResult {}

    /** The call failed. */
    record Error(CacheError error) implements IncrementResult, ErrorResult {}
}
