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
