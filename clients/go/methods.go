package gannet

import (
	"strings"

	pb "gannet.dev/client/gannetv1"
)

// graphPath is the start of the paths of calls on graphs.
const graphPath = "/gannet.v1.Graph/"

// method is one call of the schema. A call is retried only if its repetition changes nothing. Increments, pushes, pops
// and the conditional sets are not: the first attempt may have been executed although its reply was lost.
type method struct {
	index      int
	name       string
	path       string
	idempotent bool
	hedged     bool
}

var allMethods []*method

func repeated(path string) *method { return newMethod(path, true) }

func once(path string) *method { return newMethod(path, false) }

func newMethod(path string, idempotent bool) *method {
	name := path[strings.LastIndexByte(path, '/')+1:]
	created := &method{index: len(allMethods), name: name, path: path, idempotent: idempotent}
	allMethods = append(allMethods, created)
	return created
}

// hedgedGet returns the only method that may be sent a second time before its reply.
func hedgedGet() *method {
	get := repeated(pb.Cache_Get_FullMethodName)
	get.hedged = true
	return get
}

// onceOf returns a form of a call whose repetition would change more. Both count as one in metrics.
func onceOf(other *method) *method {
	form := *other
	form.idempotent = false
	return &form
}

// repeatedOf returns a form of a call whose repetition changes nothing. Both count as one in metrics.
func repeatedOf(other *method) *method {
	form := *other
	form.idempotent = true
	return &form
}

