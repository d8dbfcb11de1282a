from gannet._proto import cache_pb2 as _cache_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaseState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_STATE_UNSPECIFIED: _ClassVar[LeaseState]
    LEASE_HIT: _ClassVar[LeaseState]
    LEASE_WON: _ClassVar[LeaseState]
    LEASE_WAIT: _ClassVar[LeaseState]
LEASE_STATE_UNSPECIFIED: LeaseState
LEASE_HIT: LeaseState
LEASE_WON: LeaseState
LEASE_WAIT: LeaseState

class BinValue(_message.Message):
    __slots__ = ("integer", "number", "boolean", "text", "binary", "list", "map")
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    integer: int
    number: float
    boolean: bool
    text: str
    binary: bytes
    list: BinList
    map: BinMap
    def __init__(self, integer: _Optional[int] = ..., number: _Optional[float] = ..., boolean: bool = ..., text: _Optional[str] = ..., binary: _Optional[bytes] = ..., list: _Optional[_Union[BinList, _Mapping]] = ..., map: _Optional[_Union[BinMap, _Mapping]] = ...) -> None: ...

class BinList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[BinValue]
    def __init__(self, values: _Optional[_Iterable[_Union[BinValue, _Mapping]]] = ...) -> None: ...

class BinMap(_message.Message):
    __slots__ = ("entries",)
    class Entry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: bytes
        value: BinValue
        def __init__(self, key: _Optional[bytes] = ..., value: _Optional[_Union[BinValue, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[BinMap.Entry]
    def __init__(self, entries: _Optional[_Iterable[_Union[BinMap.Entry, _Mapping]]] = ...) -> None: ...

class Bin(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: BinValue
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[_Union[BinValue, _Mapping]] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("key", "revision", "expires_at_ms", "bins")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    BINS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    revision: int
    expires_at_ms: int
    bins: _containers.RepeatedCompositeFieldContainer[Bin]
    def __init__(self, key: _Optional[bytes] = ..., revision: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., bins: _Optional[_Iterable[_Union[Bin, _Mapping]]] = ...) -> None: ...

class RecordGetRequest(_message.Message):
    __slots__ = ("key", "filter", "bins")
    KEY_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    BINS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    filter: str
    bins: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, key: _Optional[bytes] = ..., filter: _Optional[str] = ..., bins: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RecordGetReply(_message.Message):
    __slots__ = ("found", "missing")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: Record
    missing: _cache_pb2.Missing
    def __init__(self, found: _Optional[_Union[Record, _Mapping]] = ..., missing: _Optional[_Union[_cache_pb2.Missing, _Mapping]] = ...) -> None: ...

class RecordChangeRequest(_message.Message):
    __slots__ = ("key", "bins", "ttl_ms", "persist", "when", "if_revision", "if_revision_above", "set", "filter")
    class When(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ALWAYS: _ClassVar[RecordChangeRequest.When]
        CREATE: _ClassVar[RecordChangeRequest.When]
        UPDATE: _ClassVar[RecordChangeRequest.When]
        REPLACE: _ClassVar[RecordChangeRequest.When]
    ALWAYS: RecordChangeRequest.When
    CREATE: RecordChangeRequest.When
    UPDATE: RecordChangeRequest.When
    REPLACE: RecordChangeRequest.When
    KEY_FIELD_NUMBER: _ClassVar[int]
    BINS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    PERSIST_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_ABOVE_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    bins: _containers.RepeatedCompositeFieldContainer[Bin]
    ttl_ms: int
    persist: bool
    when: RecordChangeRequest.When
    if_revision: int
    if_revision_above: int
    set: str
    filter: str
    def __init__(self, key: _Optional[bytes] = ..., bins: _Optional[_Iterable[_Union[Bin, _Mapping]]] = ..., ttl_ms: _Optional[int] = ..., persist: bool = ..., when: _Optional[_Union[RecordChangeRequest.When, str]] = ..., if_revision: _Optional[int] = ..., if_revision_above: _Optional[int] = ..., set: _Optional[str] = ..., filter: _Optional[str] = ...) -> None: ...

class RecordRevision(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class RecordDeleteRequest(_message.Message):
    __slots__ = ("key", "if_revision", "if_revision_above")
    KEY_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_ABOVE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    if_revision: int
    if_revision_above: int
    def __init__(self, key: _Optional[bytes] = ..., if_revision: _Optional[int] = ..., if_revision_above: _Optional[int] = ...) -> None: ...

class RecordDeleteReply(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: bool = ...) -> None: ...

class RecordScanRequest(_message.Message):
    __slots__ = ("set", "cursor", "count_max", "filter", "bins")
    SET_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    COUNT_MAX_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    BINS_FIELD_NUMBER: _ClassVar[int]
    set: str
    cursor: str
    count_max: int
    filter: str
    bins: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, set: _Optional[str] = ..., cursor: _Optional[str] = ..., count_max: _Optional[int] = ..., filter: _Optional[str] = ..., bins: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RecordQueryRequest(_message.Message):
    __slots__ = ("set", "bin", "equal", "least", "greatest", "cursor", "count_max", "filter", "bins")
    SET_FIELD_NUMBER: _ClassVar[int]
    BIN_FIELD_NUMBER: _ClassVar[int]
    EQUAL_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    GREATEST_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    COUNT_MAX_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    BINS_FIELD_NUMBER: _ClassVar[int]
    set: str
    bin: bytes
    equal: BinValue
    least: BinValue
    greatest: BinValue
    cursor: str
    count_max: int
    filter: str
    bins: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, set: _Optional[str] = ..., bin: _Optional[bytes] = ..., equal: _Optional[_Union[BinValue, _Mapping]] = ..., least: _Optional[_Union[BinValue, _Mapping]] = ..., greatest: _Optional[_Union[BinValue, _Mapping]] = ..., cursor: _Optional[str] = ..., count_max: _Optional[int] = ..., filter: _Optional[str] = ..., bins: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RecordPage(_message.Message):
    __slots__ = ("cursor", "records")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, cursor: _Optional[str] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...

class LeaseGetRequest(_message.Message):
    __slots__ = ("key", "recache_ms", "lease_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    RECACHE_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    recache_ms: int
    lease_ms: int
    def __init__(self, key: _Optional[bytes] = ..., recache_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class LeaseGetReply(_message.Message):
    __slots__ = ("state", "value", "token")
    STATE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    state: LeaseState
    value: bytes
    token: int
    def __init__(self, state: _Optional[_Union[LeaseState, str]] = ..., value: _Optional[bytes] = ..., token: _Optional[int] = ...) -> None: ...

class LeaseSetRequest(_message.Message):
    __slots__ = ("key", "token", "value", "ttl_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    token: int
    value: bytes
    ttl_ms: int
    def __init__(self, key: _Optional[bytes] = ..., token: _Optional[int] = ..., value: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class LeaseSetReply(_message.Message):
    __slots__ = ("stored",)
    STORED_FIELD_NUMBER: _ClassVar[int]
    stored: bool
    def __init__(self, stored: bool = ...) -> None: ...

class LeaseStaleRequest(_message.Message):
    __slots__ = ("key", "ttl_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    ttl_ms: int
    def __init__(self, key: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class LeaseStaleReply(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: bool = ...) -> None: ...
