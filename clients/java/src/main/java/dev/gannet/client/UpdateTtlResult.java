package dev.gannet.client;

/** The result of a change of a time to live. */
public sealed interface UpdateTtlResult {
    /** The condition held, and the time to live was stored. */
    record Stored() implements UpdateTtlResult {
        static final Stored INSTANCE = new Stored();
    }

    /** The condition did not hold, and nothing was changed. */
    record NotStored() implements UpdateTtlResult {
        static final NotStored INSTANCE = new NotStored();
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements UpdateTtlResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements UpdateTtlResult, ErrorResult {}
}
