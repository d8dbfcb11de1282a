package dev.gannet.client;

import java.util.List;

/** The result of a query that returns the common neighbours of two nodes. */
public sealed interface MutualNodesResult extends GraphResult {
    /** Common neighbours. {@code isPartial} is true if the budget did not suffice, and there may be more. */
    record Success(List<Long> nodes, boolean isPartial) implements MutualNodesResult {}

    /** The query failed. */
    record Error(CacheError error) implements MutualNodesResult, ErrorResult {}
}
