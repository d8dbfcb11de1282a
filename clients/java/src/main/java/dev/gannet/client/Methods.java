package dev.gannet.client;

import com.google.protobuf.Message;
import dev.gannet.v1.ApiToken;
import dev.gannet.v1.CacheName;
import dev.gannet.v1.CombineRequest;
import dev.gannet.v1.CompetitionRankRequest;
import dev.gannet.v1.CountRequest;
import dev.gannet.v1.DeclareTypeRequest;
import dev.gannet.v1.DictionaryDeleteRequest;
import dev.gannet.v1.DictionaryFetchReply;
import dev.gannet.v1.DictionaryGetReply;
import dev.gannet.v1.DictionaryIncrementRequest;
import dev.gannet.v1.DictionarySetRequest;
import dev.gannet.v1.DisposableToken;
import dev.gannet.v1.DistanceReply;
import dev.gannet.v1.DistanceRequest;
import dev.gannet.v1.Done;
import dev.gannet.v1.ElementsReply;
import dev.gannet.v1.FieldsRequest;
import dev.gannet.v1.FoundReply;
import dev.gannet.v1.GenerateApiTokenRequest;
import dev.gannet.v1.GenerateDisposableTokenRequest;
import dev.gannet.v1.GetBatchRequest;
import dev.gannet.v1.GetByRankRequest;
import dev.gannet.v1.GetByScoreRequest;
import dev.gannet.v1.GetEdgesReply;
import dev.gannet.v1.GetEdgesRequest;
import dev.gannet.v1.GetNodeReply;
import dev.gannet.v1.GetReply;
import dev.gannet.v1.GetRequest;
import dev.gannet.v1.GetWithHashReply;
import dev.gannet.v1.GraphChangeReply;
import dev.gannet.v1.GraphChangeRequest;
import dev.gannet.v1.GraphCountReply;
import dev.gannet.v1.GraphCountRequest;
import dev.gannet.v1.GraphQueryReply;
import dev.gannet.v1.GraphQueryRequest;
import dev.gannet.v1.GraphRangeRequest;
import dev.gannet.v1.GraphStatsReply;
import dev.gannet.v1.GraphStatsRequest;
import dev.gannet.v1.IncrementReply;
import dev.gannet.v1.IncrementRequest;
import dev.gannet.v1.ItemTtlReply;
import dev.gannet.v1.ItemTypeReply;
import dev.gannet.v1.KeyRequest;
import dev.gannet.v1.KeysExistReply;
import dev.gannet.v1.KeysExistRequest;
import dev.gannet.v1.LeaderboardIdsRequest;
import dev.gannet.v1.LeaderboardLength;
import dev.gannet.v1.LeaderboardRequest;
import dev.gannet.v1.LeaseGetReply;
import dev.gannet.v1.LeaseGetRequest;
import dev.gannet.v1.LeaseSetReply;
import dev.gannet.v1.LeaseSetRequest;
import dev.gannet.v1.LeaseStaleReply;
import dev.gannet.v1.LeaseStaleRequest;
import dev.gannet.v1.LengthReply;
import dev.gannet.v1.ListCachesReply;
import dev.gannet.v1.ListCachesRequest;
import dev.gannet.v1.ListConcatenateRequest;
import dev.gannet.v1.ListFetchRequest;
import dev.gannet.v1.ListLengthReply;
import dev.gannet.v1.ListPopReply;
import dev.gannet.v1.ListPushRequest;
import dev.gannet.v1.ListRemoveRequest;
import dev.gannet.v1.ListRetainRequest;
import dev.gannet.v1.MarkNodeRequest;
import dev.gannet.v1.MutualReply;
import dev.gannet.v1.MutualRequest;
import dev.gannet.v1.NeighbourPage;
import dev.gannet.v1.NodeChangeReply;
import dev.gannet.v1.NodePage;
import dev.gannet.v1.NodeRequest;
import dev.gannet.v1.PathReply;
import dev.gannet.v1.PathRequest;
import dev.gannet.v1.PublishRequest;
import dev.gannet.v1.RankReply;
import dev.gannet.v1.RankedElements;
import dev.gannet.v1.RecordChangeRequest;
import dev.gannet.v1.RecordDeleteReply;
import dev.gannet.v1.RecordDeleteRequest;
import dev.gannet.v1.RecordGetReply;
import dev.gannet.v1.RecordGetRequest;
import dev.gannet.v1.RecordPage;
import dev.gannet.v1.RecordQueryRequest;
import dev.gannet.v1.RecordRevision;
import dev.gannet.v1.RecordScanRequest;
import dev.gannet.v1.RefreshApiTokenRequest;
import dev.gannet.v1.ScoreReply;
import dev.gannet.v1.ScoresReply;
import dev.gannet.v1.SecondDegreeReply;
import dev.gannet.v1.SecondDegreeRequest;
import dev.gannet.v1.SetBatchRequest;
import dev.gannet.v1.SetContainsReply;
import dev.gannet.v1.SetDifferenceRequest;
import dev.gannet.v1.SetIfHashReply;
import dev.gannet.v1.SetIfHashRequest;
import dev.gannet.v1.SetIfReply;
import dev.gannet.v1.SetIfRequest;
import dev.gannet.v1.SetNodeRequest;
import dev.gannet.v1.SetReply;
import dev.gannet.v1.SetRequest;
import dev.gannet.v1.SetUnionRequest;
import dev.gannet.v1.SortedSetFetchReply;
import dev.gannet.v1.SortedSetFetchRequest;
import dev.gannet.v1.SortedSetGetRankRequest;
import dev.gannet.v1.SortedSetIncrementRequest;
import dev.gannet.v1.SortedSetPutRequest;
import dev.gannet.v1.SortedSetRemoveRequest;
import dev.gannet.v1.SubscribeRequest;
import dev.gannet.v1.SuggestReply;
import dev.gannet.v1.SuggestRequest;
import dev.gannet.v1.UpdateTtlReply;
import dev.gannet.v1.UpdateTtlRequest;
import dev.gannet.v1.UpsertElementsRequest;
import dev.gannet.v1.WatchKeysEvent;
import dev.gannet.v1.WatchKeysRequest;
import io.grpc.MethodDescriptor.MethodType;

