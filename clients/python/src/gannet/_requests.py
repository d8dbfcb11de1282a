"""Parts of requests: bytes of keys and values, times to live, ranges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Iterable, List, Mapping, Optional, Tuple, TypeVar, Union, cast

from gannet._proto import cache_pb2 as m
from gannet._proto import leaderboards_pb2, records_pb2

Bytes = Union[str, bytes]

V = TypeVar("V")
# The key type of a mapping is invariant: dict[str, V] is no Mapping[Union[str, bytes], V].
Pairs = Union[Mapping[str, V], Mapping[bytes, V], Mapping[Bytes, V], Iterable[Tuple[Bytes, V]]]

_MS = timedelta(milliseconds=1)
_DEADLINE_MAX = timedelta(days=3650)


class BadReply(Exception):
    """A reply contradicts the schema."""


@dataclass(frozen=True)
class CollectionTtl:
    """The time to live of a collection that a call changes.

    A change that creates the collection always sets its time to live. If `refresh` is true, the other changes set it
    too, so that the collection lives as long as it is written to. `ttl` None stands for the client's default.
    """

    ttl: Optional[timedelta] = None
    refresh: bool = True


REFRESH = CollectionTtl()


def encoded(data: Bytes) -> bytes:
    """Returns the bytes of a key, value, field or element.

    Raises TypeError unless it is str or bytes, and ValueError for a str that UTF-8 does not express.
    """
    if type(data) is bytes:
        return data
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError:
            raise bad_text(data, "pass bytes") from None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"cannot encode {type(data).__name__}: it is neither str nor bytes; convert it first")


def bad_text(text: str, alternative: str) -> ValueError:
    """Returns the error of a text that UTF-8 does not express."""
    return ValueError(
        f"cannot encode text {text!a}: it has a lone surrogate, which UTF-8 does not express; "
        f"correct the text, or {alternative}"
    )


def text(name: str) -> str:
    """Returns a name or filter. Raises TypeError unless it is str, and ValueError if UTF-8 does not express it."""
    if not isinstance(name, str):
        raise TypeError(f"cannot use name {name!r}: it is {type(name).__name__}; give str")
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise bad_text(name, "use another name") from None
    return name


def whole(name: str, value: int, least: int, greatest: int) -> int:
    """Returns a whole number. Raises ValueError if it is out of its range."""
    if least <= value <= greatest:
        return value
    raise ValueError(f"cannot use {name} {value}: it is out of range; give {least} to {greatest}")


def signed_32(name: str, value: int) -> int:
    """Returns a whole number of 32 bits with a sign."""
    return whole(name, value, -(1 << 31), (1 << 31) - 1)


def signed_64(name: str, value: int) -> int:
    """Returns a whole number of 64 bits with a sign."""
    return whole(name, value, -(1 << 63), (1 << 63) - 1)


def unsigned_32(name: str, value: int) -> int:
    """Returns a whole number of 32 bits."""
    return whole(name, value, 0, (1 << 32) - 1)


def unsigned_64(name: str, value: int) -> int:
    """Returns a whole number of 64 bits."""
    return whole(name, value, 0, (1 << 64) - 1)


def ids_of(ids: Iterable[int]) -> List[int]:
    """Returns the ids of elements of a leaderboard. Raises ValueError for one beyond 32 bits."""
    return [unsigned_32("id", id) for id in ids]


def pairs_of(pairs: Pairs[V]) -> Iterable[Tuple[Bytes, V]]:
    """Returns the pairs of a mapping or of an iterable."""
    return cast("Iterable[Tuple[Bytes, V]]", pairs.items() if isinstance(pairs, Mapping) else pairs)


def encoded_all(data: Iterable[Bytes]) -> List[bytes]:
    """Returns the bytes of each element. Raises TypeError if `data` is a single str or bytes."""
    if isinstance(data, (str, bytes)):
        raise TypeError("cannot encode elements: a single str or bytes was passed; pass a list")
    return [encoded(each) for each in data]


def deadline_s(deadline: timedelta) -> float:
    """Returns a deadline in seconds. One above 10 years is 10 years: grpcio takes a greater one for one that passed."""
    return min(deadline, _DEADLINE_MAX).total_seconds()


def milliseconds(ttl: timedelta) -> int:
    """Returns a time to live in milliseconds, at least 0. The server refuses 0."""
    return max(0, ttl // _MS)


def milliseconds_or_0(time: Optional[timedelta]) -> int:
    """Returns a time in milliseconds, and 0 for none. Raises ValueError below 1 ms, which 0 would not express."""
    if time is None:
        return 0
    if time < _MS:
        raise ValueError(f"cannot use time {time}: it is below 1 ms; give at least 1 ms, or None")
    return time // _MS


def leaderboard_scores(least: Optional[float], end: Optional[float]) -> leaderboards_pb2.GetByScoreRequest.Scores:
    """Returns a range of scores; None stands for no bound."""
    scores = leaderboards_pb2.GetByScoreRequest.Scores()
    if least is None:
        scores.unbounded_start.SetInParent()
    else:
        scores.least = least
    if end is None:
        scores.unbounded_end.SetInParent()
    else:
        scores.end = end
    return scores


def list_range(
    request: Union[m.ListFetchRequest, m.ListRetainRequest], first: Optional[int], end: Optional[int]
) -> None:
    """Sets the range of a request; None stands for the start or the end of the list."""
    if first is None:
        request.unbounded_start.SetInParent()
    else:
        request.first = signed_32("first", first)
    if end is None:
        request.unbounded_end.SetInParent()
    else:
        request.end = signed_32("end", end)


def by_index(first: Optional[int], end: Optional[int]) -> m.SortedSetFetchRequest.ByIndex:
    """Returns a range of ranks; None stands for the start or the end of the sorted set."""
    by = m.SortedSetFetchRequest.ByIndex()
    if first is None:
        by.unbounded_start.SetInParent()
    else:
        by.first = signed_32("first", first)
    if end is None:
        by.unbounded_end.SetInParent()
    else:
        by.end = signed_32("end", end)
    return by


def by_score(
    least: Optional[float],
    greatest: Optional[float],
    least_exclusive: bool,
    greatest_exclusive: bool,
    offset: int,
    count: Optional[int],
) -> m.SortedSetFetchRequest.ByScore:
    """Returns a range of scores; None stands for no bound, and for all elements."""
    by = m.SortedSetFetchRequest.ByScore(
        offset=unsigned_32("offset", offset), count=-1 if count is None else signed_32("count", count)
    )
    if least is None:
        by.unbounded_least.SetInParent()
    else:
        # `from` is a keyword of Python.
        getattr(by, "from").CopyFrom(m.SortedSetFetchRequest.Bound(score=least, exclusive=least_exclusive))
    if greatest is None:
        by.unbounded_greatest.SetInParent()
    else:
        by.to.CopyFrom(m.SortedSetFetchRequest.Bound(score=greatest, exclusive=greatest_exclusive))
    return by


def order(descending: bool) -> m.Order:
    """Returns the order of a sorted set."""
    return m.DESCENDING if descending else m.ASCENDING


def lease_get(key: Bytes, recache: Optional[timedelta], lease: Optional[timedelta]) -> records_pb2.LeaseGetRequest:
    """Returns the request of LeaseGet."""
    return records_pb2.LeaseGetRequest(
        key=encoded(key), recache_ms=milliseconds_or_0(recache), lease_ms=milliseconds_or_0(lease)
    )


def lease_set(key: Bytes, token: int, value: Bytes, ttl_ms: int) -> records_pb2.LeaseSetRequest:
    """Returns the request of LeaseSet."""
    return records_pb2.LeaseSetRequest(
        key=encoded(key), token=unsigned_64("token", token), value=encoded(value), ttl_ms=ttl_ms
    )
