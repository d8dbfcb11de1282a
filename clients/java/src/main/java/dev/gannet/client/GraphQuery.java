package dev.gannet.client;

import dev.gannet.v1.CombineRequest;
import dev.gannet.v1.DistanceRequest;
import dev.gannet.v1.GetEdgesRequest;
import dev.gannet.v1.GraphCountRequest;
import dev.gannet.v1.GraphRangeRequest;
import dev.gannet.v1.MutualRequest;
import dev.gannet.v1.PathRequest;
import dev.gannet.v1.SecondDegreeRequest;
import dev.gannet.v1.SuggestRequest;
import dev.gannet.v1.TimeRange;
import java.time.Instant;
import java.util.Collection;
import java.util.function.UnaryOperator;

/**
 * A query of a graph, which {@link Graph#execute} sends alone and {@link Graph#query} together with others. It is
 * immutable; its methods return changed copies:
 *
 * <pre>{@code GraphQuery.neighbours(1, "knows").withLimit(20).withAttributes()}</pre>
 *
 * <p>A node is an unsigned number from 1 to 2^64 - 2, which {@link Long#toUnsignedString(long)} prints.
 *
 * @param <R> the result
 */
public abstract sealed class GraphQuery<R extends GraphResult> {
    private final GraphRequest<?, ?, R> request;

    private GraphQuery(GraphRequest<?, ?, R> request) {
        this.request = request;
    }

    GraphRequest<?, ?, R> request() {
        return request;
    }

    /**
     * Returns a copy for this graph, instead of the one that executes it.
     *
     * @throws IllegalArgumentException if the name is empty
     */
    public abstract GraphQuery<R> inGraph(String name);

    /** Returns the query for the state, time and attributes of the edges from a node to up to 4,096 others. */
    public static GetEdges getEdges(long source, String type, Collection<Long> destinations) {
        return new GetEdges(GetEdgesRequest.newBuilder()
                .setSource(source).setType(type).addAllDestinations(destinations).build());
    }

    /** Returns the query for the degree of a node: the number of its neighbours. */
    public static Count count(long node, String type) {
        return new Count(GraphCountRequest.newBuilder().setNode(node).setType(type).build());
    }

    /** Returns the query for a page of the neighbours of a node, which has 100 of them by default. */
    public static Neighbours neighbours(long node, String type) {
        return new Neighbours(GraphRangeRequest.newBuilder().setNode(node).setType(type).build());
    }

    /** Returns the query for common neighbours of two nodes, up to 100 by default. */
    public static Mutual mutual(long first, long second, String type) {
        return new Mutual(mutualOf(first, second, type).build());
    }

    /** Returns the query for the number of common neighbours of two nodes. */
    public static MutualCount mutualCount(long first, long second, String type) {
        return new MutualCount(mutualOf(first, second, type).setCountOnly(true).build());
    }

    private static MutualRequest.Builder mutualOf(long first, long second, String type) {
        return MutualRequest.newBuilder().setFirst(first).setSecond(second).setType(type);
    }

    /** Returns the query for a page of the intersection, union or difference of up to 16 lists. */
    public static Combine combine(CombineOperation operation, Collection<NodeList> lists) {
        CombineRequest.Builder request = CombineRequest.newBuilder()
                .setOperation(CombineRequest.Operation.valueOf(operation.name()));
        lists.forEach(each -> request.addLists(
                dev.gannet.v1.NodeList.newBuilder().setNode(each.node()).setType(each.type())));
        return new Combine(request.build());
    }

    /** Returns the query for the distances from a node to up to 4,096 others, up to 3 edges each. */
    public static Distances distances(long source, String type, Collection<Long> destinations) {
        return new Distances(DistanceRequest.newBuilder()
                .setSource(source).setType(type).addAllDestinations(destinations).build());
    }

    /** Returns the query for the shortest path between two nodes, or for several, of up to 3 edges each. */
    public static Paths paths(long source, long destination, String type) {
        return new Paths(PathRequest.newBuilder()
                .setSource(source).setDestination(destination).setType(type).build());
    }