var (
	methodGet         = hedgedGet()
	methodSet         = repeated(pb.Cache_Set_FullMethodName)
	methodGetBatch    = repeated(pb.Cache_GetBatch_FullMethodName)
	methodSetBatch    = repeated(pb.Cache_SetBatch_FullMethodName)
	methodDelete      = repeated(pb.Cache_Delete_FullMethodName)
	methodKeysExist   = repeated(pb.Cache_KeysExist_FullMethodName)
	methodIncrement   = once(pb.Cache_Increment_FullMethodName)
	methodGetWithHash = repeated(pb.Cache_GetWithHash_FullMethodName)
	methodSetIf       = once(pb.Cache_SetIf_FullMethodName)
	methodSetIfHash   = once(pb.Cache_SetIfHash_FullMethodName)
	methodUpdateTTL   = once(pb.Cache_UpdateTtl_FullMethodName)
	methodGetTTL      = repeated(pb.Cache_ItemGetTtl_FullMethodName)
	methodGetType     = repeated(pb.Cache_ItemGetType_FullMethodName)

	methodDictionaryGet       = repeated(pb.Cache_DictionaryGet_FullMethodName)
	methodDictionaryFetch     = repeated(pb.Cache_DictionaryFetch_FullMethodName)
	methodDictionarySet       = repeated(pb.Cache_DictionarySet_FullMethodName)
	methodDictionaryIncrement = once(pb.Cache_DictionaryIncrement_FullMethodName)
	methodDictionaryDelete    = repeated(pb.Cache_DictionaryDelete_FullMethodName)
	methodDictionaryLength    = repeated(pb.Cache_DictionaryLength_FullMethodName)

	methodSetFetch        = repeated(pb.Cache_SetFetch_FullMethodName)
	methodSetSample       = repeated(pb.Cache_SetSample_FullMethodName)
	methodSetUnion        = repeated(pb.Cache_SetUnion_FullMethodName)
	methodSetRemove       = repeated(pb.Cache_SetDifference_FullMethodName)
	methodSetSubtractFrom = onceOf(methodSetRemove)
	methodSetContains     = repeated(pb.Cache_SetContains_FullMethodName)
	methodSetLength       = repeated(pb.Cache_SetLength_FullMethodName)
	methodSetPop          = once(pb.Cache_SetPop_FullMethodName)

	methodListPushFront        = once(pb.Cache_ListPushFront_FullMethodName)
	methodListPushBack         = once(pb.Cache_ListPushBack_FullMethodName)
	methodListConcatenateFront = once(pb.Cache_ListConcatenateFront_FullMethodName)
	methodListConcatenateBack  = once(pb.Cache_ListConcatenateBack_FullMethodName)
	methodListPopFront         = once(pb.Cache_ListPopFront_FullMethodName)
	methodListPopBack          = once(pb.Cache_ListPopBack_FullMethodName)
	methodListRemove           = once(pb.Cache_ListRemove_FullMethodName)
	methodListFetch            = repeated(pb.Cache_ListFetch_FullMethodName)
	methodListRetain           = once(pb.Cache_ListRetain_FullMethodName)
	methodListLength           = repeated(pb.Cache_ListLength_FullMethodName)

	methodSortedSetPut       = repeated(pb.Cache_SortedSetPut_FullMethodName)
	methodSortedSetFetch     = repeated(pb.Cache_SortedSetFetch_FullMethodName)
	methodSortedSetGetScore  = repeated(pb.Cache_SortedSetGetScore_FullMethodName)
	methodSortedSetRemove    = repeated(pb.Cache_SortedSetRemove_FullMethodName)
	methodSortedSetIncrement = once(pb.Cache_SortedSetIncrement_FullMethodName)
	methodSortedSetGetRank   = repeated(pb.Cache_SortedSetGetRank_FullMethodName)
	methodSortedSetLength    = repeated(pb.Cache_SortedSetLength_FullMethodName)

	methodPublish   = once(pb.Topics_Publish_FullMethodName)
	methodSubscribe = once(pb.Topics_Subscribe_FullMethodName)

	methodWatchKeys = once(pb.Invalidations_WatchKeys_FullMethodName)

	methodLeaseGet   = once(pb.Leases_LeaseGet_FullMethodName)
	methodLeaseSet   = once(pb.Leases_LeaseSet_FullMethodName)
	methodLeaseStale = repeated(pb.Leases_LeaseStale_FullMethodName)

	methodRecordGet    = repeated(pb.Records_RecordGet_FullMethodName)
	methodRecordPut    = once(pb.Records_RecordPut_FullMethodName)
	methodRecordAdd    = once(pb.Records_RecordAdd_FullMethodName)
	methodRecordAppend = once(pb.Records_RecordAppend_FullMethodName)
	methodRecordTouch  = once(pb.Records_RecordTouch_FullMethodName)
	methodRecordDelete = once(pb.Records_RecordDelete_FullMethodName)
	methodRecordScan   = repeated(pb.Records_RecordScan_FullMethodName)
	methodRecordQuery  = repeated(pb.Records_RecordQuery_FullMethodName)

	methodUpsertElements     = repeated(pb.Leaderboards_UpsertElements_FullMethodName)
	methodRemoveElements     = repeated(pb.Leaderboards_RemoveElements_FullMethodName)
	methodDeleteLeaderboard  = repeated(pb.Leaderboards_DeleteLeaderboard_FullMethodName)
	methodLeaderboardLength  = repeated(pb.Leaderboards_GetLeaderboardLength_FullMethodName)
	methodGetByRank          = repeated(pb.Leaderboards_GetByRank_FullMethodName)
	methodGetByScore         = repeated(pb.Leaderboards_GetByScore_FullMethodName)
	methodGetRank            = repeated(pb.Leaderboards_GetRank_FullMethodName)
	methodGetCompetitionRank = repeated(pb.Leaderboards_GetCompetitionRank_FullMethodName)

	methodGraphDeclareType  = repeated(pb.Graph_DeclareType_FullMethodName)
	methodGraphGetEdges     = repeated(pb.Graph_GetEdges_FullMethodName)
	methodGraphCount        = repeated(pb.Graph_Count_FullMethodName)
	methodGraphRange        = repeated(pb.Graph_Range_FullMethodName)
	methodGraphMutual       = repeated(pb.Graph_Mutual_FullMethodName)
	methodGraphCombine      = repeated(pb.Graph_Combine_FullMethodName)
	methodGraphDistance     = repeated(pb.Graph_Distance_FullMethodName)
	methodGraphPath         = repeated(pb.Graph_Path_FullMethodName)
	methodGraphSecondDegree = repeated(pb.Graph_SecondDegree_FullMethodName)
	methodGraphSuggest      = repeated(pb.Graph_Suggest_FullMethodName)
	methodGraphGetNode      = repeated(pb.Graph_GetNode_FullMethodName)
	methodGraphQuery        = repeated(pb.Graph_Query_FullMethodName)
	methodGraphStats        = repeated(pb.Graph_Stats_FullMethodName)
	// A change without a time has that of the server, so that a repetition may win over a change of another client.
	methodGraphChange       = once(pb.Graph_Change_FullMethodName)
	methodGraphChangeAt     = repeatedOf(methodGraphChange)
	methodGraphSetNode      = once(pb.Graph_SetNode_FullMethodName)
	methodGraphSetNodeAt    = repeatedOf(methodGraphSetNode)
	methodGraphRemoveNode   = once(pb.Graph_RemoveNode_FullMethodName)
	methodGraphRemoveNodeAt = repeatedOf(methodGraphRemoveNode)
	methodGraphMarkNode     = once(pb.Graph_MarkNode_FullMethodName)
	methodGraphMarkNodeAt   = repeatedOf(methodGraphMarkNode)

	methodGenerateAPIToken        = once(pb.Tokens_GenerateApiToken_FullMethodName)
	methodRefreshAPIToken         = once(pb.Tokens_RefreshApiToken_FullMethodName)
	methodGenerateDisposableToken = once(pb.Tokens_GenerateDisposableToken_FullMethodName)

	methodCreateCache = once(pb.Caches_CreateCache_FullMethodName)
	methodDeleteCache = once(pb.Caches_DeleteCache_FullMethodName)
	methodListCaches  = repeated(pb.Caches_ListCaches_FullMethodName)
	methodFlushCache  = repeated(pb.Caches_FlushCache_FullMethodName)
)
