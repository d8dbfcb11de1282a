package dev.gannet.client;

/** The result of a query that returns a number of nodes. */
public sealed interface NodeCountResult extends GraphResult {
    /** The number of nodes. {@code isPartial} is true if the budget did not suffice, and there may be more. */
    record Success(long count, boolean isPartial) implements NodeCountResult {}

    /** The query failed. */
    record Error(CacheError error) implements NodeCountResult, ErrorResult {}
}
