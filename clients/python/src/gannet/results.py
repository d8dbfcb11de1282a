"""Results of calls. Each call returns one of a small union of these types; none raises an exception for an error.

    match client.get("greeting"):
        case GetHit(value):
            print(value.decode())
        case Miss():
            print("not there")
        case CacheError() as error:
            print(error.message)

Every type has an `outcome`: `hit`, `miss`, `success`, `stored`, `not_stored` or `error`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Dict, FrozenSet, List, Optional, Tuple, Union

from gannet.errors import CacheError


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
