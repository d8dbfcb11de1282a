package dev.gannet.client;

/** The result of an addition to a list. */
public sealed interface ListLengthResult {
    /** The length of the list. */
    record Success(int length) implements ListLengthResult {}

    /** The call failed. */
    record Error(CacheError error) implements ListLengthResult, ErrorResult {}
}
