package dev.gannet.client;

import com.google.protobuf.Message;
import dev.gannet.v1.EdgeChange;
import dev.gannet.v1.GetNodeReply;
import dev.gannet.v1.GraphChangeReply;
import dev.gannet.v1.GraphChangeRequest;
import dev.gannet.v1.GraphChangeRequest.Action;
import dev.gannet.v1.GraphQueryReply;
import dev.gannet.v1.GraphQueryRequest;
import dev.gannet.v1.GraphStatsRequest;
import dev.gannet.v1.MarkNodeRequest;
import dev.gannet.v1.NodeChangeReply;
import dev.gannet.v1.NodeRequest;
import dev.gannet.v1.SetNodeRequest;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * One graph: nodes and typed edges. {@link CacheCalls#graph} returns it, and it uses the connections, limits and the
 * deadline of that client. A node is an unsigned number from 1 to 2^64 - 2, which
 * {@link Long#toUnsignedString(long)} prints.
 *
 * <p>A graph is in no cache: the cache only counts the calls. The first edge type creates the graph. A query has a
 * budget of edges that it may touch; if it does not suffice, the result is partial: it is right as far as it goes.
 *
 * <p>Queries and declarations are repeated after a failure of the connection. A change is repeated only if it has a
 * time, because the server would give each attempt another one.
 *
 * <pre>{@code
 * Graph people = client.graph("default", "people");
 * people.declareType(EdgeType.of("knows").undirected()).join();
 * people.addEdges("knows", List.of(Edge.of(1, 2), Edge.of(2, 3))).join();
 * people.execute(GraphQuery.paths(1, 3, "knows").withCount(2)).thenAccept(System.out::println).join();
 * }</pre>
 */
public final class Graph {
    private final Calls<?> calls;
    private final String cache;
    private final String name;

    Graph(Calls<?> calls, String cache, String name) {
        this.calls = calls;
        this.cache = cache;
        this.name = GraphMessages.graphName(name);
    }

    /** Returns the name of the graph. */
    public String name() {
        return name;
    }

    /**
     * Declares an edge type, and creates the graph with its first one. It does nothing if the type is declared with the
     * same properties; with others, the error is {@link ErrorCode#FAILED_PRECONDITION}.
     */
    public CompletableFuture<DoneResult> declareType(EdgeType type) {
        return calls.done(Methods.GRAPH_DECLARE_TYPE, cache, type.message(name));
    }

    /** Adds up to 4,096 edges of a type, with the time of the server. */
    public CompletableFuture<EdgesChangedResult> addEdges(String type, Collection<Edge> edges) {
        return change(Action.ADD, type, edges, Optional.empty());
    }

    /**
     * Adds up to 4,096 edges of a type. The newest change of an edge wins.
     *
     * @param time the time of the edges that have none of their own
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<EdgesChangedResult> addEdges(String type, Collection<Edge> edges, Instant time) {
        return change(Action.ADD, type, edges, Optional.of(time));
    }

    /** Removes up to 4,096 edges of a type, with the time of the server. */
    public CompletableFuture<EdgesChangedResult> removeEdges(String type, Collection<Edge> edges) {
        return change(Action.REMOVE, type, edges, Optional.empty());
    }

    /**
     * Removes up to 4,096 edges of a type. The newest change of an edge wins.
     *
     * @param time the time of the edges that have none of their own
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<EdgesChangedResult> removeEdges(String type, Collection<Edge> edges, Instant time) {
        return change(Action.REMOVE, type, edges, Optional.of(time));
    }

    /** Hides up to 4,096 edges of a type until they are restored, with the time of the server. */
    public CompletableFuture<EdgesChangedResult> archiveEdges(String type, Collection<Edge> edges) {
        return change(Action.ARCHIVE, type, edges, Optional.empty());
    }

    /**
     * Hides up to 4,096 edges of a type until they are restored. The newest change of an edge wins.
     *
     * @param time the time of the edges that have none of their own
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<EdgesChangedResult> archiveEdges(String type, Collection<Edge> edges, Instant time) {
        return change(Action.ARCHIVE, type, edges, Optional.of(time));
    }

    /** Makes up to 4,096 edges of a type live, with their attributes and the time of the server. */
    public CompletableFuture<EdgesChangedResult> restoreEdges(String type, Collection<Edge> edges) {
        return change(Action.RESTORE, type, edges, Optional.empty());
    }

    /**
     * Makes up to 4,096 edges of a type live, with their attributes. The newest change of an edge wins.
     *
     * @param time the time of the edges that have none of their own
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<EdgesChangedResult> restoreEdges(String type, Collection<Edge> edges, Instant time) {
        return change(Action.RESTORE, type, edges, Optional.of(time));
    }

    private CompletableFuture<EdgesChangedResult> change(
            Action action, String type, Collection<Edge> edges, Optional<Instant> time) {
        GraphChangeRequest.Builder request =
                GraphChangeRequest.newBuilder().setGraph(name).setAction(action).setType(type);
        Optional<Long> timeMs = time.map(GraphMessages::millisecondsOf);
        boolean isTimed = true;
        for (Edge edge : edges) {
            EdgeChange change = edge.message();
            if (!change.hasTimeMs() && timeMs.isPresent()) {
                change = change.toBuilder().setTimeMs(timeMs.get()).build();
            }
            isTimed &= change.hasTimeMs();
            request.addEdges(change);
        }
        Method<GraphChangeRequest, GraphChangeReply> method =
                isTimed ? Methods.GRAPH_CHANGE : Methods.GRAPH_CHANGE_ONCE;
        return calls.unary(method, cache, request.build(),
                reply -> new EdgesChangedResult.Success(reply.getChanged()), EdgesChangedResult.Error::new);
    }

    /** Returns the state, time and attributes of the edges from a node to up to 4,096 others. */
    public CompletableFuture<EdgesResult> getEdges(long source, String type, Collection<Long> destinations) {
        return execute(GraphQuery.getEdges(source, type, destinations));
    }

    /** Returns the degree of a node: the number of its neighbours. */
    public CompletableFuture<NodeCountResult> count(long node, String type) {
        return execute(GraphQuery.count(node, type));
    }

    /** Returns the first page of the neighbours of a node. {@link GraphQuery#neighbours} has options. */
    public CompletableFuture<NeighbourPageResult> neighbours(long node, String type) {
        return execute(GraphQuery.neighbours(node, type));
    }

    /** Returns up to 100 common neighbours of two nodes. {@link GraphQuery#mutual} has options. */
    public CompletableFuture<MutualNodesResult> mutual(long first, long second, String type) {
        return execute(GraphQuery.mutual(first, second, type));
    }

    /** Returns the number of common neighbours of two nodes. {@link GraphQuery#mutualCount} has options. */
    public CompletableFuture<NodeCountResult> mutualCount(long first, long second, String type) {
        return execute(GraphQuery.mutualCount(first, second, type));
    }

    /** Returns the first page of a combination of up to 16 lists. {@link GraphQuery#combine} has options. */
    public CompletableFuture<NodePageResult> combine(CombineOperation operation, Collection<NodeList> lists) {
        return execute(GraphQuery.combine(operation, lists));
    }

    /** Returns the distances from a node to others, up to 3 edges each. {@link GraphQuery#distances} has options. */
    public CompletableFuture<DistancesResult> distances(long source, String type, Collection<Long> destinations) {
        return execute(GraphQuery.distances(source, type, destinations));
    }

    /** Returns the shortest path of up to 3 edges between two nodes. {@link GraphQuery#paths} has options. */
    public CompletableFuture<PathsResult> paths(long source, long destination, String type) {
        return execute(GraphQuery.paths(source, destination, type));
    }

    /** Returns the first page of the nodes at distance 2. {@link GraphQuery#secondDegree} has options. */
    public CompletableFuture<NodePageResult> secondDegree(long node, String type) {
        return execute(GraphQuery.secondDegree(node, type));
    }

    /** Returns the number of nodes at distance 2. {@link GraphQuery#secondDegreeCount} has options. */
    public CompletableFuture<NodeCountResult> secondDegreeCount(long node, String type) {
        return execute(GraphQuery.secondDegreeCount(node, type));
    }

    /** Returns 10 nodes at distance 2 with the most common neighbours. {@link GraphQuery#suggest} has options. */
    public CompletableFuture<SuggestionsResult> suggest(long node, String type) {
        return execute(GraphQuery.suggest(node, type));
    }

    /** Executes a query. */
    public <R extends GraphResult> CompletableFuture<R> execute(GraphQuery<R> query) {
        return query.request().send(calls, cache, name);
    }

    /**
     * Returns pages one after another, from the first one or from the cursor of the query. Each step of its iterators
     * waits for a page. A page has its cursor, by which another program can continue. The iterator ends after the last
     * page, and after an error, which is its last element.
     */
    public <R extends GraphResult> Iterable<R> pages(GraphQuery.Paged<R> query) {
        return () -> new Pages<>(this, query);
    }

    /** The pages of a query. */
    private static final class Pages<R extends GraphResult> implements Iterator<R> {
        private final Graph graph;
        private GraphQuery.Paged<R> next;

        Pages(Graph graph, GraphQuery.Paged<R> first) {
            this.graph = graph;
            this.next = first;
        }

        @Override
        public boolean hasNext() {
            return next != null;
        }

        @Override
        public R next() {
            if (next == null) {
                throw new NoSuchElementException("the last page was returned");
            }
            R page = graph.execute(next).join();
            String cursor = next.cursorOf(page);
            next = cursor.isEmpty() ? null : next.after(cursor);
            return page;
        }
    }

    /**
     * Executes up to 64 queries in one call. A query that fails has an error in its place. Those for another graph name
     * it by {@link GraphQuery#inGraph}.
     */
    public CompletableFuture<GraphQueriesResult> query(Collection<? extends GraphQuery<?>> queries) {
        List<GraphRequest<?, ?, ?>> requests = new ArrayList<>(queries.size());
        GraphQueryRequest.Builder batch = GraphQueryRequest.newBuilder().setGraph(name);
        for (GraphQuery<?> query : queries) {
            requests.add(query.request());
            batch.addQueries(query.request().part());
        }
        return calls.unary(Methods.GRAPH_QUERY, cache, batch.build(), reply -> resultsOf(requests, reply),
                GraphQueriesResult.Error::new);
    }

    private GraphQueriesResult resultsOf(List<GraphRequest<?, ?, ?>> requests, GraphQueryReply reply) {
        Calls.checkCount(reply.getResultsCount(), requests.size());
        List<GraphResult> results = new ArrayList<>(requests.size());
        for (int at = 0; at < requests.size(); at++) {
            results.add(requests.get(at).resultOf(reply.getResults(at), calls.engine));
        }
        return new GraphQueriesResult.Success(results);
    }

    /** Returns the object of a node: a miss if it has none. */
    public CompletableFuture<NodeResult> getNode(long node) {
        return calls.unary(Methods.GRAPH_GET_NODE, cache, nodeOf(node, Optional.empty()), Graph::nodeResult,
                NodeResult.Error::new);
    }

    private static NodeResult nodeResult(GetNodeReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> new NodeResult.Hit(NodeObject.of(reply.getFound()));
            case MISSING -> NodeResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Sets the object of a node, with the time of the server. */
    public CompletableFuture<NodeChangedResult> setNode(long node, NodeObject object) {
        return setNode(node, object, Optional.empty());
    }

    /**
     * Sets the object of a node. The newest change of a node wins.
     *
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<NodeChangedResult> setNode(long node, NodeObject object, Instant time) {
        return setNode(node, object, Optional.of(time));
    }

    private CompletableFuture<NodeChangedResult> setNode(long node, NodeObject object, Optional<Instant> time) {
        SetNodeRequest.Builder request =
                SetNodeRequest.newBuilder().setGraph(name).setNode(node).setValue(object.message());
        time.ifPresent(given -> request.setTimeMs(GraphMessages.millisecondsOf(given)));
        return changeNode(Methods.GRAPH_SET_NODE, request.build(), time.isPresent());
    }

    /** Removes the object of a node, with the time of the server. Its edges stay. */
    public CompletableFuture<NodeChangedResult> removeNode(long node) {
        return changeNode(Methods.GRAPH_REMOVE_NODE, nodeOf(node, Optional.empty()), false);
    }

    /**
     * Removes the object of a node. Its edges stay. The newest change of a node wins.
     *
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<NodeChangedResult> removeNode(long node, Instant time) {
        return changeNode(Methods.GRAPH_REMOVE_NODE, nodeOf(node, Optional.of(time)), true);
    }

    /** Hides all edges of a node until it is restored, with the time of the server. */
    public CompletableFuture<NodeChangedResult> archiveNode(long node) {
        return markNode(node, true, Optional.empty());
    }

    /**
     * Hides all edges of a node until it is restored. The newest change of a node wins.
     *
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<NodeChangedResult> archiveNode(long node, Instant time) {
        return markNode(node, true, Optional.of(time));
    }

    /** Shows all edges of an archived node, with the time of the server. */
    public CompletableFuture<NodeChangedResult> restoreNode(long node) {
        return markNode(node, false, Optional.empty());
    }

    /**
     * Shows all edges of an archived node. The newest change of a node wins.
     *
     * @throws IllegalArgumentException if the time is before 1970
     */
    public CompletableFuture<NodeChangedResult> restoreNode(long node, Instant time) {
        return markNode(node, false, Optional.of(time));
    }

    private CompletableFuture<NodeChangedResult> markNode(long node, boolean isArchived, Optional<Instant> time) {
        MarkNodeRequest.Builder request =
                MarkNodeRequest.newBuilder().setGraph(name).setNode(node).setArchived(isArchived);
        time.ifPresent(given -> request.setTimeMs(GraphMessages.millisecondsOf(given)));
        return changeNode(Methods.GRAPH_MARK_NODE, request.build(), time.isPresent());
    }

    private NodeRequest nodeOf(long node, Optional<Instant> time) {
        NodeRequest.Builder request = NodeRequest.newBuilder().setGraph(name).setNode(node);
        time.ifPresent(given -> request.setTimeMs(GraphMessages.millisecondsOf(given)));
        return request.build();
    }

    private <Q extends Message> CompletableFuture<NodeChangedResult> changeNode(
            Method<Q, NodeChangeReply> method, Q request, boolean isTimed) {
        return calls.unary(isTimed ? method : method.once(), cache, request,
                reply -> new NodeChangedResult.Success(reply.getChanged()), NodeChangedResult.Error::new);
    }

    /**
     * Returns the figures of the graph, such as {@code nodes}, and its edge types. It needs the right to all graphs.
     */
    public CompletableFuture<GraphStatsResult> stats() {
        return calls.unary(Methods.GRAPH_STATS, cache, GraphStatsRequest.newBuilder().setGraph(name).build(),
                reply -> new GraphStatsResult.Success(
                        GraphMessages.figuresOf(reply.getFiguresList()), List.copyOf(reply.getTypesList())),
                GraphStatsResult.Error::new);
    }
}
