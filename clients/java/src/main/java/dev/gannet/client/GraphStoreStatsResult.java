package dev.gannet.client;

import java.util.List;
import java.util.Map;

/** The result of a read of the figures of the graph store. */
public sealed interface GraphStoreStatsResult {
    /** The figures by their names, and the names of all graphs. */
    record Success(Map<String, Long> figures, List<String> graphs) implements GraphStoreStatsResult {}

    /** The call failed. */
    record Error(CacheError error) implements GraphStoreStatsResult, ErrorResult {}
}
