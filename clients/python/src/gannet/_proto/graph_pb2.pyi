from gannet._proto import cache_pb2 as _cache_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EdgeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EDGE_ABSENT: _ClassVar[EdgeState]
    EDGE_LIVE: _ClassVar[EdgeState]
    EDGE_NEGATIVE: _ClassVar[EdgeState]
    EDGE_ARCHIVED: _ClassVar[EdgeState]
    EDGE_REMOVED: _ClassVar[EdgeState]
EDGE_ABSENT: EdgeState
EDGE_LIVE: EdgeState
EDGE_NEGATIVE: EdgeState
EDGE_ARCHIVED: EdgeState
EDGE_REMOVED: EdgeState

class DeclareTypeRequest(_message.Message):
    __slots__ = ("graph", "type", "undirected", "inverse_of", "sort_by_time", "cap", "attributes")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    UNDIRECTED_FIELD_NUMBER: _ClassVar[int]
    INVERSE_OF_FIELD_NUMBER: _ClassVar[int]
    SORT_BY_TIME_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    graph: str
    type: str
    undirected: bool
    inverse_of: str
    sort_by_time: bool
    cap: int
    attributes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, graph: _Optional[str] = ..., type: _Optional[str] = ..., undirected: bool = ..., inverse_of: _Optional[str] = ..., sort_by_time: bool = ..., cap: _Optional[int] = ..., attributes: _Optional[_Iterable[str]] = ...) -> None: ...

class GraphAttribute(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class EdgeChange(_message.Message):
    __slots__ = ("source", "type", "destination", "time_ms", "negative", "attributes")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    source: int
    type: str
    destination: int
    time_ms: int
    negative: bool
    attributes: _containers.RepeatedCompositeFieldContainer[GraphAttribute]
    def __init__(self, source: _Optional[int] = ..., type: _Optional[str] = ..., destination: _Optional[int] = ..., time_ms: _Optional[int] = ..., negative: bool = ..., attributes: _Optional[_Iterable[_Union[GraphAttribute, _Mapping]]] = ...) -> None: ...

class GraphChangeRequest(_message.Message):
    __slots__ = ("graph", "action", "type", "edges")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ADD: _ClassVar[GraphChangeRequest.Action]
        REMOVE: _ClassVar[GraphChangeRequest.Action]
        ARCHIVE: _ClassVar[GraphChangeRequest.Action]
        RESTORE: _ClassVar[GraphChangeRequest.Action]
    ADD: GraphChangeRequest.Action
    REMOVE: GraphChangeRequest.Action
    ARCHIVE: GraphChangeRequest.Action
    RESTORE: GraphChangeRequest.Action
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    graph: str
    action: GraphChangeRequest.Action
    type: str
    edges: _containers.RepeatedCompositeFieldContainer[EdgeChange]
    def __init__(self, graph: _Optional[str] = ..., action: _Optional[_Union[GraphChangeRequest.Action, str]] = ..., type: _Optional[str] = ..., edges: _Optional[_Iterable[_Union[EdgeChange, _Mapping]]] = ...) -> None: ...

class GraphChangeReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: int
    def __init__(self, changed: _Optional[int] = ...) -> None: ...

class GetEdgesRequest(_message.Message):
    __slots__ = ("graph", "source", "type", "destinations")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESTINATIONS_FIELD_NUMBER: _ClassVar[int]
    graph: str
    source: int
    type: str
    destinations: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, graph: _Optional[str] = ..., source: _Optional[int] = ..., type: _Optional[str] = ..., destinations: _Optional[_Iterable[int]] = ...) -> None: ...

class GraphEdge(_message.Message):
    __slots__ = ("state", "time_ms", "attributes")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    state: EdgeState
    time_ms: int
    attributes: _containers.RepeatedCompositeFieldContainer[GraphAttribute]
    def __init__(self, state: _Optional[_Union[EdgeState, str]] = ..., time_ms: _Optional[int] = ..., attributes: _Optional[_Iterable[_Union[GraphAttribute, _Mapping]]] = ...) -> None: ...

class GetEdgesReply(_message.Message):
    __slots__ = ("edges",)
    EDGES_FIELD_NUMBER: _ClassVar[int]
    edges: _containers.RepeatedCompositeFieldContainer[GraphEdge]
    def __init__(self, edges: _Optional[_Iterable[_Union[GraphEdge, _Mapping]]] = ...) -> None: ...

