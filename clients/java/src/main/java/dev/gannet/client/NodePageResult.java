package dev.gannet.client;

import java.util.List;

/** The result of a query that returns a page of nodes. */
public sealed interface NodePageResult extends GraphResult {
    /**
     * A page of nodes.
     *
     * @param nodes the nodes
     * @param cursor the cursor that begins the next page; it is empty after the last one
     * @param isPartial true if the budget did not suffice, and the page may lack nodes
     */
    record Success(List<Long> nodes, String cursor, boolean isPartial) implements NodePageResult {}

    /** The query failed. */
    record Error(CacheError error) implements NodePageResult, ErrorResult {}
}