    /** Returns the query for a page of the nodes at distance 2, which has 100 of them by default. */
    public static SecondDegree secondDegree(long node, String type) {
        return new SecondDegree(SecondDegreeRequest.newBuilder().setNode(node).setType(type).build());
    }

    /** Returns the query for the number of nodes at distance 2. */
    public static SecondDegreeCount secondDegreeCount(long node, String type) {
        return new SecondDegreeCount(
                SecondDegreeRequest.newBuilder().setNode(node).setType(type).setCountOnly(true).build());
    }

    /** Returns the query for the nodes at distance 2 with the most common neighbours, up to 10 by default. */
    public static Suggest suggest(long node, String type) {
        return new Suggest(SuggestRequest.newBuilder().setNode(node).setType(type).build());
    }

    /**
     * A query whose result is a page.
     *
     * @param <R> the page
     */
    public abstract static sealed class Paged<R extends GraphResult> extends GraphQuery<R> {
        private Paged(GraphRequest<?, ?, R> request) {
            super(request);
        }

        /** Returns a copy that begins at the cursor of the last page. */
        public abstract Paged<R> after(String cursor);

        /**
         * Returns a copy with another maximum number of nodes of a page, at most 4,096.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public abstract Paged<R> withLimit(int nodes);

        @Override
        public abstract Paged<R> inGraph(String name);

        /** Returns the cursor of a page, which is empty after the last one and after an error. */
        abstract String cursorOf(R page);
    }

    /** A query for the edges from a node to others. */
    public static final class GetEdges extends GraphQuery<EdgesResult> {
        private final GetEdgesRequest message;

        private GetEdges(GetEdgesRequest message) {
            super(new GraphRequest<>(GraphCall.GET_EDGES, message));
            this.message = message;
        }

        @Override
        public GetEdges inGraph(String name) {
            return new GetEdges(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }
    }

    /** A query for the degree of a node. */
    public static final class Count extends GraphQuery<NodeCountResult> {
        private final GraphCountRequest message;

        private Count(GraphCountRequest message) {
            super(new GraphRequest<>(GraphCall.COUNT, message));
            this.message = message;
        }

        @Override
        public Count inGraph(String name) {
            return new Count(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }
    }

    /** A query for a page of neighbours. */
    public static final class Neighbours extends Paged<NeighbourPageResult> {
        private final GraphRangeRequest message;

        private Neighbours(GraphRangeRequest message) {
            super(new GraphRequest<>(GraphCall.RANGE, message));
            this.message = message;
        }

        private Neighbours with(UnaryOperator<GraphRangeRequest.Builder> change) {
            return new Neighbours(change.apply(message.toBuilder()).build());
        }

        /**
         * Returns a copy with the edges of these times alone, both included, of a type that is sorted by time.
         *
         * @throws IllegalArgumentException if a time is before 1970
         */
        public Neighbours withTimes(Instant first, Instant last) {
            return with(request -> request.setTimes(TimeRange.newBuilder()
                    .setFirstMs(GraphMessages.millisecondsOf(first))
                    .setLastMs(GraphMessages.millisecondsOf(last))));
        }

        /** Returns a copy whose pages have the reverse order. */
        public Neighbours reversed() {
            return with(request -> request.setReverse(true));
        }

        /** Returns a copy whose result has the times and attributes of the edges. */
        public Neighbours withAttributes() {
            return with(request -> request.setWithAttributes(true));
        }

        /** Returns a copy with the edges in this state, instead of live ones. */
        public Neighbours withState(EdgeState state) {
            return with(request -> request.setStateValue(state.ordinal()));
        }

        @Override
        public Neighbours after(String cursor) {
            return with(request -> request.setCursor(cursor));
        }

        @Override
        public Neighbours withLimit(int nodes) {
            return with(request -> request.setLimit(GraphMessages.positive("limit", nodes)));
        }

        @Override
        public Neighbours inGraph(String name) {
            return with(request -> request.setGraph(GraphMessages.graphName(name)));
        }

