package dev.gannet.client;

import java.util.List;

/** The result of a query that returns the shortest paths between two nodes. */
public sealed interface PathsResult extends GraphResult {
    /**
     * Paths, the shortest one first.
     *
     * @param paths the nodes of each path, from the source to the destination, both included
     * @param isPartial true if the budget did not suffice, and other paths may exist
     */
    record Success(List<List<Long>> paths, boolean isPartial) implements PathsResult {}

    /** The query failed. */
    record Error(CacheError error) implements PathsResult, ErrorResult {}
}
