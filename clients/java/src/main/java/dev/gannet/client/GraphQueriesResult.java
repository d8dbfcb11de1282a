package dev.gannet.client;

import java.util.List;

/** The result of several queries of one call. */
public sealed interface GraphQueriesResult {
    /** One result for each query, in the order of the call. A query that failed has an error in its place. */
    record Success(List<GraphResult> results) implements GraphQueriesResult {}

    /** The call failed, and no query has a result. */
    record Error(CacheError error) implements GraphQueriesResult, ErrorResult {}
}
