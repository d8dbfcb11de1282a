package dev.gannet.client;

/** The result of a change of edges. */
public sealed interface EdgesChangedResult {
    /**
     * The number of edges that the last attempt of the call changed. It may be 0 after a retry, because an earlier
     * attempt, whose reply was lost, changed them.
     */
    record Success(long changed) implements EdgesChangedResult {}

    /** The call failed. */
    record Error(CacheError error) implements EdgesChangedResult, ErrorResult {}
}
