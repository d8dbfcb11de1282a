using System;
using System.Collections.Generic;
using System.Linq;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Replies;
using Gannet.V1.Requests;

namespace Gannet.Client.Engine
{
    // Graphs. A change is repeated only if it has a time: the server would give each attempt another one, by which it
    // could win over a change of another client.
    internal static partial class Calls
    {
        // The distance of a node that was not found.
        private const uint Unreached = 255;

        public static readonly Call<DoneResult> GraphDeclareType = Done(Methods.GraphDeclareType, true);

        public static readonly Call<EdgesChangedResult> GraphChange = EdgesChanged(true);

        public static readonly Call<EdgesChangedResult> GraphChangeOnce = EdgesChanged(false);

        public static readonly GraphKind<GetEdgesRequest, GetEdgesReply, EdgesResult> GraphGetEdges =
            Kind<GetEdgesRequest, GetEdgesReply, EdgesResult>(
                Methods.GraphGetEdges,
                GetEdgesReply.Read,
                (batch, request) => batch.GetEdges = request,
                result => result.GetEdges,
                reply => new EdgesResult.Success(reply.Edges.Select(EdgeOf).ToList()),
                error => new EdgesResult.Error(error),
                (request, reply) => SameCount(request.Destinations.Count, reply.Edges.Count));

        public static readonly GraphKind<GraphCountRequest, GraphCountReply, NodeCountResult> GraphCount =
            Kind<GraphCountRequest, GraphCountReply, NodeCountResult>(
                Methods.GraphCount,
                GraphCountReply.Read,
                (batch, request) => batch.Count = request,
                result => result.Count,
                reply => new NodeCountResult.Success(reply.Count, false),
                error => new NodeCountResult.Error(error));

        public static readonly GraphKind<GraphRangeRequest, NeighbourPage, NeighbourPageResult> GraphRange =
            Kind<GraphRangeRequest, NeighbourPage, NeighbourPageResult>(
                Methods.GraphRange,
                NeighbourPage.Read,
                (batch, request) => batch.Range = request,
                result => result.Range,
                NeighboursOf,
                error => new NeighbourPageResult.Error(error));

        public static readonly GraphKind<MutualRequest, MutualReply, MutualNodesResult> GraphMutual =
            Kind<MutualRequest, MutualReply, MutualNodesResult>(
                Methods.GraphMutual,
                MutualReply.Read,
                (batch, request) => batch.Mutual = request,
                result => result.Mutual,
                reply => new MutualNodesResult.Success(reply.Nodes, reply.Partial),
                error => new MutualNodesResult.Error(error));

        public static readonly GraphKind<MutualRequest, MutualReply, NodeCountResult> GraphMutualCount =
            Kind<MutualRequest, MutualReply, NodeCountResult>(
                Methods.GraphMutual,
                MutualReply.Read,
                (batch, request) => batch.Mutual = request,
                result => result.Mutual,
                reply => new NodeCountResult.Success(reply.Count, reply.Partial),
                error => new NodeCountResult.Error(error));

        public static readonly GraphKind<CombineRequest, NodePage, NodePageResult> GraphCombine =
            Kind<CombineRequest, NodePage, NodePageResult>(
                Methods.GraphCombine,
                NodePage.Read,
                (batch, request) => batch.Combine = request,
                result => result.Combine,
                reply => new NodePageResult.Success(reply.Nodes, reply.Cursor, false),
                error => new NodePageResult.Error(error));

        public static readonly GraphKind<DistanceRequest, DistanceReply, DistancesResult> GraphDistance =
            Kind<DistanceRequest, DistanceReply, DistancesResult>(
                Methods.GraphDistance,
                DistanceReply.Read,
                (batch, request) => batch.Distance = request,
                result => result.Distance,
                reply => new DistancesResult.Success(
                    reply.Distances.Select(each => each == Unreached ? (int?)null : (int)each).ToList(), reply.Partial),
                error => new DistancesResult.Error(error),
                (request, reply) => SameCount(request.Destinations.Count, reply.Distances.Count));

        public static readonly GraphKind<PathRequest, PathReply, PathsResult> GraphPath =
            Kind<PathRequest, PathReply, PathsResult>(
                Methods.GraphPath,
                PathReply.Read,
                (batch, request) => batch.Path = request,
                result => result.Path,
                reply => new PathsResult.Success(
                    reply.Paths.Select(path => (IReadOnlyList<ulong>)path.Nodes).ToList(), reply.Partial),
                error => new PathsResult.Error(error));

        public static readonly GraphKind<SecondDegreeRequest, SecondDegreeReply, NodePageResult> GraphSecondDegree =
            Kind<SecondDegreeRequest, SecondDegreeReply, NodePageResult>(
                Methods.GraphSecondDegree,
                SecondDegreeReply.Read,
                (batch, request) => batch.SecondDegree = request,
                result => result.SecondDegree,
                reply => new NodePageResult.Success(reply.Nodes, reply.Cursor, reply.Partial),
                error => new NodePageResult.Error(error));

        public static readonly GraphKind<SecondDegreeRequest, SecondDegreeReply, NodeCountResult>
            GraphSecondDegreeCount = Kind<SecondDegreeRequest, SecondDegreeReply, NodeCountResult>(
                Methods.GraphSecondDegree,
                SecondDegreeReply.Read,
                (batch, request) => batch.SecondDegree = request,
                result => result.SecondDegree,
                reply => new NodeCountResult.Success(reply.Count, reply.Partial),
                error => new NodeCountResult.Error(error));

