package dev.gannet.client;

/** The result of a read of one score. */
public sealed interface ScoreResult {
    /** The score. */
    record Hit(double score) implements ScoreResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements ScoreResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements ScoreResult, ErrorResult {}
}
