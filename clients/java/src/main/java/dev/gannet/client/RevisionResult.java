package dev.gannet.client;

/** The result of a change of a record. */
public sealed interface RevisionResult {
    /** The new revision. */
    record Success(long revision) implements RevisionResult {}

    /** The call failed. */
    record Error(CacheError error) implements RevisionResult, ErrorResult {}
}
