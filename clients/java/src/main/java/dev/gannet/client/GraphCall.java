package dev.gannet.client;

import com.google.protobuf.Message;
import dev.gannet.v1.CombineRequest;
import dev.gannet.v1.DistanceReply;
import dev.gannet.v1.DistanceRequest;
import dev.gannet.v1.GetEdgesReply;
import dev.gannet.v1.GetEdgesRequest;
import dev.gannet.v1.GraphCountReply;
import dev.gannet.v1.GraphCountRequest;
import dev.gannet.v1.GraphPath;
import dev.gannet.v1.GraphQueryResult;
import dev.gannet.v1.GraphQueryResult.ResultCase;
import dev.gannet.v1.GraphRangeRequest;
import dev.gannet.v1.MutualReply;
import dev.gannet.v1.MutualRequest;
import dev.gannet.v1.NeighbourPage;
import dev.gannet.v1.NodePage;
import dev.gannet.v1.PathReply;
import dev.gannet.v1.PathRequest;
import dev.gannet.v1.SecondDegreeReply;
import dev.gannet.v1.SecondDegreeRequest;
import dev.gannet.v1.SuggestReply;
import dev.gannet.v1.SuggestRequest;
import java.time.Instant;
import java.util.List;
import java.util.OptionalInt;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Function;

/**
 * A kind of query, which is a call of its own or a part of the call {@code Query}.
 *
 * @param method the call
 * @param kind the kind of its result in a batch
 * @param put adds its request to a batch
 * @param part returns its reply from a batch
 * @param result makes the result from the request and the reply
 * @param error makes the result from an error
 */