/**
 * The calls of the schema. A call is retried only if its repetition changes nothing. Increments, pushes, pops and the
 * conditional sets are not: the first attempt may have been executed although its reply was lost.
 */
final class Methods {
    static final Method<GetRequest, GetReply> GET =
            repeated("Cache/Get", GetRequest.getDefaultInstance(), GetReply.getDefaultInstance()).hedged();
    static final Method<SetRequest, SetReply> SET =
            repeated("Cache/Set", SetRequest.getDefaultInstance(), SetReply.getDefaultInstance());
    static final Method<GetBatchRequest, GetReply> GET_BATCH =
            repeatedStream("Cache/GetBatch", GetBatchRequest.getDefaultInstance(), GetReply.getDefaultInstance());
    static final Method<SetBatchRequest, SetReply> SET_BATCH =
            repeatedStream("Cache/SetBatch", SetBatchRequest.getDefaultInstance(), SetReply.getDefaultInstance());
    static final Method<KeyRequest, Done> DELETE =
            repeated("Cache/Delete", KeyRequest.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<KeysExistRequest, KeysExistReply> KEYS_EXIST =
            repeated("Cache/KeysExist", KeysExistRequest.getDefaultInstance(), KeysExistReply.getDefaultInstance());
    static final Method<IncrementRequest, IncrementReply> INCREMENT =
            once("Cache/Increment", IncrementRequest.getDefaultInstance(), IncrementReply.getDefaultInstance());
    static final Method<KeyRequest, GetWithHashReply> GET_WITH_HASH =
            repeated("Cache/GetWithHash", KeyRequest.getDefaultInstance(), GetWithHashReply.getDefaultInstance());
    static final Method<SetIfRequest, SetIfReply> SET_IF =
            once("Cache/SetIf", SetIfRequest.getDefaultInstance(), SetIfReply.getDefaultInstance());
    static final Method<SetIfHashRequest, SetIfHashReply> SET_IF_HASH =
            once("Cache/SetIfHash", SetIfHashRequest.getDefaultInstance(), SetIfHashReply.getDefaultInstance());
    static final Method<UpdateTtlRequest, UpdateTtlReply> UPDATE_TTL =
            once("Cache/UpdateTtl", UpdateTtlRequest.getDefaultInstance(), UpdateTtlReply.getDefaultInstance());
    static final Method<KeyRequest, ItemTtlReply> ITEM_GET_TTL =
            repeated("Cache/ItemGetTtl", KeyRequest.getDefaultInstance(), ItemTtlReply.getDefaultInstance());
    static final Method<KeyRequest, ItemTypeReply> ITEM_GET_TYPE =
            repeated("Cache/ItemGetType", KeyRequest.getDefaultInstance(), ItemTypeReply.getDefaultInstance());
    static final Method<FieldsRequest, DictionaryGetReply> DICTIONARY_GET =
            repeated(
                    "Cache/DictionaryGet", FieldsRequest.getDefaultInstance(), DictionaryGetReply.getDefaultInstance());
    static final Method<KeyRequest, DictionaryFetchReply> DICTIONARY_FETCH =
            repeated(
                    "Cache/DictionaryFetch", KeyRequest.getDefaultInstance(),
                    DictionaryFetchReply.getDefaultInstance());
    static final Method<DictionarySetRequest, Done> DICTIONARY_SET =
            repeated("Cache/DictionarySet", DictionarySetRequest.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<DictionaryIncrementRequest, IncrementReply> DICTIONARY_INCREMENT =
            once(
                    "Cache/DictionaryIncrement", DictionaryIncrementRequest.getDefaultInstance(),
                    IncrementReply.getDefaultInstance());
    static final Method<DictionaryDeleteRequest, Done> DICTIONARY_DELETE =
            repeated("Cache/DictionaryDelete", DictionaryDeleteRequest.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<KeyRequest, LengthReply> DICTIONARY_LENGTH =
            repeated("Cache/DictionaryLength", KeyRequest.getDefaultInstance(), LengthReply.getDefaultInstance());
    static final Method<KeyRequest, ElementsReply> SET_FETCH =
            repeated("Cache/SetFetch", KeyRequest.getDefaultInstance(), ElementsReply.getDefaultInstance());
    static final Method<CountRequest, ElementsReply> SET_SAMPLE =
            repeated("Cache/SetSample", CountRequest.getDefaultInstance(), ElementsReply.getDefaultInstance());
    static final Method<SetUnionRequest, Done> SET_UNION =
            repeated("Cache/SetUnion", SetUnionRequest.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<SetDifferenceRequest, FoundReply> SET_DIFFERENCE =
            repeated("Cache/SetDifference", SetDifferenceRequest.getDefaultInstance(), FoundReply.getDefaultInstance());
    /** A form of the call whose repetition would change more. Both count as one in metrics. */
    static final Method<SetDifferenceRequest, FoundReply> SET_SUBTRACT_FROM = SET_DIFFERENCE.once();
    static final Method<FieldsRequest, SetContainsReply> SET_CONTAINS =
            repeated("Cache/SetContains", FieldsRequest.getDefaultInstance(), SetContainsReply.getDefaultInstance());
    static final Method<KeyRequest, LengthReply> SET_LENGTH =
            repeated("Cache/SetLength", KeyRequest.getDefaultInstance(), LengthReply.getDefaultInstance());
    static final Method<CountRequest, ElementsReply> SET_POP =
            once("Cache/SetPop", CountRequest.getDefaultInstance(), ElementsReply.getDefaultInstance());
    static final Method<ListPushRequest, ListLengthReply> LIST_PUSH_FRONT =
            once("Cache/ListPushFront", ListPushRequest.getDefaultInstance(), ListLengthReply.getDefaultInstance());
    static final Method<ListPushRequest, ListLengthReply> LIST_PUSH_BACK =
            once("Cache/ListPushBack", ListPushRequest.getDefaultInstance(), ListLengthReply.getDefaultInstance());
    static final Method<ListConcatenateRequest, ListLengthReply> LIST_CONCATENATE_FRONT =
            once(
                    "Cache/ListConcatenateFront", ListConcatenateRequest.getDefaultInstance(),
                    ListLengthReply.getDefaultInstance());
    static final Method<ListConcatenateRequest, ListLengthReply> LIST_CONCATENATE_BACK =
            once(
                    "Cache/ListConcatenateBack", ListConcatenateRequest.getDefaultInstance(),
                    ListLengthReply.getDefaultInstance());
    static final Method<KeyRequest, ListPopReply> LIST_POP_FRONT =
            once("Cache/ListPopFront", KeyRequest.getDefaultInstance(), ListPopReply.getDefaultInstance());
    static final Method<KeyRequest, ListPopReply> LIST_POP_BACK =
            once("Cache/ListPopBack", KeyRequest.getDefaultInstance(), ListPopReply.getDefaultInstance());
    static final Method<ListRemoveRequest, LengthReply> LIST_REMOVE =
            once("Cache/ListRemove", ListRemoveRequest.getDefaultInstance(), LengthReply.getDefaultInstance());
    static final Method<ListFetchRequest, ElementsReply> LIST_FETCH =
            repeated("Cache/ListFetch", ListFetchRequest.getDefaultInstance(), ElementsReply.getDefaultInstance());
    static final Method<ListRetainRequest, LengthReply> LIST_RETAIN =
            once("Cache/ListRetain", ListRetainRequest.getDefaultInstance(), LengthReply.getDefaultInstance());
    static final Method<KeyRequest, LengthReply> LIST_LENGTH =
            repeated("Cache/ListLength", KeyRequest.getDefaultInstance(), LengthReply.getDefaultInstance());
    static final Method<SortedSetPutRequest, Done> SORTED_SET_PUT =
            repeated("Cache/SortedSetPut", SortedSetPutRequest.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<SortedSetFetchRequest, SortedSetFetchReply> SORTED_SET_FETCH =
            repeated(
                    "Cache/SortedSetFetch", SortedSetFetchRequest.getDefaultInstance(),
                    SortedSetFetchReply.getDefaultInstance());
    static final Method<FieldsRequest, ScoresReply> SORTED_SET_GET_SCORE =
            repeated("Cache/SortedSetGetScore", FieldsRequest.getDefaultInstance(), ScoresReply.getDefaultInstance());
    static final Method<SortedSetRemoveRequest, Done> SORTED_SET_REMOVE =
            repeated("Cache/SortedSetRemove", SortedSetRemoveRequest.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<SortedSetIncrementRequest, ScoreReply> SORTED_SET_INCREMENT =
            once(
                    "Cache/SortedSetIncrement", SortedSetIncrementRequest.getDefaultInstance(),
                    ScoreReply.getDefaultInstance());
    static final Method<SortedSetGetRankRequest, RankReply> SORTED_SET_GET_RANK =
            repeated(
                    "Cache/SortedSetGetRank", SortedSetGetRankRequest.getDefaultInstance(),
                    RankReply.getDefaultInstance());
    static final Method<KeyRequest, LengthReply> SORTED_SET_LENGTH =
            repeated("Cache/SortedSetLength", KeyRequest.getDefaultInstance(), LengthReply.getDefaultInstance());
    static final Method<CacheName, Done> CREATE_CACHE =
            once("Caches/CreateCache", CacheName.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<CacheName, Done> DELETE_CACHE =
            once("Caches/DeleteCache", CacheName.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<ListCachesRequest, ListCachesReply> LIST_CACHES =
            repeated("Caches/ListCaches", ListCachesRequest.getDefaultInstance(), ListCachesReply.getDefaultInstance());
    static final Method<CacheName, Done> FLUSH_CACHE =
            repeated("Caches/FlushCache", CacheName.getDefaultInstance(), Done.getDefaultInstance());

    static final Method<LeaseGetRequest, LeaseGetReply> LEASE_GET =
            once(
                    "Leases/LeaseGet",
                    LeaseGetRequest.getDefaultInstance(),
                    LeaseGetReply.getDefaultInstance());
    static final Method<LeaseSetRequest, LeaseSetReply> LEASE_SET =
            once(
                    "Leases/LeaseSet",
                    LeaseSetRequest.getDefaultInstance(),
                    LeaseSetReply.getDefaultInstance());
    static final Method<LeaseStaleRequest, LeaseStaleReply> LEASE_STALE =
            repeated(
                    "Leases/LeaseStale",
                    LeaseStaleRequest.getDefaultInstance(),
                    LeaseStaleReply.getDefaultInstance());
    static final Method<RecordGetRequest, RecordGetReply> RECORD_GET =
            repeated(
                    "Records/RecordGet",
                    RecordGetRequest.getDefaultInstance(),
                    RecordGetReply.getDefaultInstance());
    static final Method<RecordChangeRequest, RecordRevision> RECORD_PUT =
            once(
                    "Records/RecordPut",
                    RecordChangeRequest.getDefaultInstance(),
                    RecordRevision.getDefaultInstance());
    static final Method<RecordChangeRequest, RecordRevision> RECORD_ADD =
            once(
                    "Records/RecordAdd",
                    RecordChangeRequest.getDefaultInstance(),
                    RecordRevision.getDefaultInstance());
    static final Method<RecordChangeRequest, RecordRevision> RECORD_APPEND =
            once(
                    "Records/RecordAppend",
                    RecordChangeRequest.getDefaultInstance(),
                    RecordRevision.getDefaultInstance());
    static final Method<RecordChangeRequest, RecordRevision> RECORD_TOUCH =
            once(
                    "Records/RecordTouch",
                    RecordChangeRequest.getDefaultInstance(),
                    RecordRevision.getDefaultInstance());
    static final Method<RecordDeleteRequest, RecordDeleteReply> RECORD_DELETE =
            once(
                    "Records/RecordDelete",
                    RecordDeleteRequest.getDefaultInstance(),
                    RecordDeleteReply.getDefaultInstance());
    static final Method<RecordScanRequest, RecordPage> RECORD_SCAN =
            repeated(
                    "Records/RecordScan",
                    RecordScanRequest.getDefaultInstance(),
                    RecordPage.getDefaultInstance());
    static final Method<RecordQueryRequest, RecordPage> RECORD_QUERY =
            repeated(
                    "Records/RecordQuery",
                    RecordQueryRequest.getDefaultInstance(),
                    RecordPage.getDefaultInstance());
    static final Method<UpsertElementsRequest, Done> UPSERT_ELEMENTS =
            repeated(
                    "Leaderboards/UpsertElements",
                    UpsertElementsRequest.getDefaultInstance(),
                    Done.getDefaultInstance());
    static final Method<LeaderboardIdsRequest, Done> REMOVE_ELEMENTS =
            repeated(
                    "Leaderboards/RemoveElements",
                    LeaderboardIdsRequest.getDefaultInstance(),
                    Done.getDefaultInstance());
    static final Method<LeaderboardRequest, Done> DELETE_LEADERBOARD =
            repeated(
                    "Leaderboards/DeleteLeaderboard",
                    LeaderboardRequest.getDefaultInstance(),
                    Done.getDefaultInstance());
    static final Method<LeaderboardRequest, LeaderboardLength> GET_LEADERBOARD_LENGTH =
            repeated(
                    "Leaderboards/GetLeaderboardLength",
                    LeaderboardRequest.getDefaultInstance(),
                    LeaderboardLength.getDefaultInstance());
    static final Method<GetByRankRequest, RankedElements> GET_BY_RANK =
            repeated(
                    "Leaderboards/GetByRank",
                    GetByRankRequest.getDefaultInstance(),
                    RankedElements.getDefaultInstance());
    static final Method<GetByScoreRequest, RankedElements> GET_BY_SCORE =
            repeated(
                    "Leaderboards/GetByScore",
                    GetByScoreRequest.getDefaultInstance(),
                    RankedElements.getDefaultInstance());
    static final Method<LeaderboardIdsRequest, RankedElements> GET_RANK =
            repeated(
                    "Leaderboards/GetRank",
                    LeaderboardIdsRequest.getDefaultInstance(),
                    RankedElements.getDefaultInstance());
    static final Method<CompetitionRankRequest, RankedElements> GET_COMPETITION_RANK =
            repeated(
                    "Leaderboards/GetCompetitionRank",
                    CompetitionRankRequest.getDefaultInstance(),
                    RankedElements.getDefaultInstance());
    static final Method<GenerateApiTokenRequest, ApiToken> GENERATE_API_TOKEN =
            once(
                    "Tokens/GenerateApiToken",
                    GenerateApiTokenRequest.getDefaultInstance(),
                    ApiToken.getDefaultInstance());
    static final Method<RefreshApiTokenRequest, ApiToken> REFRESH_API_TOKEN =
            once(
                    "Tokens/RefreshApiToken",
                    RefreshApiTokenRequest.getDefaultInstance(),
                    ApiToken.getDefaultInstance());
    static final Method<GenerateDisposableTokenRequest, DisposableToken> GENERATE_DISPOSABLE_TOKEN =
            once(
                    "Tokens/GenerateDisposableToken",
                    GenerateDisposableTokenRequest.getDefaultInstance(),
                    DisposableToken.getDefaultInstance());
    static final Method<DeclareTypeRequest, Done> GRAPH_DECLARE_TYPE =
            repeated("Graph/DeclareType", DeclareTypeRequest.getDefaultInstance(), Done.getDefaultInstance());
    static final Method<GraphChangeRequest, GraphChangeReply> GRAPH_CHANGE =
            repeated("Graph/Change", GraphChangeRequest.getDefaultInstance(), GraphChangeReply.getDefaultInstance());
    /** A form of the call for edges without a time: the server would give each attempt another one. */
    static final Method<GraphChangeRequest, GraphChangeReply> GRAPH_CHANGE_ONCE = GRAPH_CHANGE.once();
    static final Method<GetEdgesRequest, GetEdgesReply> GRAPH_GET_EDGES =
            repeated("Graph/GetEdges", GetEdgesRequest.getDefaultInstance(), GetEdgesReply.getDefaultInstance());
    static final Method<GraphCountRequest, GraphCountReply> GRAPH_COUNT =
            repeated("Graph/Count", GraphCountRequest.getDefaultInstance(), GraphCountReply.getDefaultInstance());
    static final Method<GraphRangeRequest, NeighbourPage> GRAPH_RANGE =
            repeated("Graph/Range", GraphRangeRequest.getDefaultInstance(), NeighbourPage.getDefaultInstance());
    static final Method<MutualRequest, MutualReply> GRAPH_MUTUAL =
            repeated("Graph/Mutual", MutualRequest.getDefaultInstance(), MutualReply.getDefaultInstance());
    static final Method<CombineRequest, NodePage> GRAPH_COMBINE =
            repeated("Graph/Combine", CombineRequest.getDefaultInstance(), NodePage.getDefaultInstance());
    static final Method<DistanceRequest, DistanceReply> GRAPH_DISTANCE =
            repeated("Graph/Distance", DistanceRequest.getDefaultInstance(), DistanceReply.getDefaultInstance());
    static final Method<PathRequest, PathReply> GRAPH_PATH =
            repeated("Graph/Path", PathRequest.getDefaultInstance(), PathReply.getDefaultInstance());
    static final Method<SecondDegreeRequest, SecondDegreeReply> GRAPH_SECOND_DEGREE =
            repeated(
                    "Graph/SecondDegree",
                    SecondDegreeRequest.getDefaultInstance(),
                    SecondDegreeReply.getDefaultInstance());
    static final Method<SuggestRequest, SuggestReply> GRAPH_SUGGEST =
            repeated("Graph/Suggest", SuggestRequest.getDefaultInstance(), SuggestReply.getDefaultInstance());
    static final Method<NodeRequest, GetNodeReply> GRAPH_GET_NODE =
            repeated("Graph/GetNode", NodeRequest.getDefaultInstance(), GetNodeReply.getDefaultInstance());
    static final Method<SetNodeRequest, NodeChangeReply> GRAPH_SET_NODE =
            repeated("Graph/SetNode", SetNodeRequest.getDefaultInstance(), NodeChangeReply.getDefaultInstance());
    static final Method<NodeRequest, NodeChangeReply> GRAPH_REMOVE_NODE =
            repeated("Graph/RemoveNode", NodeRequest.getDefaultInstance(), NodeChangeReply.getDefaultInstance());
    static final Method<MarkNodeRequest, NodeChangeReply> GRAPH_MARK_NODE =
            repeated("Graph/MarkNode", MarkNodeRequest.getDefaultInstance(), NodeChangeReply.getDefaultInstance());
    static final Method<GraphQueryRequest, GraphQueryReply> GRAPH_QUERY =
            repeated("Graph/Query", GraphQueryRequest.getDefaultInstance(), GraphQueryReply.getDefaultInstance());
    static final Method<GraphStatsRequest, GraphStatsReply> GRAPH_STATS =
            repeated("Graph/Stats", GraphStatsRequest.getDefaultInstance(), GraphStatsReply.getDefaultInstance());
    static final Method<PublishRequest, Done> PUBLISH =
            once(
                    "Topics/Publish",
                    PublishRequest.getDefaultInstance(),
                    Done.getDefaultInstance());
    static final Method<SubscribeRequest, dev.gannet.v1.TopicEvent> SUBSCRIBE =
            endless(
                    "Topics/Subscribe",
                    SubscribeRequest.getDefaultInstance(),
                    dev.gannet.v1.TopicEvent.getDefaultInstance());
    static final Method<WatchKeysRequest, WatchKeysEvent> WATCH_KEYS =
            endless(
                    "Invalidations/WatchKeys",
                    WatchKeysRequest.getDefaultInstance(),
                    WatchKeysEvent.getDefaultInstance());

    private Methods() {}

    private static <Q extends Message, P extends Message> Method<Q, P> repeated(String path, Q request, P reply) {
        return Method.of(MethodType.UNARY, path, request, reply, true);
    }

    private static <Q extends Message, P extends Message> Method<Q, P> repeatedStream(String path, Q request, P reply) {
        return Method.of(MethodType.SERVER_STREAMING, path, request, reply, true);
    }

    /** A stream that the server does not end. A lost one is begun again by its own rules. */
    private static <Q extends Message, P extends Message> Method<Q, P> endless(String path, Q request, P reply) {
        return Method.of(MethodType.SERVER_STREAMING, path, request, reply, false);
    }

    private static <Q extends Message, P extends Message> Method<Q, P> once(String path, Q request, P reply) {
        return Method.of(MethodType.UNARY, path, request, reply, false);
    }
}
