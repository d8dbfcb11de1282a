package dev.gannet.client;

import java.util.List;

/** The result of a query that returns the nodes with the most common neighbours. */
public sealed interface SuggestionsResult extends GraphResult {
    /** Nodes at distance 2. {@code isPartial} is true if the budget did not suffice, and numbers may be too low. */
    record Success(List<Suggestion> suggestions, boolean isPartial) implements SuggestionsResult {}

    /** The query failed. */
    record Error(CacheError error) implements SuggestionsResult, ErrorResult {}
}
