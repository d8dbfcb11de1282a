package dev.gannet.client;

import java.util.List;

/** The result of a query that returns a page of the neighbours of a node. */
public sealed interface NeighbourPageResult extends GraphResult {
    /**
     * A page of neighbours.
     *
     * @param nodes the neighbours
     * @param neighbours the neighbours with the times and attributes of their edges; empty unless the query asks for
     *     attributes
     * @param cursor the cursor that begins the next page; it is empty after the last one
     */
    record Success(List<Long> nodes, List<Neighbour> neighbours, String cursor) implements NeighbourPageResult {}

    /** The query failed. */
    record Error(CacheError error) implements NeighbourPageResult, ErrorResult {}
}
