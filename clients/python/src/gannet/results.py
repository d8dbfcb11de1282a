"""Results of calls. Each call returns one of a small union of these types; none raises an exception for an error.

    match client.get("greeting"):
        case GetHit(value):
            print(value.decode())
        case Miss():
            print("not there")
        case CacheError() as error:
            print(error.message)

Every type has an `outcome`: `hit`, `miss`, `success`, `stored`, `not_stored`, `won`, `wait` (leases) or `error`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Dict, FrozenSet, List, Optional, Tuple, Union

from gannet.errors import CacheError
from gannet.graphs import EdgeState
from gannet.records import BinValue, Record


@dataclass(frozen=True)
class Success:
    """The call was executed, and has nothing to return."""

    outcome: ClassVar[str] = "success"


@dataclass(frozen=True)
class Miss:
    """The item, or the part of it that the call names, does not exist."""

    outcome: ClassVar[str] = "miss"


GetMiss = Miss


@dataclass(frozen=True)
class Stored:
    """The condition held, and the value was stored."""

    outcome: ClassVar[str] = "stored"


@dataclass(frozen=True)
class NotStored:
    """The condition did not hold, and nothing was changed."""

    outcome: ClassVar[str] = "not_stored"


@dataclass(frozen=True)
class StoredWithHash:
    """The condition held, and the value was stored; `hash` is that of the new value."""

    outcome: ClassVar[str] = "stored"
    hash: bytes


@dataclass(frozen=True)
class GetHit:
    """A value."""

    outcome: ClassVar[str] = "hit"
    value: bytes

    @property
    def value_string(self) -> str:
        """The value as text (UTF-8)."""
        return self.value.decode()


@dataclass(frozen=True)
class GetWithHashHit:
    """A value and its hash, which a later conditional set can name."""

    outcome: ClassVar[str] = "hit"
    value: bytes
    hash: bytes

    @property
    def value_string(self) -> str:
        """The value as text (UTF-8)."""
        return self.value.decode()


@dataclass(frozen=True)
class GetBatchSuccess:
    """One `GetHit` or `Miss` for each key, in the order of the keys."""

    outcome: ClassVar[str] = "success"
    results: Tuple[Union[GetHit, Miss], ...]

    @property
    def values(self) -> List[Optional[bytes]]:
        """The values in the order of the keys, with None for a key that does not exist."""
        return [result.value if isinstance(result, GetHit) else None for result in self.results]


@dataclass(frozen=True)
class KeysExistSuccess:
    """One bool for each key, in the order of the keys."""

    outcome: ClassVar[str] = "success"
    exists: Tuple[bool, ...]


@dataclass(frozen=True)
class IncrementSuccess:
    """The number after the increment."""

    outcome: ClassVar[str] = "success"
    value: int


@dataclass(frozen=True)
class TtlHit:
    """The time to live of an item, or None if it has none."""

    outcome: ClassVar[str] = "hit"
    remaining: Optional[timedelta]


class ItemType(enum.Enum):
    """Types of items."""

    VALUE = 0
    DICTIONARY = 1
    SET = 2
    LIST = 3
    SORTED_SET = 4


@dataclass(frozen=True)
class TypeHit:
    """The type of an item."""

    outcome: ClassVar[str] = "hit"
    item_type: ItemType


@dataclass(frozen=True)
class LengthHit:
    """The number of elements."""

    outcome: ClassVar[str] = "hit"
    length: int


@dataclass(frozen=True)
class LengthSuccess:
    """The number of elements after a change."""

    outcome: ClassVar[str] = "success"
    length: int


@dataclass(frozen=True)
class DictionaryFieldsHit:
    """One value for each field, in the order of the call, with None for a field that does not exist."""

    outcome: ClassVar[str] = "hit"
    values: Tuple[Optional[bytes], ...]


@dataclass(frozen=True)
class DictionaryHit:
    """All fields of a dictionary with their values."""

    outcome: ClassVar[str] = "hit"
    fields: Dict[bytes, bytes]

    @property
    def fields_string(self) -> Dict[str, str]:
        """The fields and their values as text (UTF-8)."""
        return {field.decode(): value.decode() for field, value in self.fields.items()}


@dataclass(frozen=True)
class SetHit:
    """Elements of a set."""

    outcome: ClassVar[str] = "hit"
    elements: FrozenSet[bytes]

    @property
    def elements_string(self) -> FrozenSet[str]:
        """The elements as text (UTF-8)."""
        return frozenset(element.decode() for element in self.elements)


@dataclass(frozen=True)
class ContainsHit:
    """One bool for each element, in the order of the call."""

    outcome: ClassVar[str] = "hit"
    contained: Tuple[bool, ...]


@dataclass(frozen=True)
class ListHit:
    """Elements of a list, in its order."""

    outcome: ClassVar[str] = "hit"
    elements: Tuple[bytes, ...]

    @property
    def elements_string(self) -> Tuple[str, ...]:
        """The elements as text (UTF-8)."""
        return tuple(element.decode() for element in self.elements)


@dataclass(frozen=True)
class PopHit:
    """The element that was removed from a list, and the length of the list without it."""

    outcome: ClassVar[str] = "hit"
    value: bytes
    length: int

    @property
    def value_string(self) -> str:
        """The element as text (UTF-8)."""
        return self.value.decode()


@dataclass(frozen=True)
class SortedSetHit:
    """Elements of a sorted set with their scores, in the order of the call."""

    outcome: ClassVar[str] = "hit"
    elements: Tuple[Tuple[bytes, float], ...]

    @property
    def elements_string(self) -> Tuple[Tuple[str, float], ...]:
        """The elements as text (UTF-8), with their scores."""
        return tuple((element.decode(), score) for element, score in self.elements)


@dataclass(frozen=True)
class ScoreHit:
    """The score of an element."""

    outcome: ClassVar[str] = "hit"
    score: float


@dataclass(frozen=True)
class ScoresHit:
    """One score for each element, in the order of the call, with None for an element that does not exist."""

    outcome: ClassVar[str] = "hit"
    scores: Tuple[Optional[float], ...]


@dataclass(frozen=True)
class ScoreSuccess:
    """The score of an element after a change."""

    outcome: ClassVar[str] = "success"
    score: float


@dataclass(frozen=True)
class RankHit:
    """The rank of an element; the first one has rank 0."""

    outcome: ClassVar[str] = "hit"
    rank: int


@dataclass(frozen=True)
class ListCachesSuccess:
    """The names of all caches."""

    outcome: ClassVar[str] = "success"
    names: Tuple[str, ...]


@dataclass(frozen=True)
class LeaseHit:
    """The current value."""

    outcome: ClassVar[str] = "hit"
    value: bytes

    @property
    def value_string(self) -> str:
        """The value as text (UTF-8)."""
        return self.value.decode()


@dataclass(frozen=True)
class LeaseWon:
    """This caller fills the value, and passes `token` to `lease_set`."""

    outcome: ClassVar[str] = "won"
    token: int
    stale_value: Optional[bytes]
    """The old value, or None if there is none."""


@dataclass(frozen=True)
class LeaseWait:
    """Another caller fills the value."""

    outcome: ClassVar[str] = "wait"
    stale_value: Optional[bytes]
    """The old value, or None if there is none."""


@dataclass(frozen=True)
class RecordHit:
    """A record for which the filter is true."""

    outcome: ClassVar[str] = "hit"
    record: Record

    @property
    def bins(self) -> Dict[str, BinValue]:
        """The bins of the record."""
        return self.record.bins


@dataclass(frozen=True)
class RecordChanged:
    """The revision of a record after a change."""

    outcome: ClassVar[str] = "success"
    revision: int


@dataclass(frozen=True)
class RecordPage:
    """Some of the records of a set."""

    outcome: ClassVar[str] = "success"
    records: Tuple[Record, ...]
    cursor: Optional[str]
    """The argument of the call that returns the next page, or None after the last one."""


@dataclass(frozen=True)
class RankedElement:
    """An element of a leaderboard. The first one has rank 0."""

    id: int
    rank: int
    score: float


@dataclass(frozen=True)
class RankedElements:
    """Elements of a leaderboard, in the order of the call."""

    outcome: ClassVar[str] = "success"
    elements: Tuple[RankedElement, ...]


@dataclass(frozen=True)
class ApiToken:
    """A signed token, and the refresh token by which `refresh_api_token` replaces both before they end."""

    outcome: ClassVar[str] = "success"
    token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    endpoint: str
    """The address under which the client knows the server."""
    valid_until: Optional[datetime]
    """The instant at which both tokens end, or None for never."""


@dataclass(frozen=True)
class DisposableToken:
    """A signed token that cannot be refreshed."""

    outcome: ClassVar[str] = "success"
    token: str = field(repr=False)
    endpoint: str
    """The address under which the client knows the server."""
    valid_until: Optional[datetime]
    """The instant at which the token ends."""


@dataclass(frozen=True)
class EdgesChanged:
    """The number of edges that a call changed."""

    outcome: ClassVar[str] = "success"
    changed: int
    """0 if all were so before, or newer changes exist. An attempt whose reply was lost may have changed them."""


@dataclass(frozen=True)
class EdgeInfo:
    """The state of an edge. Without an edge, the state is ABSENT, the time 0, and there are no attributes."""

    state: EdgeState
    time_ms: int
    """The time of its last change, in ms since 1970."""
    attributes: Dict[str, bytes]


@dataclass(frozen=True)
class EdgesFound:
    """The edges from a node to others, in the order of the call."""

    outcome: ClassVar[str] = "success"
    edges: Tuple[EdgeInfo, ...]


@dataclass(frozen=True)
class NodeCount:
    """The number of nodes that a query found."""

    outcome: ClassVar[str] = "success"
    count: int
    partial: bool = False
    """True if the budget did not suffice: there may be more."""


@dataclass(frozen=True)
class Neighbour:
    """A neighbour of a node, and the edge to it."""

    node: int
    time_ms: int
    """The time of the edge's last change, in ms since 1970."""
    attributes: Dict[str, bytes]


