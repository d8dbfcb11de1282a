"""Records: named bins with types, revisions, conditions and filters."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from gannet import _requests as q
from gannet._proto import records_pb2 as m
from gannet._requests import BadReply

BinValue = Union[bool, int, float, str, bytes, Sequence["BinValue"], Mapping[str, "BinValue"]]
"""The value of a bin: bool, int of 64 bits, finite float, str (text), bytes, list, or dict with keys of 1 to 63 bytes.

Lists and dicts nest up to eight levels. A value comes back with the type with which it was stored, except that bytes
within a list or dict come back as str if they are UTF-8.
"""

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


class RecordWhen(enum.Enum):
    """The cases in which a change of a record is executed."""

    ALWAYS = 0
    CREATE = 1
    """Only if the record does not exist; otherwise the error ALREADY_EXISTS."""
    UPDATE = 2
    """Only if the record exists; otherwise the error NOT_FOUND_RECORD."""
    REPLACE = 3
    """Always. All earlier bins are removed."""


@dataclass(frozen=True)
class RecordOptions:
    """Conditions and options of a change of a record. If a condition does not hold, the call returns an error."""

    when: RecordWhen = RecordWhen.ALWAYS
    ttl: Optional[timedelta] = None
    """Time to live, at least 1 ms. None leaves that of the record unchanged; a new record then has none."""
    persist: bool = False
    """True to remove the time to live."""
    if_revision: Optional[int] = None
    """The revision that the record must have, 0 for none; otherwise the error ABORTED."""
    if_revision_above: Optional[int] = None
    """A revision below that of the record; otherwise the error ABORTED."""
    set: str = ""
    """The set that a new record joins, and that a present one must be in; otherwise FAILED_PRECONDITION."""
    filter: str = ""
    """A filter such as `age >= 30` that must be true if the record exists; otherwise FAILED_PRECONDITION."""


ALWAYS = RecordOptions()


@dataclass(frozen=True)
class Record:
    """A record, with all bins or those that the call named."""

    key: bytes
    revision: int
    """Number of changes so far; a new record has 1."""
    expires_at: Optional[datetime]
    """The instant at which it expires, or None for never."""
    bins: Dict[str, BinValue]

    @property
    def key_string(self) -> str:
        """The key as text (UTF-8)."""
        return self.key.decode()


def name_bytes(name: str) -> bytes:
    """Returns the bytes of the name of a bin. Names that are not UTF-8 have surrogates, as file names have."""
    if not isinstance(name, str):
        raise TypeError(f"cannot use bin name {name!r}: it is {type(name).__name__}; give str")
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise q.bad_text(name, "use another name") from None


def _name(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def encoded(value: BinValue) -> m.BinValue:
    """Returns the message of a value. Raises TypeError for another type, and ValueError for an int beyond 64 bits."""
    if isinstance(value, bool):
        return m.BinValue(boolean=value)
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            raise ValueError(f"cannot store {value}: it is beyond 64 bits; store it as text")
        return m.BinValue(integer=value)
    if isinstance(value, float):
        return m.BinValue(number=value)
    if isinstance(value, str):
        return m.BinValue(text=q.text(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return m.BinValue(binary=bytes(value))
    if isinstance(value, Mapping):
        entries = [m.BinMap.Entry(key=name_bytes(key), value=encoded(each)) for key, each in value.items()]
        return m.BinValue(map=m.BinMap(entries=entries))
    if isinstance(value, Sequence):
        return m.BinValue(list=m.BinList(values=[encoded(each) for each in value]))
    raise TypeError(
        f"cannot store {type(value).__name__} in a bin: it is none of bool, int, float, str, bytes, list and dict; "
        "convert it first"
    )


def decoded(value: m.BinValue) -> BinValue:
    """Returns the value of a message."""
    kind = value.WhichOneof("kind")
    if kind is None:
        raise BadReply("a bin of a record has no value")
    if kind == "list":
        return [decoded(each) for each in value.list.values]
    if kind == "map":
        return {_name(entry.key): decoded(entry.value) for entry in value.map.entries}
    plain: BinValue = getattr(value, kind)
    return plain


def record_of(record: m.Record) -> Record:
    """Returns a record of a reply."""
    expires_at = None
    if record.expires_at_ms:
        expires_at = datetime.fromtimestamp(record.expires_at_ms / 1000, timezone.utc)
    bins = {_name(each.name): decoded(each.value) for each in record.bins}
    return Record(record.key, record.revision, expires_at, bins)


def bins_of(bins: Mapping[str, BinValue]) -> List[m.Bin]:
    """Returns the messages of several bins."""
    return [m.Bin(name=name_bytes(name), value=encoded(value)) for name, value in bins.items()]


def names_of(bins: Optional[Iterable[str]]) -> List[bytes]:
    """Returns the names of bins; none stands for all."""
    if isinstance(bins, (str, bytes)):
        raise TypeError("cannot read bins: a single str or bytes was passed; pass a list")
    return [] if bins is None else [name_bytes(name) for name in bins]


def revision_of(revision: Optional[int]) -> Optional[int]:
    """Returns the revision of a condition. Raises ValueError if no record can have it."""
    return None if revision is None else q.unsigned_32("revision", revision)


def change_of(key: q.Bytes, bins: List[m.Bin], options: RecordOptions) -> m.RecordChangeRequest:
    """Returns the request of a change. Raises ValueError if its options contradict each other."""
    if options.ttl is not None and options.persist:
        raise ValueError("cannot change record: both ttl and persist are set; set one of them")
    if options.ttl is not None and options.ttl < timedelta(milliseconds=1):
        raise ValueError(f"cannot use ttl {options.ttl}: it is below 1 ms; give at least 1 ms, or None")
    return m.RecordChangeRequest(
        key=q.encoded(key),
        bins=bins,
        ttl_ms=0 if options.ttl is None else q.milliseconds(options.ttl),
        persist=options.persist,
        when=options.when.value,  # type: ignore[arg-type]
        if_revision=revision_of(options.if_revision),
        if_revision_above=revision_of(options.if_revision_above),
        set=q.text(options.set),
        filter=q.text(options.filter),
    )


def query_of(
    set_name: str, bin_name: str, equal: Optional[BinValue], least: Optional[BinValue], greatest: Optional[BinValue]
) -> m.RecordQueryRequest:
    """Returns the request of a query. Raises ValueError unless it has either one value or a range."""
    if (equal is None) != (least is not None and greatest is not None) or (least is None) != (greatest is None):
        raise ValueError("cannot query records: give either equal, or both least and greatest")
    request = m.RecordQueryRequest(set=q.text(set_name), bin=name_bytes(bin_name))
    values: Dict[str, Any] = {"equal": equal, "least": least, "greatest": greatest}
    for field, value in values.items():
        if value is not None:
            getattr(request, field).CopyFrom(encoded(value))
    return request
