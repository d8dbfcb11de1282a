using System;
using System.Collections.Generic;
using Gannet.Client.Engine;

namespace Gannet.Client
{
    /// <summary>
    /// A query of a graph, which <see cref="Graph.QueryAsync"/> executes together with others. The calls of <see
    /// cref="Graph"/> with the same names execute one alone.
    /// </summary>
    public abstract class GraphQuery
    {
        private protected GraphQuery()
        {
        }

        /// <summary>Returns the query for the edges from a node to others, with states, times and attributes.</summary>
        /// <param name="source">The node from which the edges lead.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="destinations">The other nodes, 1 to 4,096.</param>
        /// <returns>The query, whose result is a <see cref="EdgesResult"/>.</returns>
        public static GraphQuery GetEdges(ulong source, string type, IEnumerable<ulong> destinations) =>
            GraphQueries.GetEdges(source, type, destinations);

        /// <summary>Returns the query for the degree of a node: the number of its neighbours.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <returns>The query, whose result is a <see cref="NodeCountResult"/>.</returns>
        public static GraphQuery Count(ulong node, string type) =>
            GraphQueries.Count(node, type);

        /// <summary>Returns the query for a page of the neighbours of a node.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="cursor">The cursor of the page; empty for the first one.</param>
        /// <param name="limit">The maximum number of nodes, at most 4,096; 100 if it is null.</param>
        /// <param name="times">
        /// The times of the edges in milliseconds since 1970, both included; all if it is null. The type is sorted by
        /// time.
        /// </param>
        /// <param name="reverse">True for the reverse order.</param>
        /// <param name="withAttributes">True to return the times and attributes of the edges too.</param>
        /// <param name="state">The state of the edges.</param>
        /// <returns>The query, whose result is a <see cref="NeighbourPageResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery Neighbours(
            ulong node,
            string type,
            string cursor = "",
            int? limit = null,
            (long FirstMs, long LastMs)? times = null,
            bool reverse = false,
            bool withAttributes = false,
            EdgeState state = EdgeState.Live) =>
            GraphQueries.Neighbours(node, type, cursor, limit, times, reverse, withAttributes, state);

        /// <summary>Returns the query for common neighbours of two nodes.</summary>
        /// <param name="first">A node.</param>
        /// <param name="second">Another node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="limit">The maximum number of nodes, at most 4,096; 100 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <returns>The query, whose result is a <see cref="MutualNodesResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery Mutual(
            ulong first,
            ulong second,
            string type,
            int? limit = null,
            int? budget = null) =>
            GraphQueries.Mutual(first, second, type, limit, budget);

        /// <summary>Returns the query for the number of common neighbours of two nodes.</summary>
        /// <param name="first">A node.</param>
        /// <param name="second">Another node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <returns>The query, whose result is a <see cref="NodeCountResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery MutualCount(ulong first, ulong second, string type, int? budget = null) =>
            GraphQueries.MutualCount(first, second, type, budget);

        /// <summary>Returns the query for a page of the intersection, union or difference of lists.</summary>
        /// <param name="operation">The operation.</param>
        /// <param name="lists">The lists, 1 to 16.</param>
        /// <param name="cursor">The cursor of the page; empty for the first one.</param>
        /// <param name="limit">The maximum number of nodes, at most 4,096; 100 if it is null.</param>
        /// <returns>The query, whose result is a <see cref="NodePageResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery Combine(
            CombineOperation operation,
            IEnumerable<NodeList> lists,
            string cursor = "",
            int? limit = null) =>
            GraphQueries.Combine(operation, lists, cursor, limit);

        /// <summary>Returns the query for the distances from a node to others.</summary>
        /// <param name="source">The node from which the edges lead.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="destinations">The other nodes, 1 to 4,096.</param>
        /// <param name="max">The maximum number of edges, 1 to 3; 3 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <returns>The query, whose result is a <see cref="DistancesResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery Distances(
            ulong source,
            string type,
            IEnumerable<ulong> destinations,
            int? max = null,
            int? budget = null) =>
            GraphQueries.Distances(source, type, destinations, max, budget);

        /// <summary>Returns the query for the shortest paths between two nodes.</summary>
        /// <param name="source">The first node.</param>
        /// <param name="destination">The last node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="max">The maximum number of edges, 1 to 3; 3 if it is null.</param>
        /// <param name="k">The number of paths; 1 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <returns>The query, whose result is a <see cref="PathsResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery Paths(
            ulong source,
            ulong destination,
            string type,
            int? max = null,
            int? k = null,
            int? budget = null) =>
            GraphQueries.Paths(source, destination, type, max, k, budget);

        /// <summary>Returns the query for a page of the nodes at distance 2.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="cursor">The cursor of the page; empty for the first one.</param>
        /// <param name="limit">The maximum number of nodes, at most 4,096; 100 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="stale">
        /// The number of changes of the type that a set in the server's cache may have missed; none if it is null.
        /// </param>
        /// <returns>The query, whose result is a <see cref="NodePageResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery SecondDegree(
            ulong node,
            string type,
            string cursor = "",
            int? limit = null,
            int? budget = null,
            int? stale = null) =>
            GraphQueries.SecondDegree(node, type, cursor, limit, budget, stale);

        /// <summary>Returns the query for the number of nodes at distance 2.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="stale">
        /// The number of changes of the type that a set in the server's cache may have missed; none if it is null.
        /// </param>
        /// <returns>The query, whose result is a <see cref="NodeCountResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery SecondDegreeCount(ulong node, string type, int? budget = null, int? stale = null) =>
            GraphQueries.SecondDegreeCount(node, type, budget, stale);

        /// <summary>Returns the query for the nodes at distance 2 with the most common neighbours.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="k">The number of nodes; 10 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <returns>The query, whose result is a <see cref="SuggestionsResult"/>.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public static GraphQuery Suggest(ulong node, string type, int? k = null, int? budget = null) =>
            GraphQueries.Suggest(node, type, k, budget);

        /// <summary>Returns a copy for another graph, instead of the one that executes the query.</summary>
        /// <param name="name">The name of the graph.</param>
        /// <returns>The copy.</returns>
        /// <exception cref="ArgumentException">The name is empty.</exception>
        public abstract GraphQuery InGraph(string name);

        /// <summary>Returns the query as a part of a batch.</summary>
        internal abstract V1.Requests.GraphQuery ToMessage();

        /// <summary>Returns the result of the query from its place in the reply to a batch.</summary>
        internal abstract GraphResult ResultOf(V1.Replies.GraphQueryResult result, Target target);
    }
}