@dataclass(frozen=True)
class NeighbourPage:
    """Some of the neighbours of a node."""

    outcome: ClassVar[str] = "success"
    nodes: Tuple[int, ...]
    neighbours: Tuple[Neighbour, ...]
    """The nodes with their edges if the call asks for attributes; empty otherwise."""
    cursor: Optional[str]
    """The argument of the call that returns the next page, or None after the last one."""


@dataclass(frozen=True)
class MutualNodes:
    """Common neighbours of two nodes."""

    outcome: ClassVar[str] = "success"
    nodes: Tuple[int, ...]
    partial: bool
    """True if the budget did not suffice: there may be more."""


@dataclass(frozen=True)
class NodePage:
    """Some of the nodes that a query finds."""

    outcome: ClassVar[str] = "success"
    nodes: Tuple[int, ...]
    cursor: Optional[str]
    """The argument of the call that returns the next page, or None after the last one."""
    partial: bool = False
    """True if the budget did not suffice: there may be more."""


@dataclass(frozen=True)
class Distances:
    """The distances from a node to others, in the order of the call."""

    outcome: ClassVar[str] = "success"
    distances: Tuple[Optional[int], ...]
    """The number of edges to each node, or None if none of at most `distance_max` was found."""
    partial: bool
    """True if the budget did not suffice: a node may be nearer, or have a distance in place of None."""


