package dev.gannet.client;

import java.util.List;
import java.util.Map;

/** The result of a read of the figures of a graph. */
public sealed interface GraphStatsResult {
    /** The figures by their names, such as {@code nodes}, and the names of the edge types. */
    record Success(Map<String, Long> figures, List<String> types) implements GraphStatsResult {}

    /** The call failed. */
    record Error(CacheError error) implements GraphStatsResult, ErrorResult {}
}
