package dev.gannet.client;

/** The result of a query of a graph, which is executed alone or as a part of {@link Graph#query}. */
public sealed interface GraphResult
        permits DistancesResult, EdgesResult, MutualNodesResult, NeighbourPageResult, NodeCountResult, NodePageResult,
                PathsResult, SuggestionsResult {}
