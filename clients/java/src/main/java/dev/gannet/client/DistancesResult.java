package dev.gannet.client;

import java.util.List;
import java.util.OptionalInt;

/** The result of a query that returns the distances from a node to others. */
public sealed interface DistancesResult extends GraphResult {
    /**
     * One distance for each destination, in the order of the query.
     *
     * @param distances the numbers of edges; empty for a node that was not found within the maximum
     * @param isPartial true if the budget did not suffice, and a nearer way may exist
     */
    record Success(List<OptionalInt> distances, boolean isPartial) implements DistancesResult {}

    /** The query failed. */
    record Error(CacheError error) implements DistancesResult, ErrorResult {}
}