        @Override
        String cursorOf(NeighbourPageResult page) {
            return page instanceof NeighbourPageResult.Success success ? success.cursor() : "";
        }
    }

    /** A query for common neighbours. */
    public static final class Mutual extends GraphQuery<MutualNodesResult> {
        private final MutualRequest message;

        private Mutual(MutualRequest message) {
            super(new GraphRequest<>(GraphCall.MUTUAL, message));
            this.message = message;
        }

        /**
         * Returns a copy with another maximum number of nodes, at most 4,096.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Mutual withLimit(int nodes) {
            return new Mutual(message.toBuilder().setLimit(GraphMessages.positive("limit", nodes)).build());
        }

        /**
         * Returns a copy that may touch this number of edges, at most 1,048,576, instead of 100,000.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Mutual withBudget(int edges) {
            return new Mutual(message.toBuilder().setBudget(GraphMessages.positive("budget", edges)).build());
        }

        @Override
        public Mutual inGraph(String name) {
            return new Mutual(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }
    }

    /** A query for the number of common neighbours. */
    public static final class MutualCount extends GraphQuery<NodeCountResult> {
        private final MutualRequest message;

        private MutualCount(MutualRequest message) {
            super(new GraphRequest<>(GraphCall.MUTUAL_COUNT, message));
            this.message = message;
        }

        /**
         * Returns a copy that may touch this number of edges, at most 1,048,576, instead of 100,000.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public MutualCount withBudget(int edges) {
            return new MutualCount(message.toBuilder().setBudget(GraphMessages.positive("budget", edges)).build());
        }

        @Override
        public MutualCount inGraph(String name) {
            return new MutualCount(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }
    }

    /** A query for a page of a combination of lists. */
    public static final class Combine extends Paged<NodePageResult> {
        private final CombineRequest message;

        private Combine(CombineRequest message) {
            super(new GraphRequest<>(GraphCall.COMBINE, message));
            this.message = message;
        }

        @Override
        public Combine after(String cursor) {
            return new Combine(message.toBuilder().setCursor(cursor).build());
        }

        @Override
        public Combine withLimit(int nodes) {
            return new Combine(message.toBuilder().setLimit(GraphMessages.positive("limit", nodes)).build());
        }

        @Override
        public Combine inGraph(String name) {
            return new Combine(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }

        @Override
        String cursorOf(NodePageResult page) {
            return page instanceof NodePageResult.Success success ? success.cursor() : "";
        }
    }

    /** A query for distances. */
    public static final class Distances extends GraphQuery<DistancesResult> {
        private final DistanceRequest message;

        private Distances(DistanceRequest message) {
            super(new GraphRequest<>(GraphCall.DISTANCE, message));
            this.message = message;
        }

        /**
         * Returns a copy with another maximum distance, from 1 to 3.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Distances withMax(int edges) {
            return new Distances(message.toBuilder().setMax(GraphMessages.positive("max", edges)).build());
        }

        /**
         * Returns a copy that may touch this number of edges, at most 1,048,576, instead of 100,000.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Distances withBudget(int edges) {
            return new Distances(message.toBuilder().setBudget(GraphMessages.positive("budget", edges)).build());
        }

        @Override
        public Distances inGraph(String name) {
            return new Distances(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }
    }

    /** A query for the shortest paths between two nodes. */
    public static final class Paths extends GraphQuery<PathsResult> {
        private final PathRequest message;

        private Paths(PathRequest message) {
            super(new GraphRequest<>(GraphCall.PATH, message));
            this.message = message;
        }

        /**
         * Returns a copy with another maximum number of edges of a path, from 1 to 3.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Paths withMax(int edges) {
            return new Paths(message.toBuilder().setMax(GraphMessages.positive("max", edges)).build());
        }

        /**
         * Returns a copy with this number of paths, instead of one.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Paths withCount(int paths) {
            return new Paths(message.toBuilder().setK(GraphMessages.positive("count", paths)).build());
        }

        /**
         * Returns a copy that may touch this number of edges, at most 1,048,576, instead of 100,000.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Paths withBudget(int edges) {
            return new Paths(message.toBuilder().setBudget(GraphMessages.positive("budget", edges)).build());
        }

        @Override
        public Paths inGraph(String name) {
            return new Paths(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }
    }

    /** A query for a page of the nodes at distance 2. */
    public static final class SecondDegree extends Paged<NodePageResult> {
        private final SecondDegreeRequest message;

