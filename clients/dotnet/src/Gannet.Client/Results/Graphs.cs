using System;
using System.Collections.Generic;

namespace Gannet.Client
{
    /// <summary>
    /// The result of a query of a graph, which is executed alone or as a part of <see cref="Graph.QueryAsync"/>.
    /// </summary>
    public abstract class GraphResult
    {
        private protected GraphResult()
        {
        }
    }

    /// <summary>Edges from a node to others: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class EdgesResult : GraphResult
    {
        private protected EdgesResult()
        {
        }

        /// <summary>The edges.</summary>
        public sealed class Success : EdgesResult
        {
            internal Success(IReadOnlyList<EdgeInfo> edges) => Edges = edges;

            /// <summary>One edge for each destination, in the order of the query.</summary>
            public IReadOnlyList<EdgeInfo> Edges { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : EdgesResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>A number of nodes: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class NodeCountResult : GraphResult
    {
        private protected NodeCountResult()
        {
        }

        /// <summary>The number.</summary>
        public sealed class Success : NodeCountResult
        {
            internal Success(ulong count, bool isPartial)
            {
                Count = count;
                IsPartial = isPartial;
            }

            /// <summary>The number of nodes.</summary>
            public ulong Count { get; }

            /// <summary>
            /// True if the budget did not suffice: the result is right as far as it goes, and may lack nodes.
            /// </summary>
            public bool IsPartial { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : NodeCountResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>A page of the neighbours of a node: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class NeighbourPageResult : GraphResult
    {
        private protected NeighbourPageResult()
        {
        }

        /// <summary>Some neighbours.</summary>
        public sealed class Success : NeighbourPageResult
        {
            internal Success(IReadOnlyList<ulong> nodes, IReadOnlyList<Neighbour> neighbours, string cursor)
            {
                Nodes = nodes;
                Neighbours = neighbours;
                Cursor = cursor;
            }

            /// <summary>The neighbours.</summary>
            public IReadOnlyList<ulong> Nodes { get; }

            /// <summary>
            /// The neighbours with the times and attributes of their edges; empty unless the query asks for attributes.
            /// </summary>
            public IReadOnlyList<Neighbour> Neighbours { get; }

            /// <summary>The cursor of the next page; empty after the last one.</summary>
            public string Cursor { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : NeighbourPageResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>Common neighbours of two nodes: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class MutualNodesResult : GraphResult
    {
        private protected MutualNodesResult()
        {
        }

        /// <summary>Some common neighbours.</summary>
        public sealed class Success : MutualNodesResult
        {
            internal Success(IReadOnlyList<ulong> nodes, bool isPartial)
            {
                Nodes = nodes;
                IsPartial = isPartial;
            }

            /// <summary>The nodes.</summary>
            public IReadOnlyList<ulong> Nodes { get; }

            /// <summary>
            /// True if the budget did not suffice: the result is right as far as it goes, and may lack nodes.
            /// </summary>
            public bool IsPartial { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : MutualNodesResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>A page of nodes: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class NodePageResult : GraphResult
    {
        private protected NodePageResult()
        {
        }

        /// <summary>Some nodes.</summary>
        public sealed class Success : NodePageResult
        {
            internal Success(IReadOnlyList<ulong> nodes, string cursor, bool isPartial)
            {
                Nodes = nodes;
                Cursor = cursor;
                IsPartial = isPartial;
            }

            /// <summary>The nodes.</summary>
            public IReadOnlyList<ulong> Nodes { get; }

            /// <summary>The cursor of the next page; empty after the last one.</summary>
            public string Cursor { get; }

            /// <summary>
            /// True if the budget did not suffice: the result is right as far as it goes, and may lack nodes.
            /// </summary>
            public bool IsPartial { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : NodePageResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>Distances from a node to others: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class DistancesResult : GraphResult
    {
        private protected DistancesResult()
        {
        }

        /// <summary>The distances.</summary>
        public sealed class Success : DistancesResult
        {
            internal Success(IReadOnlyList<int?> distances, bool isPartial)
            {
                Distances = distances;
                IsPartial = isPartial;
            }

            /// <summary>
            /// The number of edges to each destination, in the order of the query; null if none was found within the
            /// maximum.
            /// </summary>
            public IReadOnlyList<int?> Distances { get; }

            /// <summary>True if the budget did not suffice, so that a nearer way may exist.</summary>
            public bool IsPartial { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : DistancesResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The shortest paths between two nodes: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class PathsResult : GraphResult
    {
        private protected PathsResult()
        {
        }

        /// <summary>Paths, the shortest one first.</summary>
        public sealed class Success : PathsResult
        {
            internal Success(IReadOnlyList<IReadOnlyList<ulong>> paths, bool isPartial)
            {
                Paths = paths;
                IsPartial = isPartial;
            }

            /// <summary>The nodes of each path, from the source to the destination, both included.</summary>
            public IReadOnlyList<IReadOnlyList<ulong>> Paths { get; }

            /// <summary>True if the budget did not suffice, so that other paths may exist.</summary>
            public bool IsPartial { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : PathsResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The nodes with the most common neighbours: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class SuggestionsResult : GraphResult
    {
        private protected SuggestionsResult()
        {
        }

        /// <summary>Some nodes at distance 2.</summary>
        public sealed class Success : SuggestionsResult
        {
            internal Success(IReadOnlyList<Suggestion> suggestions, bool isPartial)
            {
                Suggestions = suggestions;
                IsPartial = isPartial;
            }

            /// <summary>The nodes, with the most common neighbours first.</summary>
            public IReadOnlyList<Suggestion> Suggestions { get; }

            /// <summary>True if the budget did not suffice, so that numbers may be too low.</summary>
            public bool IsPartial { get; }
        }

        /// <summary>The query failed.</summary>
        public sealed class Error : SuggestionsResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a change of edges: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class EdgesChangedResult
    {
        private protected EdgesChangedResult()
        {
        }

        /// <summary>The change was executed.</summary>
        public sealed class Success : EdgesChangedResult
        {
            internal Success(ulong changed) => Changed = changed;

            /// <summary>
            /// The number of edges that the last attempt of the call changed. It may be 0 after a retry, because an
            /// earlier attempt, whose reply was lost, changed them.
            /// </summary>
            public ulong Changed { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : EdgesChangedResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a change of a node: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class NodeChangedResult
    {
        private protected NodeChangedResult()
        {
        }

        /// <summary>The change was executed.</summary>
        public sealed class Success : NodeChangedResult
        {
            internal Success(bool isChanged) => IsChanged = isChanged;

            /// <summary>
            /// False if the node was so before, or a newer change exists. It may be false after a retry, because an
            /// earlier attempt, whose reply was lost, changed the node.
            /// </summary>
            public bool IsChanged { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : NodeChangedResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The results of several queries of one call: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class GraphQueriesResult
    {
        private protected GraphQueriesResult()
        {
        }

        /// <summary>The queries were executed.</summary>
        public sealed class Success : GraphQueriesResult
        {
            internal Success(IReadOnlyList<GraphResult> results) => Results = results;

            /// <summary>
            /// One result for each query, in the order of the call. A query that failed has the error of its kind.
            /// </summary>
            public IReadOnlyList<GraphResult> Results { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : GraphQueriesResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The figures of a graph: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class GraphStatsResult
    {
        private protected GraphStatsResult()
        {
        }

        /// <summary>The figures.</summary>
        public sealed class Success : GraphStatsResult
        {
            internal Success(IReadOnlyDictionary<string, ulong> figures, IReadOnlyList<string> types)
            {
                Figures = figures;
                Types = types;
            }

            /// <summary>The figures by name, such as <c>nodes</c>.</summary>
            public IReadOnlyDictionary<string, ulong> Figures { get; }

            /// <summary>The names of the edge types.</summary>
            public IReadOnlyList<string> Types { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : GraphStatsResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The figures of the graph store: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class GraphStoreStatsResult
    {
        private protected GraphStoreStatsResult()
        {
        }

        /// <summary>The figures.</summary>
        public sealed class Success : GraphStoreStatsResult
        {
            internal Success(IReadOnlyDictionary<string, ulong> figures, IReadOnlyList<string> graphs)
            {
                Figures = figures;
                Graphs = graphs;
            }

            /// <summary>The figures by name.</summary>
            public IReadOnlyDictionary<string, ulong> Figures { get; }

            /// <summary>The names of all graphs.</summary>
            public IReadOnlyList<string> Graphs { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : GraphStoreStatsResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The object of a node: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class NodeResult
    {
        private protected NodeResult()
        {
        }

        /// <summary>The object of the node.</summary>
        public sealed class Hit : NodeResult
        {
            internal Hit(
                ReadOnlyMemory<byte> type,
                IReadOnlyList<KeyValuePair<ReadOnlyMemory<byte>, ReadOnlyMemory<byte>>> bins)
            {
                TypeBytes = type;
                BinsBytes = bins;
            }

            /// <summary>The type.</summary>
            public ReadOnlyMemory<byte> TypeBytes { get; }

            /// <summary>Pairs of a name and its value.</summary>
            public IReadOnlyList<KeyValuePair<ReadOnlyMemory<byte>, ReadOnlyMemory<byte>>> BinsBytes { get; }

            /// <summary>The type as text (UTF-8).</summary>
            public string TypeString => TypeBytes.Span.Utf8();

            /// <summary>The values by name, both as text (UTF-8).</summary>
            public IReadOnlyDictionary<string, string> BinsString
            {
                get
                {
                    var bins = new Dictionary<string, string>();
                    foreach (var bin in BinsBytes)
                    {
                        bins[bin.Key.Span.Utf8()] = bin.Value.Span.Utf8();
                    }
                    return bins;
                }
            }
        }

        /// <summary>The node has no object. It may have edges.</summary>
        public sealed class Miss : NodeResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : NodeResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }
}