record GraphCall<Q extends Message, P extends Message, R extends GraphResult>(
        Method<Q, P> method, ResultCase kind, BiConsumer<dev.gannet.v1.GraphQuery.Builder, Q> put,
        Function<GraphQueryResult, P> part, BiFunction<Q, P, R> result, Function<CacheError, R> error) {
    /** The distance of a node that was not found. */
    private static final int UNREACHED = 255;

    static final GraphCall<GetEdgesRequest, GetEdgesReply, EdgesResult> GET_EDGES = new GraphCall<>(
            Methods.GRAPH_GET_EDGES, ResultCase.GET_EDGES, dev.gannet.v1.GraphQuery.Builder::setGetEdges,
            GraphQueryResult::getGetEdges, GraphCall::edges, EdgesResult.Error::new);
    static final GraphCall<GraphCountRequest, GraphCountReply, NodeCountResult> COUNT = new GraphCall<>(
            Methods.GRAPH_COUNT, ResultCase.COUNT, dev.gannet.v1.GraphQuery.Builder::setCount,
            GraphQueryResult::getCount, (request, reply) -> new NodeCountResult.Success(reply.getCount(), false),
            NodeCountResult.Error::new);
    static final GraphCall<GraphRangeRequest, NeighbourPage, NeighbourPageResult> RANGE = new GraphCall<>(
            Methods.GRAPH_RANGE, ResultCase.RANGE, dev.gannet.v1.GraphQuery.Builder::setRange,
            GraphQueryResult::getRange, (request, reply) -> neighbours(reply), NeighbourPageResult.Error::new);
    static final GraphCall<MutualRequest, MutualReply, MutualNodesResult> MUTUAL = new GraphCall<>(
            Methods.GRAPH_MUTUAL, ResultCase.MUTUAL, dev.gannet.v1.GraphQuery.Builder::setMutual,
            GraphQueryResult::getMutual,
            (request, reply) -> new MutualNodesResult.Success(List.copyOf(reply.getNodesList()), reply.getPartial()),
            MutualNodesResult.Error::new);
    static final GraphCall<MutualRequest, MutualReply, NodeCountResult> MUTUAL_COUNT = new GraphCall<>(
            Methods.GRAPH_MUTUAL, ResultCase.MUTUAL, dev.gannet.v1.GraphQuery.Builder::setMutual,
            GraphQueryResult::getMutual,
            (request, reply) -> new NodeCountResult.Success(reply.getCount(), reply.getPartial()),
            NodeCountResult.Error::new);
    static final GraphCall<CombineRequest, NodePage, NodePageResult> COMBINE = new GraphCall<>(
            Methods.GRAPH_COMBINE, ResultCase.COMBINE, dev.gannet.v1.GraphQuery.Builder::setCombine,
            GraphQueryResult::getCombine,
            (request, reply) -> new NodePageResult.Success(
                    List.copyOf(reply.getNodesList()), reply.getCursor(), false),
            NodePageResult.Error::new);
    static final GraphCall<DistanceRequest, DistanceReply, DistancesResult> DISTANCE = new GraphCall<>(
            Methods.GRAPH_DISTANCE, ResultCase.DISTANCE, dev.gannet.v1.GraphQuery.Builder::setDistance,
            GraphQueryResult::getDistance, GraphCall::distances, DistancesResult.Error::new);
    static final GraphCall<PathRequest, PathReply, PathsResult> PATH = new GraphCall<>(
            Methods.GRAPH_PATH, ResultCase.PATH, dev.gannet.v1.GraphQuery.Builder::setPath,
            GraphQueryResult::getPath, (request, reply) -> paths(reply), PathsResult.Error::new);
    static final GraphCall<SecondDegreeRequest, SecondDegreeReply, NodePageResult> SECOND_DEGREE = new GraphCall<>(
            Methods.GRAPH_SECOND_DEGREE, ResultCase.SECOND_DEGREE,
            dev.gannet.v1.GraphQuery.Builder::setSecondDegree, GraphQueryResult::getSecondDegree,
            (request, reply) -> new NodePageResult.Success(
                    List.copyOf(reply.getNodesList()), reply.getCursor(), reply.getPartial()),
            NodePageResult.Error::new);
    static final GraphCall<SecondDegreeRequest, SecondDegreeReply, NodeCountResult> SECOND_DEGREE_COUNT =
            new GraphCall<>(
                    Methods.GRAPH_SECOND_DEGREE, ResultCase.SECOND_DEGREE,
                    dev.gannet.v1.GraphQuery.Builder::setSecondDegree, GraphQueryResult::getSecondDegree,
                    (request, reply) -> new NodeCountResult.Success(reply.getCount(), reply.getPartial()),
                    NodeCountResult.Error::new);
    static final GraphCall<SuggestRequest, SuggestReply, SuggestionsResult> SUGGEST = new GraphCall<>(
            Methods.GRAPH_SUGGEST, ResultCase.SUGGEST, dev.gannet.v1.GraphQuery.Builder::setSuggest,
            GraphQueryResult::getSuggest, (request, reply) -> suggestions(reply), SuggestionsResult.Error::new);

    private static EdgesResult edges(GetEdgesRequest request, GetEdgesReply reply) {
        Calls.checkCount(reply.getEdgesCount(), request.getDestinationsCount());
        return new EdgesResult.Success(reply.getEdgesList().stream().map(each -> new EdgeInfo(
                GraphMessages.stateOf(each.getState()), Instant.ofEpochMilli(each.getTimeMs()),
                GraphMessages.attributesOf(each.getAttributesList()))).toList());
    }

    private static NeighbourPageResult neighbours(NeighbourPage reply) {
        List<Neighbour> neighbours = reply.getNeighboursList().stream().map(each -> new Neighbour(
                each.getNode(), Instant.ofEpochMilli(each.getTimeMs()),
                GraphMessages.attributesOf(each.getAttributesList()))).toList();
        List<Long> nodes = neighbours.isEmpty()
                ? List.copyOf(reply.getNodesList())
                : neighbours.stream().map(Neighbour::node).toList();
        return new NeighbourPageResult.Success(nodes, neighbours, reply.getCursor());
    }

    private static DistancesResult distances(DistanceRequest request, DistanceReply reply) {
        Calls.checkCount(reply.getDistancesCount(), request.getDestinationsCount());
        return new DistancesResult.Success(reply.getDistancesList().stream()
                .map(each -> each == UNREACHED ? OptionalInt.empty() : OptionalInt.of(each)).toList(),
                reply.getPartial());
    }

    private static PathsResult paths(PathReply reply) {
        return new PathsResult.Success(
                reply.getPathsList().stream().map(GraphPath::getNodesList).map(List::copyOf).toList(),
                reply.getPartial());
    }

    private static SuggestionsResult suggestions(SuggestReply reply) {
        return new SuggestionsResult.Success(reply.getSuggestionsList().stream()
                .map(each -> new Suggestion(each.getNode(), Integer.toUnsignedLong(each.getCommon()))).toList(),
                reply.getPartial());
    }
}