        public static readonly GraphKind<SuggestRequest, SuggestReply, SuggestionsResult> GraphSuggest =
            Kind<SuggestRequest, SuggestReply, SuggestionsResult>(
                Methods.GraphSuggest,
                SuggestReply.Read,
                (batch, request) => batch.Suggest = request,
                result => result.Suggest,
                reply => new SuggestionsResult.Success(
                    reply.Suggestions.Select(each => new Suggestion(each.Node, each.Common)).ToList(), reply.Partial),
                error => new SuggestionsResult.Error(error));

        public static readonly Call<NodeResult> GraphGetNode = One(
            Methods.GraphGetNode,
            GetNodeReply.Read,
            reply => Found<V1.Replies.GraphNode, NodeResult>(
                reply.Found,
                reply.Missing,
                found => new NodeResult.Hit(
                    found.Type, found.Bins.Select(each => KeyValuePair.Create(each.Name, each.Value)).ToList()),
                NodeResult.Miss.Instance),
            error => new NodeResult.Error(error),
            true);

        public static readonly Call<NodeChangedResult> GraphSetNode = NodeChanged(Methods.GraphSetNode, true);

        public static readonly Call<NodeChangedResult> GraphSetNodeOnce = NodeChanged(Methods.GraphSetNode, false);

        public static readonly Call<NodeChangedResult> GraphRemoveNode = NodeChanged(Methods.GraphRemoveNode, true);

        public static readonly Call<NodeChangedResult> GraphRemoveNodeOnce =
            NodeChanged(Methods.GraphRemoveNode, false);

        public static readonly Call<NodeChangedResult> GraphMarkNode = NodeChanged(Methods.GraphMarkNode, true);

        public static readonly Call<NodeChangedResult> GraphMarkNodeOnce = NodeChanged(Methods.GraphMarkNode, false);

        // Each batch is a form of this call, which reads the reply by its own queries.
        public static readonly Call<GraphQueriesResult> GraphQuery = One<GraphQueryReply, GraphQueriesResult>(
            Methods.GraphQuery,
            GraphQueryReply.Read,
            _ => throw new InvalidOperationException("a batch reads its reply by its queries"),
            error => new GraphQueriesResult.Error(error),
            true);

        public static readonly Call<GraphStatsResult> GraphStats = One(
            Methods.GraphStats,
            GraphStatsReply.Read,
            reply => (GraphStatsResult)new GraphStatsResult.Success(FiguresOf(reply), reply.Types),
            error => new GraphStatsResult.Error(error),
            true);

        public static readonly Call<GraphStoreStatsResult> GraphStoreStats = One(
            Methods.GraphStats,
            GraphStatsReply.Read,
            reply => (GraphStoreStatsResult)new GraphStoreStatsResult.Success(FiguresOf(reply), reply.Graphs),
            error => new GraphStoreStatsResult.Error(error),
            true);

        private static GraphKind<TRequest, TReply, TResult> Kind<TRequest, TReply, TResult>(
            Method method,
            Decoder<TReply> read,
            Action<V1.Requests.GraphQuery, TRequest> put,
            Func<GraphQueryResult, TReply?> part,
            Func<TReply, TResult> make,
            Func<CacheError, TResult> fail,
            Action<TRequest, TReply>? check = null)
            where TRequest : class, IRequest
            where TReply : class
            where TResult : GraphResult =>
            new GraphKind<TRequest, TReply, TResult>(
                One(method, read, make, fail, true), read, put, part, make, check);

        private static Call<EdgesChangedResult> EdgesChanged(bool isIdempotent) => One(
            Methods.GraphChange,
            GraphChangeReply.Read,
            reply => (EdgesChangedResult)new EdgesChangedResult.Success(reply.Changed),
            error => new EdgesChangedResult.Error(error),
            isIdempotent);

        private static Call<NodeChangedResult> NodeChanged(Method method, bool isIdempotent) => One(
            method,
            NodeChangeReply.Read,
            reply => (NodeChangedResult)new NodeChangedResult.Success(reply.Changed),
            error => new NodeChangedResult.Error(error),
            isIdempotent);

        private static void SameCount(int requests, int replies)
        {
            if (requests != replies)
            {
                throw new BadReplyException($"{replies} replies to {requests} parts of a request");
            }
        }

        private static EdgeInfo EdgeOf(GraphEdge edge)
        {
            if (edge.State < V1.EdgeState.EdgeAbsent || edge.State > V1.EdgeState.EdgeRemoved)
            {
                throw new BadReplyException("the state of an edge is unknown");
            }
            return new EdgeInfo((EdgeState)(int)edge.State, (long)edge.TimeMs, AttributesOf(edge.Attributes));
        }

        private static NeighbourPageResult NeighboursOf(NeighbourPage page)
        {
            var neighbours = page.Neighbours
                .Select(each => new Neighbour(each.Node, (long)each.TimeMs, AttributesOf(each.Attributes))).ToList();
            IReadOnlyList<ulong> nodes = page.Nodes;
            if (neighbours.Count > 0)
            {
                nodes = neighbours.Select(each => each.Node).ToList();
            }
            return new NeighbourPageResult.Success(nodes, neighbours, page.Cursor);
        }

        private static IReadOnlyDictionary<string, ReadOnlyMemory<byte>> AttributesOf(
            List<V1.Replies.GraphAttribute> attributes)
        {
            var values = new Dictionary<string, ReadOnlyMemory<byte>>(StringComparer.Ordinal);
            foreach (var each in attributes)
            {
                values[each.Name] = each.Value;
            }
            return values;
        }

        private static IReadOnlyDictionary<string, ulong> FiguresOf(GraphStatsReply reply)
        {
            var figures = new Dictionary<string, ulong>(StringComparer.Ordinal);
            foreach (var each in reply.Figures)
            {
                figures[each.Name] = each.Value;
            }
            return figures;
        }
    }
}
