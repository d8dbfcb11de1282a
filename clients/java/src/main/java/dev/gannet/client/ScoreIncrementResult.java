package dev.gannet.client;

/** The result of an addition to a score. */
public sealed interface ScoreIncrementResult {
    /** The sum. */
    record Success(double score) implements ScoreIncrementResult {}

    /** The call failed. */
    record Error(CacheError error) implements ScoreIncrementResult, ErrorResult {}
}
