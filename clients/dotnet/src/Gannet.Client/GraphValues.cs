using System;
using System.Collections.Generic;
using System.Linq;

namespace Gannet.Client
{
    /// <summary>The state of an edge.</summary>
    public enum EdgeState
    {
        /// <summary>There is no edge. As an argument of a query, it stands for live edges.</summary>
        Absent,

        /// <summary>The edge exists.</summary>
        Live,

        /// <summary>The edge has the second colour, such as a block.</summary>
        Negative,

        /// <summary>The edge is hidden until it is restored.</summary>
        Archived,

        /// <summary>The edge was removed; its time is still known.</summary>
        Removed,
    }

    /// <summary>An operation on the lists of several nodes.</summary>
    public enum CombineOperation
    {
        /// <summary>The nodes that are in all lists.</summary>
        Intersection,

        /// <summary>The nodes that are in at least one list.</summary>
        Union,

        /// <summary>The nodes of the first list that are in no other one.</summary>
        Difference,
    }

    /// <summary>
    /// An edge that a call changes. A pair of nodes converts to it:
    /// <code>
    ///     await graph.AddEdgesAsync("knows", new Edge[] { (1, 2), (2, 3) });
    /// </code>
    /// </summary>
    public sealed class Edge
    {
        /// <summary>Creates an edge. Nodes are numbers from 1 to 2^64 - 2.</summary>
        /// <param name="source">The node from which it leads.</param>
        /// <param name="destination">The node to which it leads.</param>
        public Edge(ulong source, ulong destination)
        {
            Source = source;
            Destination = destination;
        }

        /// <summary>The node from which the edge leads.</summary>
        public ulong Source { get; }

        /// <summary>The node to which the edge leads.</summary>
        public ulong Destination { get; }

        /// <summary>The edge type; null for that of the call.</summary>
        public string? Type { get; set; }

        /// <summary>
        /// The time of the change in milliseconds since 1970; null for that of the call. The newest change of an edge
        /// wins.
        /// </summary>
        public long? TimeMs { get; set; }

        /// <summary>True for the negative state, such as a block. Only an added edge has it.</summary>
        public bool IsNegative { get; set; }

        /// <summary>
        /// The attributes by name, at most 255 bytes together; null for none. The edge type declares the names, and
        /// only an added edge has attributes.
        /// </summary>
        public IReadOnlyDictionary<string, Bytes>? Attributes { get; set; }

        /// <summary>Returns the edge between two nodes.</summary>
        /// <param name="nodes">The node from which it leads, and the one to which it leads.</param>
        public static implicit operator Edge((ulong Source, ulong Destination) nodes) =>
            new Edge(nodes.Source, nodes.Destination);
    }

    /// <summary>A list of a graph: the edges of one type from one node. A pair of both converts to it.</summary>
    public readonly struct NodeList
    {
        /// <summary>Creates a list.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <exception cref="ArgumentNullException">The edge type is null.</exception>
        public NodeList(ulong node, string type)
        {
            Node = node;
            Type = type ?? throw new ArgumentNullException(nameof(type));
        }

        /// <summary>The node.</summary>
        public ulong Node { get; }

        /// <summary>The edge type.</summary>
        public string Type { get; }

        /// <summary>Returns the list of a node.</summary>
        /// <param name="list">The node and the edge type.</param>
        public static implicit operator NodeList((ulong Node, string Type) list) => new NodeList(list.Node, list.Type);
    }

    /// <summary>An edge of the server.</summary>
    public sealed class EdgeInfo
    {
        internal EdgeInfo(EdgeState state, long timeMs, IReadOnlyDictionary<string, ReadOnlyMemory<byte>> attributes)
        {
            State = state;
            TimeMs = timeMs;
            AttributesBytes = attributes;
        }

        /// <summary>The state.</summary>
        public EdgeState State { get; }

        /// <summary>The time of the newest change in milliseconds since 1970; 0 if there is no edge.</summary>
        public long TimeMs { get; }

        /// <summary>The attributes by name.</summary>
        public IReadOnlyDictionary<string, ReadOnlyMemory<byte>> AttributesBytes { get; }

        /// <summary>The attributes by name, as text (UTF-8).</summary>
        public IReadOnlyDictionary<string, string> AttributesString =>
            AttributesBytes.ToDictionary(each => each.Key, each => each.Value.Span.Utf8());

        /// <inheritdoc/>
        public override string ToString() => $"{State} since {TimeMs}";
    }

    /// <summary>A neighbour of a node, with the edge to it.</summary>
    public sealed class Neighbour
    {
        internal Neighbour(ulong node, long timeMs, IReadOnlyDictionary<string, ReadOnlyMemory<byte>> attributes)
        {
            Node = node;
            TimeMs = timeMs;
            AttributesBytes = attributes;
        }

        /// <summary>The neighbour.</summary>
        public ulong Node { get; }

        /// <summary>The time of the newest change of the edge in milliseconds since 1970.</summary>
        public long TimeMs { get; }

        /// <summary>The attributes of the edge by name.</summary>
        public IReadOnlyDictionary<string, ReadOnlyMemory<byte>> AttributesBytes { get; }

        /// <summary>The attributes of the edge by name, as text (UTF-8).</summary>
        public IReadOnlyDictionary<string, string> AttributesString =>
            AttributesBytes.ToDictionary(each => each.Key, each => each.Value.Span.Utf8());

        /// <inheritdoc/>
        public override string ToString() => $"{Node} since {TimeMs}";
    }

    /// <summary>A node at distance 2 of another one.</summary>
    public readonly struct Suggestion
    {
        internal Suggestion(ulong node, uint common)
        {
            Node = node;
            Common = common;
        }

        /// <summary>The node.</summary>
        public ulong Node { get; }

        /// <summary>The number of their common neighbours.</summary>
        public uint Common { get; }

        /// <inheritdoc/>
        public override string ToString() => $"{Node} by {Common}";
    }
}
