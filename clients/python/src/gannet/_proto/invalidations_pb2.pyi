from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchKeysRequest(_message.Message):
    __slots__ = ("prefixes",)
    PREFIXES_FIELD_NUMBER: _ClassVar[int]
    prefixes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, prefixes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ChangedKeys(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AllKeys(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchHeartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchKeysEvent(_message.Message):
    __slots__ = ("keys", "all", "heartbeat")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    keys: ChangedKeys
    all: AllKeys
    heartbeat: WatchHeartbeat
    def __init__(self, keys: _Optional[_Union[ChangedKeys, _Mapping]] = ..., all: _Optional[_Union[AllKeys, _Mapping]] = ..., heartbeat: _Optional[_Union[WatchHeartbeat, _Mapping]] = ...) -> None: ...
