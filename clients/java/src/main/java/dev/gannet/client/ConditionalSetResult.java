package dev.gannet.client;

/** The result of a conditional set. */
public sealed interface ConditionalSetResult {
    /** The condition held, and the value was stored. */
    record Stored() implements ConditionalSetResult {
        static final Stored INSTANCE = new Stored();
    }

    /** The condition did not hold, and nothing was changed. */
    record NotStored() implements ConditionalSetResult {
        static final NotStored INSTANCE = new NotStored();
    }

    /** The call failed. */
    record Error(CacheError error) implements ConditionalSetResult, ErrorResult {}
}
