"""The calls of the schema: their paths, their messages, and the results that they make of a reply.

A call is retried only if its repetition changes nothing. `Increment`, pushes, pops and the conditional sets are not:
the first attempt may have been executed although its reply was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Generic, List, Optional, TypeVar, Union

from gannet import _graph_replies as g
from gannet import results as r
from gannet._proto import (
    cache_pb2,
    cache_pb2_grpc,
    graph_pb2,
    graph_pb2_grpc,
    invalidations_pb2,
    invalidations_pb2_grpc,
    leaderboards_pb2,
    leaderboards_pb2_grpc,
    records_pb2,
    records_pb2_grpc,
    tokens_pb2,
    tokens_pb2_grpc,
    topics_pb2,
    topics_pb2_grpc,
)
from gannet._proto import cache_pb2 as m
from gannet._requests import BadReply
from gannet.records import record_of

P = TypeVar("P")
R = TypeVar("R")

# The server's time to live of an item without one: the largest 63-bit number.
_NO_TTL_MS = (1 << 63) - 1


@dataclass(frozen=True)
class Call(Generic[P, R]):
    """One call of the schema.

    `parse` makes the result of a reply, of the list of replies of a batch, or of one event of an endless stream.
    """

    index: int
    service: str
    method: str
    path: str
    parse: Callable[[P], R]
    idempotent: bool
    streams: bool
    hedges: bool


ALL: List[Call[Any, Any]] = []

_MESSAGES = (cache_pb2, graph_pb2, invalidations_pb2, leaderboards_pb2, records_pb2, tokens_pb2, topics_pb2)
_STUBS: Dict[str, Any] = {
    "Cache": cache_pb2_grpc.CacheStub,
    "Caches": cache_pb2_grpc.CachesStub,
    "Graph": graph_pb2_grpc.GraphStub,
    "Invalidations": invalidations_pb2_grpc.InvalidationsStub,
    "Leaderboards": leaderboards_pb2_grpc.LeaderboardsStub,
    "Leases": records_pb2_grpc.LeasesStub,
    "Records": records_pb2_grpc.RecordsStub,
    "Tokens": tokens_pb2_grpc.TokensStub,
    "Topics": topics_pb2_grpc.TopicsStub,
}
SERVICES = {name: service for each in _MESSAGES for name, service in each.DESCRIPTOR.services_by_name.items()}


def _of(
    service_name: str, method: str, parse: Callable[[P], R], idempotent: bool, hedges: bool = False
) -> Call[P, R]:
    service = SERVICES[service_name]
    call = Call(
        index=len(ALL),
        service=service_name,
        method=method,
        path=f"/{service.full_name}/{method}",
        parse=parse,
        idempotent=idempotent,
        streams=service.methods_by_name[method].server_streaming,
        hedges=hedges,
    )
    ALL.append(call)
    return call


def callables(channel: Any) -> List[Any]:
    """Returns the functions of a channel that send each call, by the index of the call. They are those of the stubs."""
    stubs = {name: stub(channel) for name, stub in _STUBS.items()}
    return [getattr(stubs[call.service], call.method) for call in ALL]


_MISS = r.Miss()
_SUCCESS = r.Success()
_STORED = r.Stored()
_NOT_STORED = r.NotStored()


def _get(reply: m.GetReply) -> Union[r.GetHit, r.Miss]:
    result = reply.result
    if result == 2:
        return r.GetHit(reply.value)
    if result == 3:
        return _MISS
    raise BadReply(f"the result of Get is {result}")


def _set(reply: m.SetReply) -> r.Success:
    if reply.result == m.RESULT_OK:
        return _SUCCESS
    raise BadReply(f"the result of Set is {reply.result}")


def _get_batch(replies: List[m.GetReply]) -> r.GetBatchSuccess:
    return r.GetBatchSuccess(tuple([_get(reply) for reply in replies]))


def _set_batch(replies: List[m.SetReply]) -> r.Success:
    for reply in replies:
        _set(reply)
    return _SUCCESS


def _done(reply: m.Done) -> r.Success:
    return _SUCCESS


def _keys_exist(reply: m.KeysExistReply) -> r.KeysExistSuccess:
    return r.KeysExistSuccess(tuple(reply.exists))


def _increment(reply: m.IncrementReply) -> r.IncrementSuccess:
    return r.IncrementSuccess(reply.value)


def _found(reply: Any, method: str) -> Any:
    """Returns the part `found` of a reply, or None if it is `missing`."""
    which = reply.WhichOneof("reply")
    if which == "found":
        return reply.found
    if which == "missing":
        return None
    raise BadReply(f"the reply to {method} is neither found nor missing")


def _get_with_hash(reply: m.GetWithHashReply) -> Union[r.GetWithHashHit, r.Miss]:
    found = _found(reply, "GetWithHash")
    return _MISS if found is None else r.GetWithHashHit(found.value, found.hash)


def _set_if(reply: m.SetIfReply) -> Union[r.Stored, r.NotStored]:
    which = reply.WhichOneof("reply")
    if which is None:
        raise BadReply("the reply to SetIf is empty")
    return _STORED if which == "stored" else _NOT_STORED


def _set_if_hash(reply: m.SetIfHashReply) -> Union[r.StoredWithHash, r.NotStored]:
    which = reply.WhichOneof("reply")
    if which is None:
        raise BadReply("the reply to SetIfHash is empty")
    return r.StoredWithHash(reply.stored.hash) if which == "stored" else _NOT_STORED


def _update_ttl(reply: m.UpdateTtlReply) -> Union[r.Stored, r.NotStored, r.Miss]:
    which = reply.WhichOneof("reply")
    if which is None:
        raise BadReply("the reply to UpdateTtl is empty")
    return _STORED if which == "set" else _NOT_STORED if which == "not_set" else _MISS


def _ttl(reply: m.ItemTtlReply) -> Union[r.TtlHit, r.Miss]:
    found = _found(reply, "ItemGetTtl")
    if found is None:
        return _MISS
    ms = found.remaining_ms
    # A timedelta has at most 999,999,999 days; a longer time to live is as good as none.
    return r.TtlHit(None if ms > timedelta.max // timedelta(milliseconds=1) else timedelta(milliseconds=ms))


def _type(reply: m.ItemTypeReply) -> Union[r.TypeHit, r.Miss]:
    found = _found(reply, "ItemGetType")
    return _MISS if found is None else r.TypeHit(r.ItemType(found.item_type))


def _length(reply: m.LengthReply) -> Union[r.LengthHit, r.Miss]:
    found = _found(reply, "a length")
    return _MISS if found is None else r.LengthHit(found.length)


def _dictionary_get(reply: m.DictionaryGetReply) -> Union[r.DictionaryFieldsHit, r.Miss]:
    found = _found(reply, "DictionaryGet")
    if found is None:
        return _MISS
    return r.DictionaryFieldsHit(tuple(item.value if item.result == m.RESULT_HIT else None for item in found.items))


def _dictionary_get_one(reply: m.DictionaryGetReply) -> Union[r.GetHit, r.Miss]:
    found = _found(reply, "DictionaryGet")
    if found is None:
        return _MISS
    if len(found.items) != 1:
        raise BadReply(f"{len(found.items)} fields in the reply to DictionaryGet of one field")
    return _get(found.items[0])


def _dictionary_fetch(reply: m.DictionaryFetchReply) -> Union[r.DictionaryHit, r.Miss]:
    found = _found(reply, "DictionaryFetch")
    return _MISS if found is None else r.DictionaryHit({item.field: item.value for item in found.items})


def _set_elements(reply: m.ElementsReply) -> Union[r.SetHit, r.Miss]:
    found = _found(reply, "a set")
    return _MISS if found is None else r.SetHit(frozenset(found.elements))


def _list_elements(reply: m.ElementsReply) -> Union[r.ListHit, r.Miss]:
    found = _found(reply, "ListFetch")
    return _MISS if found is None else r.ListHit(tuple(found.elements))


def _found_or_miss(reply: m.FoundReply) -> Union[r.Success, r.Miss]:
    return _MISS if _found(reply, "SetDifference") is None else _SUCCESS


def _contains(reply: m.SetContainsReply) -> Union[r.ContainsHit, r.Miss]:
    found = _found(reply, "SetContains")
    return _MISS if found is None else r.ContainsHit(tuple(found.contained))


def _list_length(reply: m.ListLengthReply) -> r.LengthSuccess:
    return r.LengthSuccess(reply.length)


def _pop(reply: m.ListPopReply) -> Union[r.PopHit, r.Miss]:
    found = _found(reply, "a pop")
    return _MISS if found is None else r.PopHit(found.value, found.length)


def _sorted_fetch(reply: m.SortedSetFetchReply) -> Union[r.SortedSetHit, r.Miss]:
    found = _found(reply, "SortedSetFetch")
    if found is None:
        return _MISS
    return r.SortedSetHit(tuple((element.value, element.score) for element in found.scored.elements))


def _scores(reply: m.ScoresReply) -> Union[r.ScoresHit, r.Miss]:
    found = _found(reply, "SortedSetGetScore")
    if found is None:
        return _MISS
    return r.ScoresHit(tuple(each.score if each.result == m.RESULT_HIT else None for each in found.elements))


def _score(reply: m.ScoresReply) -> Union[r.ScoreHit, r.Miss]:
    scores = _scores(reply)
    if isinstance(scores, r.Miss):
        return _MISS
    if len(scores.scores) != 1:
        raise BadReply(f"{len(scores.scores)} scores in the reply to SortedSetGetScore of one element")
    score = scores.scores[0]
    return _MISS if score is None else r.ScoreHit(score)


def _score_after(reply: m.ScoreReply) -> r.ScoreSuccess:
    return r.ScoreSuccess(reply.score)


def _rank(reply: m.RankReply) -> Union[r.RankHit, r.Miss]:
    which = reply.WhichOneof("reply")
    if which is None:
        raise BadReply("the reply to SortedSetGetRank is empty")
    return r.RankHit(reply.element.rank) if which == "element" and reply.element.result == m.RESULT_HIT else _MISS


def _lease_get(reply: records_pb2.LeaseGetReply) -> Union[r.LeaseHit, r.LeaseWon, r.LeaseWait]:
    value = reply.value if reply.HasField("value") else None
    if reply.state == records_pb2.LEASE_HIT:
        return r.LeaseHit(reply.value)
    if reply.state == records_pb2.LEASE_WON:
        return r.LeaseWon(reply.token, value)
    if reply.state == records_pb2.LEASE_WAIT:
        return r.LeaseWait(value)
    raise BadReply(f"the state of LeaseGet is {reply.state}")


def _lease_set(reply: records_pb2.LeaseSetReply) -> Union[r.Stored, r.NotStored]:
    return _STORED if reply.stored else _NOT_STORED


def _success_or_miss(reply: Any) -> Union[r.Success, r.Miss]:
    return _SUCCESS if reply.found else _MISS


def _record(reply: records_pb2.RecordGetReply) -> Union[r.RecordHit, r.Miss]:
    found = _found(reply, "RecordGet")
    return _MISS if found is None else r.RecordHit(record_of(found))


def _revision(reply: records_pb2.RecordRevision) -> r.RecordChanged:
    return r.RecordChanged(reply.revision)


def _page(reply: records_pb2.RecordPage) -> r.RecordPage:
    return r.RecordPage(tuple(record_of(each) for each in reply.records), reply.cursor or None)


def _ranked(reply: leaderboards_pb2.RankedElements) -> r.RankedElements:
    return r.RankedElements(tuple(r.RankedElement(each.id, each.rank, each.score) for each in reply.elements))


def _leaderboard_length(reply: leaderboards_pb2.LeaderboardLength) -> r.LengthSuccess:
    return r.LengthSuccess(reply.count)


def _instant(seconds: int) -> Optional[datetime]:
    return datetime.fromtimestamp(seconds, timezone.utc) if seconds else None


def _api_token(reply: tokens_pb2.ApiToken) -> r.ApiToken:
    return r.ApiToken(reply.token, reply.refresh_token, reply.endpoint, _instant(reply.valid_until))


def _disposable_token(reply: tokens_pb2.DisposableToken) -> r.DisposableToken:
    return r.DisposableToken(reply.token, reply.endpoint, _instant(reply.valid_until))


def _answers(reply: graph_pb2.GraphQueryReply) -> r.GraphAnswers:
    """Refuses a reply without its queries. `graph_queries.batch` returns the call with the function that reads it."""
    raise BadReply(f"{len(reply.results)} results of unknown queries")


def _event(message: Any) -> Any:
    """Returns a message of an endless stream, which the reader of the stream parses."""
    return message


def _caches(reply: m.ListCachesReply) -> r.ListCachesSuccess:
    return r.ListCachesSuccess(tuple(cache.name for cache in reply.caches))


GET = _of("Cache", "Get", _get, True, hedges=True)
SET = _of("Cache", "Set", _set, True)
GET_BATCH = _of("Cache", "GetBatch", _get_batch, True)
SET_BATCH = _of("Cache", "SetBatch", _set_batch, True)
DELETE = _of("Cache", "Delete", _done, True)
KEYS_EXIST = _of("Cache", "KeysExist", _keys_exist, True)
INCREMENT = _of("Cache", "Increment", _increment, False)
GET_WITH_HASH = _of("Cache", "GetWithHash", _get_with_hash, True)
SET_IF = _of("Cache", "SetIf", _set_if, False)
SET_IF_HASH = _of("Cache", "SetIfHash", _set_if_hash, False)
UPDATE_TTL = _of("Cache", "UpdateTtl", _update_ttl, False)
GET_TTL = _of("Cache", "ItemGetTtl", _ttl, True)
GET_TYPE = _of("Cache", "ItemGetType", _type, True)

DICTIONARY_GET = _of("Cache", "DictionaryGet", _dictionary_get, True)
DICTIONARY_GET_ONE = _of("Cache", "DictionaryGet", _dictionary_get_one, True)
DICTIONARY_FETCH = _of("Cache", "DictionaryFetch", _dictionary_fetch, True)
DICTIONARY_SET = _of("Cache", "DictionarySet", _done, True)
DICTIONARY_INCREMENT = _of("Cache", "DictionaryIncrement", _increment, False)
DICTIONARY_DELETE = _of("Cache", "DictionaryDelete", _done, True)
DICTIONARY_LENGTH = _of("Cache", "DictionaryLength", _length, True)

SET_FETCH = _of("Cache", "SetFetch", _set_elements, True)
SET_SAMPLE = _of("Cache", "SetSample", _set_elements, True)
SET_UNION = _of("Cache", "SetUnion", _done, True)
SET_REMOVE = _of("Cache", "SetDifference", _found_or_miss, True)
SET_SUBTRACT_FROM = _of("Cache", "SetDifference", _found_or_miss, False)
SET_CONTAINS = _of("Cache", "SetContains", _contains, True)
SET_LENGTH = _of("Cache", "SetLength", _length, True)
SET_POP = _of("Cache", "SetPop", _set_elements, False)

LIST_PUSH_FRONT = _of("Cache", "ListPushFront", _list_length, False)
LIST_PUSH_BACK = _of("Cache", "ListPushBack", _list_length, False)
LIST_CONCATENATE_FRONT = _of("Cache", "ListConcatenateFront", _list_length, False)
LIST_CONCATENATE_BACK = _of("Cache", "ListConcatenateBack", _list_length, False)
LIST_POP_FRONT = _of("Cache", "ListPopFront", _pop, False)
LIST_POP_BACK = _of("Cache", "ListPopBack", _pop, False)
LIST_REMOVE = _of("Cache", "ListRemove", _length, False)
LIST_FETCH = _of("Cache", "ListFetch", _list_elements, True)
LIST_RETAIN = _of("Cache", "ListRetain", _length, False)
LIST_LENGTH = _of("Cache", "ListLength", _length, True)

SORTED_SET_PUT = _of("Cache", "SortedSetPut", _done, True)
SORTED_SET_FETCH = _of("Cache", "SortedSetFetch", _sorted_fetch, True)
SORTED_SET_GET_SCORE = _of("Cache", "SortedSetGetScore", _scores, True)
SORTED_SET_GET_ONE_SCORE = _of("Cache", "SortedSetGetScore", _score, True)
SORTED_SET_REMOVE = _of("Cache", "SortedSetRemove", _done, True)
SORTED_SET_INCREMENT = _of("Cache", "SortedSetIncrement", _score_after, False)
SORTED_SET_GET_RANK = _of("Cache", "SortedSetGetRank", _rank, True)
SORTED_SET_LENGTH = _of("Cache", "SortedSetLength", _length, True)

CREATE_CACHE = _of("Caches", "CreateCache", _done, False)
DELETE_CACHE = _of("Caches", "DeleteCache", _done, False)
LIST_CACHES = _of("Caches", "ListCaches", _caches, True)
FLUSH_CACHE = _of("Caches", "FlushCache", _done, True)

PUBLISH = _of("Topics", "Publish", _done, False)
SUBSCRIBE = _of("Topics", "Subscribe", _event, True)

# A repeated LeaseGet would wait for the lease that its first attempt has won.
LEASE_GET = _of("Leases", "LeaseGet", _lease_get, False)
LEASE_SET = _of("Leases", "LeaseSet", _lease_set, False)
LEASE_STALE = _of("Leases", "LeaseStale", _success_or_miss, True)

# Each change of a record raises its revision.
RECORD_GET = _of("Records", "RecordGet", _record, True)
RECORD_PUT = _of("Records", "RecordPut", _revision, False)
RECORD_ADD = _of("Records", "RecordAdd", _revision, False)
RECORD_APPEND = _of("Records", "RecordAppend", _revision, False)
RECORD_TOUCH = _of("Records", "RecordTouch", _revision, False)
RECORD_DELETE = _of("Records", "RecordDelete", _success_or_miss, False)
RECORD_SCAN = _of("Records", "RecordScan", _page, True)
RECORD_QUERY = _of("Records", "RecordQuery", _page, True)

LEADERBOARD_UPSERT = _of("Leaderboards", "UpsertElements", _done, True)
LEADERBOARD_REMOVE = _of("Leaderboards", "RemoveElements", _done, True)
LEADERBOARD_DELETE = _of("Leaderboards", "DeleteLeaderboard", _done, True)
LEADERBOARD_LENGTH = _of("Leaderboards", "GetLeaderboardLength", _leaderboard_length, True)
LEADERBOARD_GET_BY_RANK = _of("Leaderboards", "GetByRank", _ranked, True)
LEADERBOARD_GET_BY_SCORE = _of("Leaderboards", "GetByScore", _ranked, True)
LEADERBOARD_GET_RANK = _of("Leaderboards", "GetRank", _ranked, True)
LEADERBOARD_GET_COMPETITION_RANK = _of("Leaderboards", "GetCompetitionRank", _ranked, True)

GENERATE_API_TOKEN = _of("Tokens", "GenerateApiToken", _api_token, False)
REFRESH_API_TOKEN = _of("Tokens", "RefreshApiToken", _api_token, False)
GENERATE_DISPOSABLE_TOKEN = _of("Tokens", "GenerateDisposableToken", _disposable_token, False)

GRAPH_DECLARE_TYPE = _of("Graph", "DeclareType", _done, True)
GRAPH_GET_EDGES = _of("Graph", "GetEdges", g.edges, True)
GRAPH_COUNT = _of("Graph", "Count", g.count, True)
GRAPH_RANGE = _of("Graph", "Range", g.neighbours, True)
GRAPH_MUTUAL = _of("Graph", "Mutual", g.mutual, True)
GRAPH_MUTUAL_COUNT = _of("Graph", "Mutual", g.count_with_budget, True)
GRAPH_COMBINE = _of("Graph", "Combine", g.combined, True)
GRAPH_DISTANCE = _of("Graph", "Distance", g.distances, True)
GRAPH_PATH = _of("Graph", "Path", g.paths, True)
GRAPH_SECOND_DEGREE = _of("Graph", "SecondDegree", g.second_degree, True)
GRAPH_SECOND_DEGREE_COUNT = _of("Graph", "SecondDegree", g.count_with_budget, True)
GRAPH_SUGGEST = _of("Graph", "Suggest", g.suggestions, True)
GRAPH_GET_NODE = _of("Graph", "GetNode", g.node, True)
GRAPH_QUERY = _of("Graph", "Query", _answers, True)
GRAPH_STATS = _of("Graph", "Stats", g.graph_stats, True)
GRAPH_STORE_STATS = _of("Graph", "Stats", g.store_stats, True)

# A change has the time of the server unless its caller states one. Its repetition would then be newer than a change of
# another client that was made meanwhile. With a time, a repetition changes nothing.
GRAPH_CHANGE = _of("Graph", "Change", g.changed, False)
GRAPH_CHANGE_AT = replace(GRAPH_CHANGE, idempotent=True)
GRAPH_SET_NODE = _of("Graph", "SetNode", g.node_changed, False)
GRAPH_SET_NODE_AT = replace(GRAPH_SET_NODE, idempotent=True)
GRAPH_REMOVE_NODE = _of("Graph", "RemoveNode", g.node_changed, False)
GRAPH_REMOVE_NODE_AT = replace(GRAPH_REMOVE_NODE, idempotent=True)
GRAPH_MARK_NODE = _of("Graph", "MarkNode", g.node_changed, False)
GRAPH_MARK_NODE_AT = replace(GRAPH_MARK_NODE, idempotent=True)

WATCH_KEYS = _of("Invalidations", "WatchKeys", _event, True)
