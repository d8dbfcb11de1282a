"""The calls of the synchronous client on topics, leases, records, leaderboards, graphs and tokens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any, Callable, Iterable, Mapping, Optional, Tuple, TypeVar, Union

from gannet import _calls as c
from gannet import _requests as q
from gannet import records
from gannet import results as r
from gannet._calls import Call
from gannet._engine import Scope
from gannet._engine_sync import SyncEngine
from gannet._graph import Graph
from gannet._proto import graph_pb2, leaderboards_pb2, records_pb2, tokens_pb2, topics_pb2
from gannet._requests import Bytes
from gannet._streams_sync import Subscription
from gannet.errors import CacheError, ErrorCode, error_of_client
from gannet.permissions import Permissions, permissions_of, validity_of
from gannet.records import BinValue, RecordOptions
from gannet.topics import TopicReader, value_of

R = TypeVar("R")

# The codes of a call whose deadline has passed.
_LATE = (ErrorCode.TIMEOUT, ErrorCode.CLIENT_QUEUE_TIMEOUT)


class ServiceCalls:
    """The calls of a client on the services beside that of items and caches."""

    _engine: SyncEngine
    _scope: Scope
    _caches_scope: Scope
    _default_ttl_ms: int

    def _call(self, call: Call[Any, R], request: Any) -> Union[R, CacheError]:
        return self._engine.call(call, request, self._scope)

    def _call_caches(self, call: Call[Any, R], request: Any) -> Union[R, CacheError]:
        return self._engine.call(call, request, self._caches_scope)

    def _ttl_ms(self, ttl: Optional[timedelta]) -> int:
        return self._default_ttl_ms if ttl is None else q.milliseconds(ttl)

    # Topics.

    def publish(self, topic: str, value: Bytes) -> r.DoneResult:
        """Sends a message to all subscribers of a topic: text if `value` is str, and bytes otherwise.

        A failed call is not repeated, because the subscribers may have received the message. A topic without
        subscribers drops its messages.
        """
        return self._call(c.PUBLISH, topics_pb2.PublishRequest(topic=q.text(topic), value=value_of(value)))

    def subscribe(self, topic: str, *, sequence: int = 0, page: int = 0) -> Union[Subscription, CacheError]:
        """Subscribes to a topic, and returns the subscription when the server has confirmed it.

        `sequence` is the number of the first message, and `page` its page: those after the last `TopicItem` of an
        earlier subscription continue it. Without them, the first message is the next one that is published.

        Raises ValueError if a number is negative.
        """
        reader = TopicReader(topic, sequence, page)
        return self._engine.open(Subscription(self._engine, c.SUBSCRIBE, reader, self._scope))

    # Leases.

    def lease_get(
        self, key: Bytes, *, recache: Optional[timedelta] = None, lease: Optional[timedelta] = None
    ) -> r.LeaseGetResult:
        """Returns the value of a key, or asks the caller to fill it: one caller gets LeaseWon, the others LeaseWait.

        - recache: a value that expires within this time is filled by one caller, while the others get it.
        - lease: the time for which the winner may fill the value (10 s without it); then another caller wins.
        """
        return self._call(c.LEASE_GET, q.lease_get(key, recache, lease))

    def lease_set(
        self, key: Bytes, token: int, value: Bytes, ttl: Optional[timedelta] = None
    ) -> r.LeaseSetResult:
        """Stores the value of the caller that won the lease with this token.

        If the value was changed or marked stale since then, the new one is stale: a caller fills it again.
        NotStored if the lease has ended, or the item was deleted.
        """
        return self._call(c.LEASE_SET, q.lease_set(key, token, value, self._ttl_ms(ttl)))

    def lease_stale(self, key: Bytes, ttl: Optional[timedelta] = None) -> r.FoundResult:
        """Marks a value stale: callers get it until one of them has filled it again. Miss if there is none.

        `ttl` is the time after which the stale value is gone; without it, the value has its own time to live.
        """
        request = records_pb2.LeaseStaleRequest(key=q.encoded(key), ttl_ms=q.milliseconds_or_0(ttl))
        return self._call(c.LEASE_STALE, request)

    def get_or_fill(
        self,
        key: Bytes,
        fill: Callable[[], Bytes],
        ttl: Optional[timedelta] = None,
        *,
        recache: Optional[timedelta] = None,
        lease: Optional[timedelta] = None,
    ) -> r.FilledResult:
        """Returns the value of a key. If there is none, one caller of all clients computes it by `fill`.

        The other callers get the old value if there is one, and otherwise wait for the new one until their deadline
        (TIMEOUT), which bounds all calls and waits together, without the time of `fill`. `recache` and `lease` are
        those of `lease_get`. A value that was computed is returned even if the server cannot store it. An exception of
        `fill` reaches the caller; another caller wins when the lease ends.
        """
        scope = self._scope
        deadline = monotonic() + scope.deadline_s
        delay_s = 0.002
        while True:
            found = self._engine.call(c.LEASE_GET, q.lease_get(key, recache, lease), scope)
            if isinstance(found, r.LeaseHit):
                return r.GetHit(found.value)
            if isinstance(found, r.LeaseWon):
                scope = replace(scope, deadline_s=max(0.0, deadline - monotonic()))
                value = q.encoded(fill())
                request = q.lease_set(key, found.token, value, self._ttl_ms(ttl))
                self._engine.call(c.LEASE_SET, request, scope)
                return r.GetHit(value)
            is_late = isinstance(found, CacheError) and scope is not self._scope and found.code in _LATE
            if isinstance(found, CacheError) and not is_late:
                return found
            if isinstance(found, r.LeaseWait) and found.stale_value is not None:
                return r.GetHit(found.stale_value)
            if is_late or monotonic() + delay_s >= deadline:
                return error_of_client(
                    ErrorCode.TIMEOUT,
                    c.LEASE_GET.method,
                    "another client had not filled the value before the deadline",
                    "raise the deadline above the time that filling takes, or pass a shorter lease",
                )
            self._engine.sleep(delay_s, self._scope)
            delay_s = min(2 * delay_s, 0.1)
            scope = replace(scope, deadline_s=max(0.0, deadline - monotonic()))

    # Records.

    def record_get(self, key: Bytes, bins: Optional[Iterable[str]] = None, *, filter: str = "") -> r.RecordResult:
        """Returns a record with all bins, or those named. Miss if there is no record, or the filter is false."""
        request = records_pb2.RecordGetRequest(key=q.encoded(key), filter=q.text(filter), bins=records.names_of(bins))
        found = self._call(c.RECORD_GET, request)
        if isinstance(found, r.RecordHit):
            # The reply does not repeat the key.
            return r.RecordHit(replace(found.record, key=request.key))
        return found

    def record_put(
        self, key: Bytes, bins: Mapping[str, BinValue], options: RecordOptions = records.ALWAYS
    ) -> r.RecordChangeResult:
        """Sets bins. The others stay, unless `options` replaces the record."""
        return self._call(c.RECORD_PUT, records.change_of(key, records.bins_of(bins), options))

    def record_add(
        self, key: Bytes, amounts: Mapping[str, Union[int, float]], options: RecordOptions = records.ALWAYS
    ) -> r.RecordChangeResult:
        """Adds to numbers. A bin that does not exist counts as 0."""
        return self._call(c.RECORD_ADD, records.change_of(key, records.bins_of(amounts), options))

    def record_append(
        self, key: Bytes, parts: Mapping[str, Bytes], options: RecordOptions = records.ALWAYS
    ) -> r.RecordChangeResult:
        """Appends to texts (str) and bytes. A bin that does not exist counts as empty."""
        return self._call(c.RECORD_APPEND, records.change_of(key, records.bins_of(parts), options))

    def record_touch(self, key: Bytes, options: RecordOptions = records.ALWAYS) -> r.RecordChangeResult:
        """Changes the time to live as `options` says, and the revision. The error NOT_FOUND_RECORD without record."""
        return self._call(c.RECORD_TOUCH, records.change_of(key, [], options))

    def record_delete(
        self, key: Bytes, *, if_revision: Optional[int] = None, if_revision_above: Optional[int] = None
    ) -> r.FoundResult:
        """Deletes a record. Miss if there is none; the error ABORTED if its revision is not as required."""
        request = records_pb2.RecordDeleteRequest(
            key=q.encoded(key),
            if_revision=records.revision_of(if_revision),
            if_revision_above=records.revision_of(if_revision_above),
        )
        return self._call(c.RECORD_DELETE, request)

    def record_scan(
        self,
        set: str,
        *,
        cursor: Optional[str] = None,
        count_max: int = 100,
        filter: str = "",
        bins: Optional[Iterable[str]] = None,
    ) -> r.RecordPageResult:
        """Returns a page of the records of a set: at most about `count_max` (4,096), from `cursor` on."""
        request = records_pb2.RecordScanRequest(
            set=q.text(set),
            cursor=q.text(cursor or ""),
            count_max=q.unsigned_32("count_max", count_max),
            filter=q.text(filter),
            bins=records.names_of(bins),
        )
        return self._call(c.RECORD_SCAN, request)

    def record_query(
        self,
        set: str,
        bin: str,
        *,
        equal: Optional[BinValue] = None,
        least: Optional[BinValue] = None,
        greatest: Optional[BinValue] = None,
        cursor: Optional[str] = None,
        count_max: int = 100,
        filter: str = "",
        bins: Optional[Iterable[str]] = None,
    ) -> r.RecordPageResult:
        """Returns a page of the records of a set whose bin is `equal`, or from `least` to `greatest`.

        The bin needs an index, which a Redis client creates by REC.INDEX CREATE. Raises ValueError unless there is
        either one value or a range.
        """
        request = records.query_of(set, bin, equal, least, greatest)
        request.cursor, request.filter = q.text(cursor or ""), q.text(filter)
        request.count_max = q.unsigned_32("count_max", count_max)
        request.bins.extend(records.names_of(bins))
        return self._call(c.RECORD_QUERY, request)

    # Leaderboards.

    def leaderboard_upsert(
        self, leaderboard: str, elements: Union[Mapping[int, float], Iterable[Tuple[int, float]]]
    ) -> r.DoneResult:
        """Adds elements, which are ids of 32 bits with scores, or sets the scores of present ones. At most 8,192."""
        pairs = elements.items() if isinstance(elements, Mapping) else elements
        scored = [leaderboards_pb2.LeaderboardElement(id=q.unsigned_32("id", id), score=score) for id, score in pairs]
        request = leaderboards_pb2.UpsertElementsRequest(leaderboard=q.text(leaderboard), elements=scored)
        return self._call(c.LEADERBOARD_UPSERT, request)

    def leaderboard_remove(self, leaderboard: str, ids: Iterable[int]) -> r.DoneResult:
        """Removes elements. An element that does not exist is no error."""
        request = leaderboards_pb2.LeaderboardIdsRequest(leaderboard=q.text(leaderboard), ids=q.ids_of(ids))
        return self._call(c.LEADERBOARD_REMOVE, request)

    def leaderboard_delete(self, leaderboard: str) -> r.DoneResult:
        """Deletes a leaderboard. One that does not exist is no error."""
        request = leaderboards_pb2.LeaderboardRequest(leaderboard=q.text(leaderboard))
        return self._call(c.LEADERBOARD_DELETE, request)

    def leaderboard_length(self, leaderboard: str) -> r.LengthAfterResult:
        """Returns the number of elements."""
        request = leaderboards_pb2.LeaderboardRequest(leaderboard=q.text(leaderboard))
        return self._call(c.LEADERBOARD_LENGTH, request)

    def leaderboard_get_by_rank(
        self, leaderboard: str, first: int, end: int, *, descending: bool = False
    ) -> r.RankedElementsResult:
        """Returns the elements from rank `first` to before `end`, at most 8,192."""
        ranks = leaderboards_pb2.GetByRankRequest.Ranks(
            first=q.unsigned_32("first", first), end=q.unsigned_32("end", end)
        )
        request = leaderboards_pb2.GetByRankRequest(
            leaderboard=q.text(leaderboard), ranks=ranks, order=q.order(descending)
        )
        return self._call(c.LEADERBOARD_GET_BY_RANK, request)

    def leaderboard_get_by_score(
        self,
        leaderboard: str,
        least: Optional[float] = None,
        end: Optional[float] = None,
        *,
        offset: int = 0,
        count_max: int = 8192,
        descending: bool = False,
    ) -> r.RankedElementsResult:
        """Returns the elements with scores from `least` to below `end`: at most `count_max`, after `offset` of them."""
        request = leaderboards_pb2.GetByScoreRequest(
            leaderboard=q.text(leaderboard),
            scores=q.leaderboard_scores(least, end),
            offset=q.unsigned_32("offset", offset),
            count_max=q.unsigned_32("count_max", count_max),
            order=q.order(descending),
        )
        return self._call(c.LEADERBOARD_GET_BY_SCORE, request)

    def leaderboard_get_rank(
        self, leaderboard: str, ids: Iterable[int], *, descending: bool = False
    ) -> r.RankedElementsResult:
        """Returns the ranks of elements in the order of `ids`, without those that do not exist."""
        request = leaderboards_pb2.LeaderboardIdsRequest(
            leaderboard=q.text(leaderboard), ids=q.ids_of(ids), order=q.order(descending)
        )
        return self._call(c.LEADERBOARD_GET_RANK, request)

    def leaderboard_get_competition_rank(
        self, leaderboard: str, ids: Iterable[int], *, descending: bool = True
    ) -> r.RankedElementsResult:
        """Returns the competition ranks of elements: those with the same score share the rank of the first of them."""
        request = leaderboards_pb2.CompetitionRankRequest(
            leaderboard=q.text(leaderboard), ids=q.ids_of(ids), order=q.order(descending)
        )
        return self._call(c.LEADERBOARD_GET_COMPETITION_RANK, request)

    # Graphs.

    def graph(self, name: str) -> Graph:
        """Returns an object with the calls on a graph. Its first `declare_type` creates the graph.

        Raises ValueError if the name is empty.
        """
        return Graph(self._engine, self._scope, name)

    def graph_store_stats(self) -> r.GraphStoreStatsResult:
        """Returns the figures of all graphs together, and their names. It needs the right to all graphs."""
        return self._call(c.GRAPH_STORE_STATS, graph_pb2.GraphStatsRequest())

    # Tokens, which only clients with all rights may issue.

    def generate_api_token(
        self, permissions: Permissions, *, expires: Optional[timedelta] = None, token_id: str = ""
    ) -> r.ApiTokenResult:
        """Returns a token with these permissions, and its refresh token. They never end without `expires`.

        `token_id` is the `publisher_id` of the messages that clients with this token publish.
        """
        request = tokens_pb2.GenerateApiTokenRequest(permissions=permissions_of(permissions), token_id=token_id)
        if expires is None:
            request.never.SetInParent()
        else:
            request.expires.CopyFrom(validity_of(expires))
        return self._call_caches(c.GENERATE_API_TOKEN, request)

    def refresh_api_token(self, token: str, refresh_token: str) -> r.ApiTokenResult:
        """Returns a token and a refresh token that replace these ones before they end, with the same permissions."""
        request = tokens_pb2.RefreshApiTokenRequest(token=token, refresh_token=refresh_token)
        return self._call_caches(c.REFRESH_API_TOKEN, request)

    def generate_disposable_token(
        self, permissions: Permissions, expires: timedelta, *, token_id: str = ""
    ) -> r.DisposableTokenResult:
        """Returns a token with these permissions for a given time, which cannot be refreshed."""
        request = tokens_pb2.GenerateDisposableTokenRequest(
            permissions=permissions_of(permissions), expires=validity_of(expires), token_id=token_id
        )
        return self._call_caches(c.GENERATE_DISPOSABLE_TOKEN, request)