class GraphCountRequest(_message.Message):
    __slots__ = ("graph", "node", "type")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    graph: str
    node: int
    type: str
    def __init__(self, graph: _Optional[str] = ..., node: _Optional[int] = ..., type: _Optional[str] = ...) -> None: ...

class GraphCountReply(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class TimeRange(_message.Message):
    __slots__ = ("first_ms", "last_ms")
    FIRST_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_MS_FIELD_NUMBER: _ClassVar[int]
    first_ms: int
    last_ms: int
    def __init__(self, first_ms: _Optional[int] = ..., last_ms: _Optional[int] = ...) -> None: ...

class GraphRangeRequest(_message.Message):
    __slots__ = ("graph", "node", "type", "cursor", "limit", "times", "reverse", "with_attributes", "state")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    REVERSE_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    graph: str
    node: int
    type: str
    cursor: str
    limit: int
    times: TimeRange
    reverse: bool
    with_attributes: bool
    state: EdgeState
    def __init__(self, graph: _Optional[str] = ..., node: _Optional[int] = ..., type: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., times: _Optional[_Union[TimeRange, _Mapping]] = ..., reverse: bool = ..., with_attributes: bool = ..., state: _Optional[_Union[EdgeState, str]] = ...) -> None: ...

class Neighbour(_message.Message):
    __slots__ = ("node", "time_ms", "attributes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    node: int
    time_ms: int
    attributes: _containers.RepeatedCompositeFieldContainer[GraphAttribute]
    def __init__(self, node: _Optional[int] = ..., time_ms: _Optional[int] = ..., attributes: _Optional[_Iterable[_Union[GraphAttribute, _Mapping]]] = ...) -> None: ...

class NeighbourPage(_message.Message):
    __slots__ = ("cursor", "nodes", "neighbours")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    nodes: _containers.RepeatedScalarFieldContainer[int]
    neighbours: _containers.RepeatedCompositeFieldContainer[Neighbour]
    def __init__(self, cursor: _Optional[str] = ..., nodes: _Optional[_Iterable[int]] = ..., neighbours: _Optional[_Iterable[_Union[Neighbour, _Mapping]]] = ...) -> None: ...

class MutualRequest(_message.Message):
    __slots__ = ("graph", "first", "second", "type", "limit", "count_only", "budget")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    COUNT_ONLY_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    graph: str
    first: int
    second: int
    type: str
    limit: int
    count_only: bool
    budget: int
    def __init__(self, graph: _Optional[str] = ..., first: _Optional[int] = ..., second: _Optional[int] = ..., type: _Optional[str] = ..., limit: _Optional[int] = ..., count_only: bool = ..., budget: _Optional[int] = ...) -> None: ...

class MutualReply(_message.Message):
    __slots__ = ("partial", "count", "nodes")
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    partial: bool
    count: int
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partial: bool = ..., count: _Optional[int] = ..., nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class NodeList(_message.Message):
    __slots__ = ("node", "type")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    node: int
    type: str
    def __init__(self, node: _Optional[int] = ..., type: _Optional[str] = ...) -> None: ...

class CombineRequest(_message.Message):
    __slots__ = ("graph", "operation", "lists", "cursor", "limit")
    class Operation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INTERSECTION: _ClassVar[CombineRequest.Operation]
        UNION: _ClassVar[CombineRequest.Operation]
        DIFFERENCE: _ClassVar[CombineRequest.Operation]
    INTERSECTION: CombineRequest.Operation
    UNION: CombineRequest.Operation
    DIFFERENCE: CombineRequest.Operation
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    LISTS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    graph: str
    operation: CombineRequest.Operation
    lists: _containers.RepeatedCompositeFieldContainer[NodeList]
    cursor: str
    limit: int
    def __init__(self, graph: _Optional[str] = ..., operation: _Optional[_Union[CombineRequest.Operation, str]] = ..., lists: _Optional[_Iterable[_Union[NodeList, _Mapping]]] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class NodePage(_message.Message):
    __slots__ = ("cursor", "nodes")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cursor: _Optional[str] = ..., nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class DistanceRequest(_message.Message):
    __slots__ = ("graph", "source", "type", "destinations", "max", "budget")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESTINATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    graph: str
    source: int
    type: str
    destinations: _containers.RepeatedScalarFieldContainer[int]
    max: int
    budget: int
    def __init__(self, graph: _Optional[str] = ..., source: _Optional[int] = ..., type: _Optional[str] = ..., destinations: _Optional[_Iterable[int]] = ..., max: _Optional[int] = ..., budget: _Optional[int] = ...) -> None: ...

class DistanceReply(_message.Message):
    __slots__ = ("partial", "distances")
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    DISTANCES_FIELD_NUMBER: _ClassVar[int]
    partial: bool
    distances: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partial: bool = ..., distances: _Optional[_Iterable[int]] = ...) -> None: ...

class PathRequest(_message.Message):
    __slots__ = ("graph", "source", "destination", "type", "max", "k", "budget")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    graph: str
    source: int
    destination: int
    type: str
    max: int
    k: int
    budget: int
    def __init__(self, graph: _Optional[str] = ..., source: _Optional[int] = ..., destination: _Optional[int] = ..., type: _Optional[str] = ..., max: _Optional[int] = ..., k: _Optional[int] = ..., budget: _Optional[int] = ...) -> None: ...

class GraphPath(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class PathReply(_message.Message):
    __slots__ = ("partial", "paths")
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    partial: bool
    paths: _containers.RepeatedCompositeFieldContainer[GraphPath]
    def __init__(self, partial: bool = ..., paths: _Optional[_Iterable[_Union[GraphPath, _Mapping]]] = ...) -> None: ...

class SecondDegreeRequest(_message.Message):
    __slots__ = ("graph", "node", "type", "count_only", "cursor", "limit", "budget", "stale")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COUNT_ONLY_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    graph: str
    node: int
    type: str
    count_only: bool
    cursor: str
    limit: int
    budget: int
    stale: int
    def __init__(self, graph: _Optional[str] = ..., node: _Optional[int] = ..., type: _Optional[str] = ..., count_only: bool = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., budget: _Optional[int] = ..., stale: _Optional[int] = ...) -> None: ...

class SecondDegreeReply(_message.Message):
    __slots__ = ("partial", "count", "cursor", "nodes")
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    partial: bool
    count: int
    cursor: str
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partial: bool = ..., count: _Optional[int] = ..., cursor: _Optional[str] = ..., nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class SuggestRequest(_message.Message):
    __slots__ = ("graph", "node", "type", "k", "budget")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    graph: str
    node: int
    type: str
    k: int
    budget: int
    def __init__(self, graph: _Optional[str] = ..., node: _Optional[int] = ..., type: _Optional[str] = ..., k: _Optional[int] = ..., budget: _Optional[int] = ...) -> None: ...

class Suggestion(_message.Message):
    __slots__ = ("node", "common")
    NODE_FIELD_NUMBER: _ClassVar[int]
    COMMON_FIELD_NUMBER: _ClassVar[int]
    node: int
    common: int
    def __init__(self, node: _Optional[int] = ..., common: _Optional[int] = ...) -> None: ...

class SuggestReply(_message.Message):
    __slots__ = ("partial", "suggestions")
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    SUGGESTIONS_FIELD_NUMBER: _ClassVar[int]
    partial: bool
    suggestions: _containers.RepeatedCompositeFieldContainer[Suggestion]
    def __init__(self, partial: bool = ..., suggestions: _Optional[_Iterable[_Union[Suggestion, _Mapping]]] = ...) -> None: ...

class NodeRequest(_message.Message):
    __slots__ = ("graph", "node", "time_ms")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    graph: str
    node: int
    time_ms: int
    def __init__(self, graph: _Optional[str] = ..., node: _Optional[int] = ..., time_ms: _Optional[int] = ...) -> None: ...

class NodeBin(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class GraphNode(_message.Message):
    __slots__ = ("type", "bins")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BINS_FIELD_NUMBER: _ClassVar[int]
    type: bytes
    bins: _containers.RepeatedCompositeFieldContainer[NodeBin]
    def __init__(self, type: _Optional[bytes] = ..., bins: _Optional[_Iterable[_Union[NodeBin, _Mapping]]] = ...) -> None: ...

class GetNodeReply(_message.Message):
    __slots__ = ("found", "missing")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: GraphNode
    missing: _cache_pb2.Missing
    def __init__(self, found: _Optional[_Union[GraphNode, _Mapping]] = ..., missing: _Optional[_Union[_cache_pb2.Missing, _Mapping]] = ...) -> None: ...

class SetNodeRequest(_message.Message):
    __slots__ = ("graph", "node", "time_ms", "value")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    graph: str
    node: int
    time_ms: int
    value: GraphNode
    def __init__(self, graph: _Optional[str] = ..., node: _Optional[int] = ..., time_ms: _Optional[int] = ..., value: _Optional[_Union[GraphNode, _Mapping]] = ...) -> None: ...

class MarkNodeRequest(_message.Message):
    __slots__ = ("graph", "node", "time_ms", "archived")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    graph: str
    node: int
    time_ms: int
    archived: bool
    def __init__(self, graph: _Optional[str] = ..., node: _Optional[int] = ..., time_ms: _Optional[int] = ..., archived: bool = ...) -> None: ...

class NodeChangeReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: bool = ...) -> None: ...

class GraphQuery(_message.Message):
    __slots__ = ("get_edges", "count", "range", "mutual", "combine", "distance", "path", "second_degree", "suggest")
    GET_EDGES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    MUTUAL_FIELD_NUMBER: _ClassVar[int]
    COMBINE_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SECOND_DEGREE_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_FIELD_NUMBER: _ClassVar[int]
    get_edges: GetEdgesRequest
    count: GraphCountRequest
    range: GraphRangeRequest
    mutual: MutualRequest
    combine: CombineRequest
    distance: DistanceRequest
    path: PathRequest
    second_degree: SecondDegreeRequest
    suggest: SuggestRequest
    def __init__(self, get_edges: _Optional[_Union[GetEdgesRequest, _Mapping]] = ..., count: _Optional[_Union[GraphCountRequest, _Mapping]] = ..., range: _Optional[_Union[GraphRangeRequest, _Mapping]] = ..., mutual: _Optional[_Union[MutualRequest, _Mapping]] = ..., combine: _Optional[_Union[CombineRequest, _Mapping]] = ..., distance: _Optional[_Union[DistanceRequest, _Mapping]] = ..., path: _Optional[_Union[PathRequest, _Mapping]] = ..., second_degree: _Optional[_Union[SecondDegreeRequest, _Mapping]] = ..., suggest: _Optional[_Union[SuggestRequest, _Mapping]] = ...) -> None: ...

class GraphQueryRequest(_message.Message):
    __slots__ = ("graph", "queries")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    graph: str
    queries: _containers.RepeatedCompositeFieldContainer[GraphQuery]
    def __init__(self, graph: _Optional[str] = ..., queries: _Optional[_Iterable[_Union[GraphQuery, _Mapping]]] = ...) -> None: ...

class GraphQueryError(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class GraphQueryResult(_message.Message):
    __slots__ = ("get_edges", "count", "range", "mutual", "combine", "distance", "path", "second_degree", "suggest", "error")
    GET_EDGES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    MUTUAL_FIELD_NUMBER: _ClassVar[int]
    COMBINE_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SECOND_DEGREE_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    get_edges: GetEdgesReply
    count: GraphCountReply
    range: NeighbourPage
    mutual: MutualReply
    combine: NodePage
    distance: DistanceReply
    path: PathReply
    second_degree: SecondDegreeReply
    suggest: SuggestReply
    error: GraphQueryError
    def __init__(self, get_edges: _Optional[_Union[GetEdgesReply, _Mapping]] = ..., count: _Optional[_Union[GraphCountReply, _Mapping]] = ..., range: _Optional[_Union[NeighbourPage, _Mapping]] = ..., mutual: _Optional[_Union[MutualReply, _Mapping]] = ..., combine: _Optional[_Union[NodePage, _Mapping]] = ..., distance: _Optional[_Union[DistanceReply, _Mapping]] = ..., path: _Optional[_Union[PathReply, _Mapping]] = ..., second_degree: _Optional[_Union[SecondDegreeReply, _Mapping]] = ..., suggest: _Optional[_Union[SuggestReply, _Mapping]] = ..., error: _Optional[_Union[GraphQueryError, _Mapping]] = ...) -> None: ...

class GraphQueryReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[GraphQueryResult]
    def __init__(self, results: _Optional[_Iterable[_Union[GraphQueryResult, _Mapping]]] = ...) -> None: ...

class GraphStatsRequest(_message.Message):
    __slots__ = ("graph",)
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    graph: str
    def __init__(self, graph: _Optional[str] = ...) -> None: ...

class GraphFigure(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

class GraphStatsReply(_message.Message):
    __slots__ = ("figures", "graphs", "types")
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    figures: _containers.RepeatedCompositeFieldContainer[GraphFigure]
    graphs: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, figures: _Optional[_Iterable[_Union[GraphFigure, _Mapping]]] = ..., graphs: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[str]] = ...) -> None: ...