@dataclass(frozen=True)
class Paths:
    """The shortest paths between two nodes, the shortest one first. Both ends are parts of each path."""

    outcome: ClassVar[str] = "success"
    paths: Tuple[Tuple[int, ...], ...]
    partial: bool
    """True if the budget did not suffice: there may be more, and shorter ones."""


@dataclass(frozen=True)
class Suggestion:
    """A node at distance 2, and the number of neighbours that it shares with the node of the call."""

    node: int
    common: int


@dataclass(frozen=True)
class Suggestions:
    """The nodes at distance 2 with the most common neighbours, the one with the most of them first."""

    outcome: ClassVar[str] = "success"
    suggestions: Tuple[Suggestion, ...]
    partial: bool
    """True if the budget did not suffice: others may have more common neighbours."""


@dataclass(frozen=True)
class NodeHit:
    """The type and the bins of a node."""

    outcome: ClassVar[str] = "hit"
    type: bytes
    bins: Dict[bytes, bytes]

    @property
    def type_string(self) -> str:
        """The type as text (UTF-8)."""
        return self.type.decode()

    @property
    def bins_string(self) -> Dict[str, str]:
        """The bins as text (UTF-8)."""
        return {name.decode(): value.decode() for name, value in self.bins.items()}


@dataclass(frozen=True)
class NodeChanged:
    """A change of a node."""

    outcome: ClassVar[str] = "success"
    changed: bool
    """False if the node was so before, or a newer change exists."""


