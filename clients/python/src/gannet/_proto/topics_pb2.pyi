from gannet._proto import cache_pb2 as _cache_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicValue(_message.Message):
    __slots__ = ("text", "binary")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    text: str
    binary: bytes
    def __init__(self, text: _Optional[str] = ..., binary: _Optional[bytes] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("cache", "topic", "value")
    CACHE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    cache: str
    topic: str
    value: TopicValue
    def __init__(self, cache: _Optional[str] = ..., topic: _Optional[str] = ..., value: _Optional[_Union[TopicValue, _Mapping]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("cache", "topic", "sequence", "page")
    CACHE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    cache: str
    topic: str
    sequence: int
    page: int
    def __init__(self, cache: _Optional[str] = ..., topic: _Optional[str] = ..., sequence: _Optional[int] = ..., page: _Optional[int] = ...) -> None: ...

class TopicEvent(_message.Message):
    __slots__ = ("item", "discontinuity", "heartbeat")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    DISCONTINUITY_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    item: TopicItem
    discontinuity: TopicDiscontinuity
    heartbeat: TopicHeartbeat
    def __init__(self, item: _Optional[_Union[TopicItem, _Mapping]] = ..., discontinuity: _Optional[_Union[TopicDiscontinuity, _Mapping]] = ..., heartbeat: _Optional[_Union[TopicHeartbeat, _Mapping]] = ...) -> None: ...

class TopicItem(_message.Message):
    __slots__ = ("sequence", "value", "publisher_id", "page")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    value: TopicValue
    publisher_id: str
    page: int
    def __init__(self, sequence: _Optional[int] = ..., value: _Optional[_Union[TopicValue, _Mapping]] = ..., publisher_id: _Optional[str] = ..., page: _Optional[int] = ...) -> None: ...

class TopicDiscontinuity(_message.Message):
    __slots__ = ("last_sequence", "new_sequence", "new_page")
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NEW_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NEW_PAGE_FIELD_NUMBER: _ClassVar[int]
    last_sequence: int
    new_sequence: int
    new_page: int
    def __init__(self, last_sequence: _Optional[int] = ..., new_sequence: _Optional[int] = ..., new_page: _Optional[int] = ...) -> None: ...

class TopicHeartbeat(_message.Message):
    __slots__ = ("sequence", "page")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    page: int
    def __init__(self, sequence: _Optional[int] = ..., page: _Optional[int] = ...) -> None: ...
