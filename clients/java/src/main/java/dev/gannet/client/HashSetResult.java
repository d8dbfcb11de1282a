package dev.gannet.client;

/** The result of a set that returns the hash of the new value. */
public sealed interface HashSetResult {
    /** The condition held, and the value was stored. {HashSetResultcode hash} is that of the new value. */
    record Stored(Bytes hash) implements HashSetResult {}

    /** The condition did not hold, and nothing was changed. */
    record NotStored() implements HashSetResult {
        static final NotStored INSTANCE = new NotStored();
    }

    /** The call failed. */
    record Error(CacheError error) implements HashSetResult, ErrorResult {}
}