@dataclass(frozen=True)
class GraphStats:
    """Figures of a graph, such as `nodes`, and the names of its edge types."""

    outcome: ClassVar[str] = "success"
    figures: Dict[str, int]
    types: Tuple[str, ...]


@dataclass(frozen=True)
class GraphStoreStats:
    """Figures of all graphs of a server together, and their names."""

    outcome: ClassVar[str] = "success"
    figures: Dict[str, int]
    graphs: Tuple[str, ...]


GraphAnswer = Union[
    EdgesFound, NodeCount, NeighbourPage, MutualNodes, NodePage, Distances, Paths, Suggestions, CacheError
]
"""The result of one query of several."""


@dataclass(frozen=True)
class GraphAnswers:
    """The results of several queries, in the order of the call. A query that failed has a CacheError in its place."""

    outcome: ClassVar[str] = "success"
    results: Tuple[GraphAnswer, ...]


GetResult = Union[GetHit, Miss, CacheError]
GetWithHashResult = Union[GetWithHashHit, Miss, CacheError]
GetBatchResult = Union[GetBatchSuccess, CacheError]
DoneResult = Union[Success, CacheError]
FoundResult = Union[Success, Miss, CacheError]
KeysExistResult = Union[KeysExistSuccess, CacheError]
IncrementResult = Union[IncrementSuccess, CacheError]
ConditionalSetResult = Union[Stored, NotStored, CacheError]
HashSetResult = Union[StoredWithHash, NotStored, CacheError]
UpdateTtlResult = Union[Stored, NotStored, Miss, CacheError]
TtlResult = Union[TtlHit, Miss, CacheError]
TypeResult = Union[TypeHit, Miss, CacheError]
LengthResult = Union[LengthHit, Miss, CacheError]
LengthAfterResult = Union[LengthSuccess, CacheError]
DictionaryFieldsResult = Union[DictionaryFieldsHit, Miss, CacheError]
DictionaryResult = Union[DictionaryHit, Miss, CacheError]
SetResult = Union[SetHit, Miss, CacheError]
ContainsResult = Union[ContainsHit, Miss, CacheError]
ListResult = Union[ListHit, Miss, CacheError]
PopResult = Union[PopHit, Miss, CacheError]
SortedSetResult = Union[SortedSetHit, Miss, CacheError]
ScoreResult = Union[ScoreHit, Miss, CacheError]
ScoresResult = Union[ScoresHit, Miss, CacheError]
ScoreAfterResult = Union[ScoreSuccess, CacheError]
RankResult = Union[RankHit, Miss, CacheError]
ListCachesResult = Union[ListCachesSuccess, CacheError]
LeaseGetResult = Union[LeaseHit, LeaseWon, LeaseWait, CacheError]
LeaseSetResult = Union[Stored, NotStored, CacheError]
FilledResult = Union[GetHit, CacheError]
RecordResult = Union[RecordHit, Miss, CacheError]
RecordChangeResult = Union[RecordChanged, CacheError]
RecordPageResult = Union[RecordPage, CacheError]
RankedElementsResult = Union[RankedElements, CacheError]
ApiTokenResult = Union[ApiToken, CacheError]
DisposableTokenResult = Union[DisposableToken, CacheError]
EdgesChangedResult = Union[EdgesChanged, CacheError]
EdgesResult = Union[EdgesFound, CacheError]
NodeCountResult = Union[NodeCount, CacheError]
NeighbourPageResult = Union[NeighbourPage, CacheError]
MutualNodesResult = Union[MutualNodes, CacheError]
NodePageResult = Union[NodePage, CacheError]
DistancesResult = Union[Distances, CacheError]
PathsResult = Union[Paths, CacheError]
SuggestionsResult = Union[Suggestions, CacheError]
NodeResult = Union[NodeHit, Miss, CacheError]
NodeChangedResult = Union[NodeChanged, CacheError]
GraphAnswersResult = Union[GraphAnswers, CacheError]
GraphStatsResult = Union[GraphStats, CacheError]
GraphStoreStatsResult = Union[GraphStoreStats, CacheError]
