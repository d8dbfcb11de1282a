from gannet._proto import cache_pb2 as _cache_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaderboardElement(_message.Message):
    __slots__ = ("id", "score")
    ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    id: int
    score: float
    def __init__(self, id: _Optional[int] = ..., score: _Optional[float] = ...) -> None: ...

class RankedElement(_message.Message):
    __slots__ = ("id", "rank", "score")
    ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    id: int
    rank: int
    score: float
    def __init__(self, id: _Optional[int] = ..., rank: _Optional[int] = ..., score: _Optional[float] = ...) -> None: ...

class RankedElements(_message.Message):
    __slots__ = ("elements",)
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[RankedElement]
    def __init__(self, elements: _Optional[_Iterable[_Union[RankedElement, _Mapping]]] = ...) -> None: ...

class LeaderboardRequest(_message.Message):
    __slots__ = ("leaderboard",)
    LEADERBOARD_FIELD_NUMBER: _ClassVar[int]
    leaderboard: str
    def __init__(self, leaderboard: _Optional[str] = ...) -> None: ...

class LeaderboardLength(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class UpsertElementsRequest(_message.Message):
    __slots__ = ("leaderboard", "elements")
    LEADERBOARD_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    leaderboard: str
    elements: _containers.RepeatedCompositeFieldContainer[LeaderboardElement]
    def __init__(self, leaderboard: _Optional[str] = ..., elements: _Optional[_Iterable[_Union[LeaderboardElement, _Mapping]]] = ...) -> None: ...

class LeaderboardIdsRequest(_message.Message):
    __slots__ = ("leaderboard", "ids", "order")
    LEADERBOARD_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    leaderboard: str
    ids: _containers.RepeatedScalarFieldContainer[int]
    order: _cache_pb2.Order
    def __init__(self, leaderboard: _Optional[str] = ..., ids: _Optional[_Iterable[int]] = ..., order: _Optional[_Union[_cache_pb2.Order, str]] = ...) -> None: ...

class GetByRankRequest(_message.Message):
    __slots__ = ("leaderboard", "ranks", "order")
    class Ranks(_message.Message):
        __slots__ = ("first", "end")
        FIRST_FIELD_NUMBER: _ClassVar[int]
        END_FIELD_NUMBER: _ClassVar[int]
        first: int
        end: int
        def __init__(self, first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...
    LEADERBOARD_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    leaderboard: str
    ranks: GetByRankRequest.Ranks
    order: _cache_pb2.Order
    def __init__(self, leaderboard: _Optional[str] = ..., ranks: _Optional[_Union[GetByRankRequest.Ranks, _Mapping]] = ..., order: _Optional[_Union[_cache_pb2.Order, str]] = ...) -> None: ...

class GetByScoreRequest(_message.Message):
    __slots__ = ("leaderboard", "scores", "offset", "count_max", "order")
    class Scores(_message.Message):
        __slots__ = ("unbounded_start", "least", "unbounded_end", "end")
        UNBOUNDED_START_FIELD_NUMBER: _ClassVar[int]
        LEAST_FIELD_NUMBER: _ClassVar[int]
        UNBOUNDED_END_FIELD_NUMBER: _ClassVar[int]
        END_FIELD_NUMBER: _ClassVar[int]
        unbounded_start: _cache_pb2.Condition
        least: float
        unbounded_end: _cache_pb2.Condition
        end: float
        def __init__(self, unbounded_start: _Optional[_Union[_cache_pb2.Condition, _Mapping]] = ..., least: _Optional[float] = ..., unbounded_end: _Optional[_Union[_cache_pb2.Condition, _Mapping]] = ..., end: _Optional[float] = ...) -> None: ...
    LEADERBOARD_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    COUNT_MAX_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    leaderboard: str
    scores: GetByScoreRequest.Scores
    offset: int
    count_max: int
    order: _cache_pb2.Order
    def __init__(self, leaderboard: _Optional[str] = ..., scores: _Optional[_Union[GetByScoreRequest.Scores, _Mapping]] = ..., offset: _Optional[int] = ..., count_max: _Optional[int] = ..., order: _Optional[_Union[_cache_pb2.Order, str]] = ...) -> None: ...

class CompetitionRankRequest(_message.Message):
    __slots__ = ("leaderboard", "ids", "order")
    LEADERBOARD_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    leaderboard: str
    ids: _containers.RepeatedScalarFieldContainer[int]
    order: _cache_pb2.Order
    def __init__(self, leaderboard: _Optional[str] = ..., ids: _Optional[_Iterable[int]] = ..., order: _Optional[_Union[_cache_pb2.Order, str]] = ...) -> None: ...
