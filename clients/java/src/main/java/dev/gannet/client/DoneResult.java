package dev.gannet.client;

/** The result of a call that has nothing to return. */
public sealed interface DoneResult {
    /** The call was executed. */
    record Success() implements DoneResult {
        static final Success INSTANCE = new Success();
    }

    /** The call failed. */
    record Error(CacheError error) implements DoneResult, ErrorResult {}
}
