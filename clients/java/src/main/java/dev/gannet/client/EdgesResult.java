package dev.gannet.client;

import java.util.List;

/** The result of a read of several edges of a node. */
public sealed interface EdgesResult extends GraphResult {
    /** One edge for each destination, in the order of the query. */
    record Success(List<EdgeInfo> edges) implements EdgesResult {}

    /** The query failed. */
    record Error(CacheError error) implements EdgesResult, ErrorResult {}
}
