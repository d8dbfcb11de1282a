package dev.gannet.client;

/** The result of a removal from a collection. */
public sealed interface FoundResult {
    /** The collection existed. */
    record Success() implements FoundResult {
        static final Success INSTANCE = new Success();
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements FoundResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements FoundResult, ErrorResult {}
}
