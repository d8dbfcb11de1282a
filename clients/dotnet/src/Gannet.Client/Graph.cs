using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.Client.Protocol;
using Gannet.V1.Replies;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    /// <summary>
    /// One graph: nodes, which are numbers from 1 to 2^64 - 2, and typed edges. A graph is in no cache: the cache of
    /// the client only counts the calls. The first edge type creates the graph. A query has a budget of edges that it
    /// may touch; if it does not suffice, the result is partial: it is right as far as it goes.
    /// <para>
    /// Queries and declarations are repeated after a failure of the connection. A change is repeated only if it has a
    /// time, because the server would give each attempt another one.
    /// </para>
    /// </summary>
    public sealed class Graph
    {
        private readonly Caller caller;

        internal Graph(Caller caller, string name)
        {
            this.caller = caller;
            Name = GraphQueries.NameOf(name, nameof(name));
        }

        /// <summary>The name of the graph.</summary>
        public string Name { get; }

        /// <summary>
        /// Declares an edge type, and creates the graph with its first one. It does nothing if the type is declared
        /// with the same properties; with others, it fails with <see cref="ErrorCode.FailedPrecondition"/>.
        /// </summary>
        /// <param name="type">The name of the edge type.</param>
        /// <param name="undirected">True for edges that lead in both directions.</param>
        /// <param name="inverseOf">
        /// The edge type whose edges the lists hold from their other ends; none if it is null.
        /// </param>
        /// <param name="sortByTime">True for pages that list the newest edge first; otherwise by identifier.</param>
        /// <param name="cap">The maximum number of live edges in one list; none if it is null.</param>
        /// <param name="attributes">The names of attributes; none if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The cap is 0.</exception>
        public Task<DoneResult> DeclareTypeAsync(
            string type,
            bool undirected = false,
            string? inverseOf = null,
            bool sortByTime = false,
            uint? cap = null,
            IEnumerable<string>? attributes = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            if (cap == 0)
            {
                throw new ArgumentOutOfRangeException(
                    nameof(cap), "cannot use cap 0: it is too low; give at least 1, or null");
            }
            var request = new DeclareTypeRequest
            {
                Graph = Name,
                Type = type,
                Undirected = undirected,
                InverseOf = inverseOf ?? string.Empty,
                SortByTime = sortByTime,
                Cap = cap ?? 0,
                Attributes = Bytes.ListOf(attributes ?? Array.Empty<string>()),
            };
            return caller.Send(Calls.GraphDeclareType, request, deadline, cancellationToken);
        }

        /// <summary>Adds up to 4,096 edges.</summary>
        /// <param name="type">The edge type of the edges that name none.</param>
        /// <param name="edges">The edges.</param>
        /// <param name="timeMs">
        /// The time of the edges that have none, in milliseconds since 1970; that of the server if it is null. The
        /// newest change of an edge wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number of edges that changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A time is negative.</exception>
        public Task<EdgesChangedResult> AddEdgesAsync(
            string type,
            IEnumerable<Edge> edges,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            ChangeAsync(V1.GraphChangeRequestAction.Add, type, edges, timeMs, deadline, cancellationToken);

        /// <summary>Removes up to 4,096 edges.</summary>
        /// <param name="type">The edge type of the edges that name none.</param>
        /// <param name="edges">The edges.</param>
        /// <param name="timeMs">
        /// The time of the edges that have none, in milliseconds since 1970; that of the server if it is null. The
        /// newest change of an edge wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number of edges that changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A time is negative.</exception>
        public Task<EdgesChangedResult> RemoveEdgesAsync(
            string type,
            IEnumerable<Edge> edges,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            ChangeAsync(V1.GraphChangeRequestAction.Remove, type, edges, timeMs, deadline, cancellationToken);

        /// <summary>Hides up to 4,096 edges until they are restored.</summary>
        /// <param name="type">The edge type of the edges that name none.</param>
        /// <param name="edges">The edges.</param>
        /// <param name="timeMs">
        /// The time of the edges that have none, in milliseconds since 1970; that of the server if it is null. The
        /// newest change of an edge wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number of edges that changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A time is negative.</exception>
        public Task<EdgesChangedResult> ArchiveEdgesAsync(
            string type,
            IEnumerable<Edge> edges,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            ChangeAsync(V1.GraphChangeRequestAction.Archive, type, edges, timeMs, deadline, cancellationToken);

        /// <summary>Makes up to 4,096 edges live, with their attributes.</summary>
        /// <param name="type">The edge type of the edges that name none.</param>
        /// <param name="edges">The edges.</param>
        /// <param name="timeMs">
        /// The time of the edges that have none, in milliseconds since 1970; that of the server if it is null. The
        /// newest change of an edge wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number of edges that changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A time is negative.</exception>
        public Task<EdgesChangedResult> RestoreEdgesAsync(
            string type,
            IEnumerable<Edge> edges,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            ChangeAsync(V1.GraphChangeRequestAction.Restore, type, edges, timeMs, deadline, cancellationToken);

        /// <summary>Returns the edges from a node to others, with states, times and attributes.</summary>
        /// <param name="source">The node from which the edges lead.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="destinations">The other nodes, 1 to 4,096.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>One edge for each destination, or an error.</returns>
        public Task<EdgesResult> GetEdgesAsync(
            ulong source,
            string type,
            IEnumerable<ulong> destinations,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.GetEdges(source, type, destinations)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>Returns the degree of a node: the number of its neighbours.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number or an error.</returns>
        public Task<NodeCountResult> CountAsync(
            ulong node,
            string type,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.Count(node, type)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>Returns a page of the neighbours of a node.</summary>
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
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The page or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<NeighbourPageResult> NeighboursAsync(
            ulong node,
            string type,
            string cursor = "",
            int? limit = null,
            (long FirstMs, long LastMs)? times = null,
            bool reverse = false,
            bool withAttributes = false,
            EdgeState state = EdgeState.Live,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.Neighbours(node, type, cursor, limit, times, reverse, withAttributes, state)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>
        /// Returns pages of the neighbours of a node, one after another. Each has the cursor of the next one, by which
        /// another program can continue. An error is the last page.
        /// </summary>
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
        /// <param name="deadline">The time for each page; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call in progress, whose error is the last page.</param>
        /// <returns>The pages.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public IAsyncEnumerable<NeighbourPageResult> NeighbourPagesAsync(
            ulong node,
            string type,
            string cursor = "",
            int? limit = null,
            (long FirstMs, long LastMs)? times = null,
            bool reverse = false,
            bool withAttributes = false,
            EdgeState state = EdgeState.Live,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            _ = GraphQueries.Neighbours(node, type, cursor, limit, times, reverse, withAttributes, state);
            return PagesAsync(
                (at, cancellation) => NeighboursAsync(
                    node, type, at, limit, times, reverse, withAttributes, state, deadline, cancellation),
                cursor,
                page => (page as NeighbourPageResult.Success)?.Cursor ?? string.Empty,
                cancellationToken);
        }

        /// <summary>Returns common neighbours of two nodes.</summary>
        /// <param name="first">A node.</param>
        /// <param name="second">Another node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="limit">The maximum number of nodes, at most 4,096; 100 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The nodes or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<MutualNodesResult> MutualAsync(
            ulong first,
            ulong second,
            string type,
            int? limit = null,
            int? budget = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.Mutual(first, second, type, limit, budget)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>Returns the number of common neighbours of two nodes.</summary>
        /// <param name="first">A node.</param>
        /// <param name="second">Another node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<NodeCountResult> MutualCountAsync(
            ulong first,
            ulong second,
            string type,
            int? budget = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.MutualCount(first, second, type, budget)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>Returns a page of the intersection, union or difference of lists.</summary>
        /// <param name="operation">The operation.</param>
        /// <param name="lists">The lists, 1 to 16.</param>
        /// <param name="cursor">The cursor of the page; empty for the first one.</param>
        /// <param name="limit">The maximum number of nodes, at most 4,096; 100 if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The page or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<NodePageResult> CombineAsync(
            CombineOperation operation,
            IEnumerable<NodeList> lists,
            string cursor = "",
            int? limit = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.Combine(operation, lists, cursor, limit)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>
        /// Returns pages of the intersection, union or difference of lists, one after another. Each has the cursor of
        /// the next one, by which another program can continue. An error is the last page.
        /// </summary>
        /// <param name="operation">The operation.</param>
        /// <param name="lists">The lists, 1 to 16.</param>
        /// <param name="cursor">The cursor of the page; empty for the first one.</param>
        /// <param name="limit">The maximum number of nodes, at most 4,096; 100 if it is null.</param>
        /// <param name="deadline">The time for each page; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call in progress, whose error is the last page.</param>
        /// <returns>The pages.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public IAsyncEnumerable<NodePageResult> CombinePagesAsync(
            CombineOperation operation,
            IEnumerable<NodeList> lists,
            string cursor = "",
            int? limit = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            var all = (lists ?? throw new ArgumentNullException(nameof(lists))).ToList();
            _ = GraphQueries.Combine(operation, all, cursor, limit);
            return PagesAsync(
                (at, cancellation) => CombineAsync(operation, all, at, limit, deadline, cancellation),
                cursor,
                page => (page as NodePageResult.Success)?.Cursor ?? string.Empty,
                cancellationToken);
        }

        /// <summary>Returns the distances from a node to others.</summary>
        /// <param name="source">The node from which the edges lead.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="destinations">The other nodes, 1 to 4,096.</param>
        /// <param name="max">The maximum number of edges, 1 to 3; 3 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>One distance for each destination, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<DistancesResult> DistancesAsync(
            ulong source,
            string type,
            IEnumerable<ulong> destinations,
            int? max = null,
            int? budget = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.Distances(source, type, destinations, max, budget)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>Returns the shortest paths between two nodes.</summary>
        /// <param name="source">The first node.</param>
        /// <param name="destination">The last node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="max">The maximum number of edges, 1 to 3; 3 if it is null.</param>
        /// <param name="k">The number of paths; 1 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The paths or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<PathsResult> PathsAsync(
            ulong source,
            ulong destination,
            string type,
            int? max = null,
            int? k = null,
            int? budget = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.Paths(source, destination, type, max, k, budget)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>Returns a page of the nodes at distance 2.</summary>
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
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The page or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<NodePageResult> SecondDegreeAsync(
            ulong node,
            string type,
            string cursor = "",
            int? limit = null,
            int? budget = null,
            int? stale = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.SecondDegree(node, type, cursor, limit, budget, stale)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>
        /// Returns pages of the nodes at distance 2, one after another. Each has the cursor of the next one, by which
        /// another program can continue. An error is the last page.
        /// </summary>
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
        /// <param name="deadline">The time for each page; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call in progress, whose error is the last page.</param>
        /// <returns>The pages.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public IAsyncEnumerable<NodePageResult> SecondDegreePagesAsync(
            ulong node,
            string type,
            string cursor = "",
            int? limit = null,
            int? budget = null,
            int? stale = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            _ = GraphQueries.SecondDegree(node, type, cursor, limit, budget, stale);
            return PagesAsync(
                (at, cancellation) => SecondDegreeAsync(
                    node, type, at, limit, budget, stale, deadline, cancellation),
                cursor,
                page => (page as NodePageResult.Success)?.Cursor ?? string.Empty,
                cancellationToken);
        }

        /// <summary>Returns the number of nodes at distance 2.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="stale">
        /// The number of changes of the type that a set in the server's cache may have missed; none if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<NodeCountResult> SecondDegreeCountAsync(
            ulong node,
            string type,
            int? budget = null,
            int? stale = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.SecondDegreeCount(node, type, budget, stale)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>Returns the nodes at distance 2 with the most common neighbours.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The edge type.</param>
        /// <param name="k">The number of nodes; 10 if it is null.</param>
        /// <param name="budget">
        /// The number of edges that the query may touch, at most 1,048,576; 100,000 if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The nodes or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A number is below 1, or a time is negative.</exception>
        public Task<SuggestionsResult> SuggestAsync(
            ulong node,
            string type,
            int? k = null,
            int? budget = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            GraphQueries.Suggest(node, type, k, budget)
                .SendAsync(caller, Name, deadline, cancellationToken);

        /// <summary>
        /// Executes up to 64 queries in one call. A query that fails has an error in its place. Those for another graph
        /// name it by <see cref="GraphQuery.InGraph"/>.
        /// </summary>
        /// <param name="queries">The queries.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>One result for each query, in their order, or an error.</returns>
        public Task<GraphQueriesResult> QueryAsync(
            IEnumerable<GraphQuery> queries,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            var all = (queries ?? throw new ArgumentNullException(nameof(queries))).ToList();
            var request = new GraphQueryRequest
            {
                Graph = Name, Queries = all.Select(each => each.ToMessage()).ToList(),
            };
            var call = Calls.GraphQuery.With(replies =>
                ResultsOf(all, Calls.Decode<GraphQueryReply>(replies[0], GraphQueryReply.Read)));
            return caller.Send(call, request, deadline, cancellationToken);
        }

        /// <summary>Returns the object of a node: its type and bins.</summary>
        /// <param name="node">The node.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss if the node has no object, or an error.</returns>
        public Task<NodeResult> GetNodeAsync(
            ulong node, TimeSpan? deadline = null, CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.GraphGetNode, new NodeRequest { Graph = Name, Node = node }, deadline, cancellationToken);

        /// <summary>Sets the object of a node: a type without bins.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The type.</param>
        /// <param name="timeMs">
        /// The time of the change in milliseconds since 1970; that of the server if it is null. The newest change of a
        /// node wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, which shows if the node changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
        public Task<NodeChangedResult> SetNodeAsync(
            ulong node,
            Bytes type,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetAsync(node, type, Array.Empty<V1.Requests.NodeBin>(), timeMs, deadline, cancellationToken);

        /// <summary>Sets the object of a node: its type and bins, at most 16 KiB together.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The type.</param>
        /// <param name="bins">The names and values. No bin has the name <c>TS</c>.</param>
        /// <param name="timeMs">
        /// The time of the change in milliseconds since 1970; that of the server if it is null. The newest change of a
        /// node wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, which shows if the node changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
        public Task<NodeChangedResult> SetNodeAsync(
            ulong node,
            Bytes type,
            IEnumerable<KeyValuePair<string, string>> bins,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetAsync(node, type, BinsOf(bins, each => each, each => each), timeMs, deadline, cancellationToken);

        /// <summary>Sets the object of a node: its type and bins, at most 16 KiB together.</summary>
        /// <param name="node">The node.</param>
        /// <param name="type">The type.</param>
        /// <param name="bins">The names and values. No bin has the name <c>TS</c>.</param>
        /// <param name="timeMs">
        /// The time of the change in milliseconds since 1970; that of the server if it is null. The newest change of a
        /// node wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, which shows if the node changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
        public Task<NodeChangedResult> SetNodeAsync(
            ulong node,
            Bytes type,
            IEnumerable<KeyValuePair<Bytes, Bytes>> bins,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetAsync(node, type, BinsOf(bins, each => each, each => each), timeMs, deadline, cancellationToken);

        /// <summary>Removes the object of a node. Its edges stay.</summary>
        /// <param name="node">The node.</param>
        /// <param name="timeMs">
        /// The time of the change in milliseconds since 1970; that of the server if it is null. The newest change of a
        /// node wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, which shows if the node changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
        public Task<NodeChangedResult> RemoveNodeAsync(
            ulong node,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                timeMs == null ? Calls.GraphRemoveNodeOnce : Calls.GraphRemoveNode,
                new NodeRequest { Graph = Name, Node = node, TimeMs = TimeOf(timeMs) },
                deadline,
                cancellationToken);

        /// <summary>Hides all edges of a node until it is restored.</summary>
        /// <param name="node">The node.</param>
        /// <param name="timeMs">
        /// The time of the change in milliseconds since 1970; that of the server if it is null. The newest change of a
        /// node wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, which shows if the node changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
        public Task<NodeChangedResult> ArchiveNodeAsync(
            ulong node,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            MarkAsync(node, true, timeMs, deadline, cancellationToken);

        /// <summary>Shows all edges of an archived node.</summary>
        /// <param name="node">The node.</param>
        /// <param name="timeMs">
        /// The time of the change in milliseconds since 1970; that of the server if it is null. The newest change of a
        /// node wins.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, which shows if the node changed, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
        public Task<NodeChangedResult> RestoreNodeAsync(
            ulong node,
            long? timeMs = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            MarkAsync(node, false, timeMs, deadline, cancellationToken);

        /// <summary>
        /// Returns the figures of the graph, such as <c>nodes</c>, and its edge types. It needs the right to all
        /// graphs.
        /// </summary>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The figures or an error.</returns>
        public Task<GraphStatsResult> StatsAsync(
            TimeSpan? deadline = null, CancellationToken cancellationToken = default) =>
            caller.Send(Calls.GraphStats, new GraphStatsRequest { Graph = Name }, deadline, cancellationToken);

        private static ulong? TimeOf(long? timeMs) =>
            timeMs == null ? (ulong?)null : Times.SinceEpochMs(nameof(timeMs), timeMs.Value);

        private static List<V1.Requests.NodeBin> BinsOf<T>(
            IEnumerable<KeyValuePair<T, T>> bins, Func<T, Bytes> name, Func<T, Bytes> value) =>
            (bins ?? throw new ArgumentNullException(nameof(bins)))
                .Select(each => new V1.Requests.NodeBin { Name = name(each.Key), Value = value(each.Value) }).ToList();

        private static async IAsyncEnumerable<TResult> PagesAsync<TResult>(
            Func<string, CancellationToken, Task<TResult>> next,
            string cursor,
            Func<TResult, string> cursorOf,
            [EnumeratorCancellation] CancellationToken cancellationToken)
        {
            var at = cursor;
            do
            {
                var page = await next(at, cancellationToken).ConfigureAwait(false);
                at = cursorOf(page);
                yield return page;
            }
            while (at.Length > 0);
        }

        private GraphQueriesResult ResultsOf(List<GraphQuery> queries, GraphQueryReply reply)
        {
            if (reply.Results.Count != queries.Count)
            {
                throw new BadReplyException($"{reply.Results.Count} results of {queries.Count} queries");
            }
            return new GraphQueriesResult.Success(
                queries.Zip(reply.Results, (query, result) => query.ResultOf(result, caller.Engine.Target)).ToList());
        }

        private static EdgeChange ChangeOf(Edge edge, long? timeMs) => new EdgeChange
        {
            Source = edge.Source,
            Type = edge.Type ?? string.Empty,
            Destination = edge.Destination,
            TimeMs = TimeOf(edge.TimeMs ?? timeMs),
            Negative = edge.IsNegative,
            Attributes = (edge.Attributes ?? new Dictionary<string, Bytes>())
                .Select(each => new V1.Requests.GraphAttribute { Name = each.Key, Value = each.Value }).ToList(),
        };

        private Task<EdgesChangedResult> ChangeAsync(
            V1.GraphChangeRequestAction action,
            string type,
            IEnumerable<Edge> edges,
            long? timeMs,
            TimeSpan? deadline,
            CancellationToken cancellationToken)
        {
            var changes = (edges ?? throw new ArgumentNullException(nameof(edges)))
                .Select(each => ChangeOf(each, timeMs)).ToList();
            var isTimed = changes.All(each => each.TimeMs != null);
            return caller.Send(
                isTimed ? Calls.GraphChange : Calls.GraphChangeOnce,
                new GraphChangeRequest { Graph = Name, Action = action, Type = type, Edges = changes },
                deadline,
                cancellationToken);
        }

        private Task<NodeChangedResult> SetAsync(
            ulong node,
            Bytes type,
            IReadOnlyList<V1.Requests.NodeBin> bins,
            long? timeMs,
            TimeSpan? deadline,
            CancellationToken cancellationToken) =>
            caller.Send(
                timeMs == null ? Calls.GraphSetNodeOnce : Calls.GraphSetNode,
                new SetNodeRequest
                {
                    Graph = Name,
                    Node = node,
                    TimeMs = TimeOf(timeMs),
                    Value = new V1.Requests.GraphNode { Type = type, Bins = bins },
                },
                deadline,
                cancellationToken);

        private Task<NodeChangedResult> MarkAsync(
            ulong node, bool isArchived, long? timeMs, TimeSpan? deadline, CancellationToken cancellationToken) =>
            caller.Send(
                timeMs == null ? Calls.GraphMarkNodeOnce : Calls.GraphMarkNode,
                new MarkNodeRequest { Graph = Name, Node = node, TimeMs = TimeOf(timeMs), Archived = isArchived },
                deadline,
                cancellationToken);
    }
}