        private SecondDegree(SecondDegreeRequest message) {
            super(new GraphRequest<>(GraphCall.SECOND_DEGREE, message));
            this.message = message;
        }

        private SecondDegree with(UnaryOperator<SecondDegreeRequest.Builder> change) {
            return new SecondDegree(change.apply(message.toBuilder()).build());
        }

        /**
         * Returns a copy that may touch this number of edges, at most 1,048,576, instead of 100,000.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public SecondDegree withBudget(int edges) {
            return with(request -> request.setBudget(GraphMessages.positive("budget", edges)));
        }

        /**
         * Returns a copy that accepts a set from the cache of the server that has missed up to this number of changes
         * of the type. Without it, the result is exact.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public SecondDegree withStale(int changes) {
            return with(request -> request.setStale(GraphMessages.positive("stale", changes)));
        }

        @Override
        public SecondDegree after(String cursor) {
            return with(request -> request.setCursor(cursor));
        }

        @Override
        public SecondDegree withLimit(int nodes) {
            return with(request -> request.setLimit(GraphMessages.positive("limit", nodes)));
        }

        @Override
        public SecondDegree inGraph(String name) {
            return with(request -> request.setGraph(GraphMessages.graphName(name)));
        }

        @Override
        String cursorOf(NodePageResult page) {
            return page instanceof NodePageResult.Success success ? success.cursor() : "";
        }
    }

    /** A query for the number of nodes at distance 2. */
    public static final class SecondDegreeCount extends GraphQuery<NodeCountResult> {
        private final SecondDegreeRequest message;

        private SecondDegreeCount(SecondDegreeRequest message) {
            super(new GraphRequest<>(GraphCall.SECOND_DEGREE_COUNT, message));
            this.message = message;
        }

        private SecondDegreeCount with(UnaryOperator<SecondDegreeRequest.Builder> change) {
            return new SecondDegreeCount(change.apply(message.toBuilder()).build());
        }

        /**
         * Returns a copy that may touch this number of edges, at most 1,048,576, instead of 100,000.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public SecondDegreeCount withBudget(int edges) {
            return with(request -> request.setBudget(GraphMessages.positive("budget", edges)));
        }

        /**
         * Returns a copy that accepts a set from the cache of the server that has missed up to this number of changes
         * of the type. Without it, the result is exact.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public SecondDegreeCount withStale(int changes) {
            return with(request -> request.setStale(GraphMessages.positive("stale", changes)));
        }

        @Override
        public SecondDegreeCount inGraph(String name) {
            return with(request -> request.setGraph(GraphMessages.graphName(name)));
        }
    }

    /** A query for the nodes at distance 2 with the most common neighbours. */
    public static final class Suggest extends GraphQuery<SuggestionsResult> {
        private final SuggestRequest message;

        private Suggest(SuggestRequest message) {
            super(new GraphRequest<>(GraphCall.SUGGEST, message));
            this.message = message;
        }

        /**
         * Returns a copy with another number of nodes.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Suggest withCount(int nodes) {
            return new Suggest(message.toBuilder().setK(GraphMessages.positive("count", nodes)).build());
        }

        /**
         * Returns a copy that may touch this number of edges, at most 1,048,576, instead of 100,000.
         *
         * @throws IllegalArgumentException if it is below 1
         */
        public Suggest withBudget(int edges) {
            return new Suggest(message.toBuilder().setBudget(GraphMessages.positive("budget", edges)).build());
        }

        @Override
        public Suggest inGraph(String name) {
            return new Suggest(message.toBuilder().setGraph(GraphMessages.graphName(name)).build());
        }
    }
}
