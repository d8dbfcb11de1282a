"""Queries of graphs, which are sent alone or several at once, and the changes of edges and nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Generic, Iterable, List, Optional, Sequence, Tuple, TypeVar, Union

import grpc

from gannet import _calls as c
from gannet import _requests as q
from gannet import graphs
from gannet import results as r
from gannet._calls import Call
from gannet._proto import graph_pb2 as m
from gannet._requests import BadReply, Bytes
from gannet.errors import CacheError
from gannet.graphs import EdgeState, SetOperation

R = TypeVar("R")

ErrorOf = Callable[[Call[Any, Any], grpc.StatusCode, Optional[str]], CacheError]

# The names of the calls in a request and a reply of several queries, by the names of the methods.
_PARTS = {
    "GetEdges": "get_edges",
    "Count": "count",
    "Range": "range",
    "Mutual": "mutual",
    "Combine": "combine",
    "Distance": "distance",
    "Path": "path",
    "SecondDegree": "second_degree",
    "Suggest": "suggest",
}
_STATUSES: Dict[int, grpc.StatusCode] = {status.value[0]: status for status in grpc.StatusCode}


@dataclass(frozen=True)
class GraphQuery(Generic[R]):
    """A query of a graph, of which `Graph.query` sends up to 64 in one request.

    The functions have the names and the arguments of the calls of `Graph`, which describe them:

        answers = graph.query([GraphQuery.count(1, "knows"), GraphQuery.distances(1, "knows", [4, 5])])
    """

    call: Call[Any, R]
    request: Any

    @staticmethod
    def get_edges(source: int, type: str, destinations: Iterable[int]) -> GraphQuery[r.EdgesFound]:
        """Reads the edges from a node to others."""
        request = m.GetEdgesRequest(
            source=graphs.node("source", source), type=q.text(type), destinations=graphs.destinations_of(destinations)
        )
        return GraphQuery(c.GRAPH_GET_EDGES, request)

    @staticmethod
    def count(node: int, type: str) -> GraphQuery[r.NodeCount]:
        """Reads the degree of a node."""
        return GraphQuery(c.GRAPH_COUNT, m.GraphCountRequest(node=graphs.node("node", node), type=q.text(type)))

    @staticmethod
    def neighbours(
        node: int,
        type: str,
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        times: Optional[Tuple[int, int]] = None,
        reverse: bool = False,
        with_attributes: bool = False,
        state: EdgeState = EdgeState.LIVE,
    ) -> GraphQuery[r.NeighbourPage]:
        """Reads a page of the neighbours of a node."""
        request = m.GraphRangeRequest(
            node=graphs.node("node", node),
            type=q.text(type),
            cursor=q.text(cursor or ""),
            limit=graphs.from_1("limit", limit),
            times=graphs.times_of(times),
            reverse=reverse,
            with_attributes=with_attributes,
            state=state.value,  # type: ignore[arg-type]
        )
        return GraphQuery(c.GRAPH_RANGE, request)

    @staticmethod
    def mutual(
        first: int, second: int, type: str, *, limit: Optional[int] = None, budget: Optional[int] = None
    ) -> GraphQuery[r.MutualNodes]:
        """Searches common neighbours of two nodes."""
        request = _mutual(first, second, type, budget)
        request.limit = graphs.from_1("limit", limit)
        return GraphQuery(c.GRAPH_MUTUAL, request)

    @staticmethod
    def mutual_count(first: int, second: int, type: str, *, budget: Optional[int] = None) -> GraphQuery[r.NodeCount]:
        """Counts the common neighbours of two nodes."""
        request = _mutual(first, second, type, budget)
        request.count_only = True
        return GraphQuery(c.GRAPH_MUTUAL_COUNT, request)

    @staticmethod
    def combine(
        operation: SetOperation,
        lists: Iterable[Tuple[int, str]],
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> GraphQuery[r.NodePage]:
        """Reads a page of the intersection, union or difference of lists of neighbours."""
        request = m.CombineRequest(
            operation=operation.value,  # type: ignore[arg-type]
            lists=[m.NodeList(node=graphs.node("node", node), type=q.text(type)) for node, type in lists],
            cursor=q.text(cursor or ""),
            limit=graphs.from_1("limit", limit),
        )
        return GraphQuery(c.GRAPH_COMBINE, request)

    @staticmethod
    def distances(
        source: int,
        type: str,
        destinations: Iterable[int],
        *,
        distance_max: Optional[int] = None,
        budget: Optional[int] = None,
    ) -> GraphQuery[r.Distances]:
        """Searches the distance from a node to each of others."""
        request = m.DistanceRequest(
            source=graphs.node("source", source),
            type=q.text(type),
            destinations=graphs.destinations_of(destinations),
            max=graphs.from_1("distance_max", distance_max),
            budget=graphs.from_1("budget", budget),
        )
        return GraphQuery(c.GRAPH_DISTANCE, request)

    @staticmethod
    def paths(
        source: int,
        destination: int,
        type: str,
        *,
        distance_max: Optional[int] = None,
        k: Optional[int] = None,
        budget: Optional[int] = None,
    ) -> GraphQuery[r.Paths]:
        """Searches the k shortest paths between two nodes."""
        request = m.PathRequest(
            source=graphs.node("source", source),
            destination=graphs.node("destination", destination),
            type=q.text(type),
            max=graphs.from_1("distance_max", distance_max),
            k=graphs.from_1("k", k),
            budget=graphs.from_1("budget", budget),
        )
        return GraphQuery(c.GRAPH_PATH, request)

    @staticmethod
    def second_degree(
        node: int,
        type: str,
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        budget: Optional[int] = None,
        stale: int = 0,
    ) -> GraphQuery[r.NodePage]:
        """Searches a page of the nodes at distance 2."""
        request = _second_degree(node, type, budget, stale)
        request.cursor, request.limit = q.text(cursor or ""), graphs.from_1("limit", limit)
        return GraphQuery(c.GRAPH_SECOND_DEGREE, request)

    @staticmethod
    def second_degree_count(
        node: int, type: str, *, budget: Optional[int] = None, stale: int = 0
    ) -> GraphQuery[r.NodeCount]:
        """Counts the nodes at distance 2."""
        request = _second_degree(node, type, budget, stale)
        request.count_only = True
        return GraphQuery(c.GRAPH_SECOND_DEGREE_COUNT, request)

    @staticmethod
    def suggest(
        node: int, type: str, *, k: Optional[int] = None, budget: Optional[int] = None
    ) -> GraphQuery[r.Suggestions]:
        """Searches the nodes at distance 2 with the most common neighbours."""
        request = m.SuggestRequest(
            node=graphs.node("node", node),
            type=q.text(type),
            k=graphs.from_1("k", k),
            budget=graphs.from_1("budget", budget),
        )
        return GraphQuery(c.GRAPH_SUGGEST, request)

    def in_graph(self, name: str) -> GraphQuery[R]:
        """Returns the same query of another graph than that of the request."""
        return self._with(graph=graphs.graph_name(name))

    def after(self, page: object) -> Optional[GraphQuery[R]]:
        """Returns the query of the page after `page`, or None if it was the last one or an error."""
        cursor = getattr(page, "cursor", None)
        return None if cursor is None else self._with(cursor=cursor)

    def alone(self, graph: str) -> Any:
        """Returns the request of a call that is this query alone. `graph` is its graph unless it names one."""
        return self.request if self.request.graph else self._with(graph=graph).request

    def _with(self, **fields: str) -> GraphQuery[R]:
        request = type(self.request)()
        request.CopyFrom(self.request)
        for name, value in fields.items():
            setattr(request, name, value)
        return replace(self, request=request)


def _mutual(first: int, second: int, type: str, budget: Optional[int]) -> m.MutualRequest:
    return m.MutualRequest(
        first=graphs.node("first", first),
        second=graphs.node("second", second),
        type=q.text(type),
        budget=graphs.from_1("budget", budget),
    )


def _second_degree(node: int, type: str, budget: Optional[int], stale: int) -> m.SecondDegreeRequest:
    return m.SecondDegreeRequest(
        node=graphs.node("node", node),
        type=q.text(type),
        budget=graphs.from_1("budget", budget),
        stale=q.unsigned_64("stale", stale),
    )


def batch(
    graph: str, queries: Iterable[GraphQuery[Any]], error_of: ErrorOf
) -> Tuple[Call[m.GraphQueryReply, r.GraphAnswers], m.GraphQueryRequest]:
    """Returns the call and the request of several queries. `error_of` makes the error of one that fails."""
    asked = list(queries)
    parts = [m.GraphQuery(**{_PARTS[each.call.method]: each.request}) for each in asked]
    call = replace(c.GRAPH_QUERY, parse=lambda reply: _answers(asked, reply.results, error_of))
    return call, m.GraphQueryRequest(graph=graph, queries=parts)


def _answers(
    asked: List[GraphQuery[Any]], results: Sequence[m.GraphQueryResult], error_of: ErrorOf
) -> r.GraphAnswers:
    if len(results) != len(asked):
        raise BadReply(f"{len(results)} results of {len(asked)} queries")
    return r.GraphAnswers(tuple(_answer(query, result, error_of) for query, result in zip(asked, results)))


def _answer(query: GraphQuery[Any], result: m.GraphQueryResult, error_of: ErrorOf) -> Any:
    which = result.WhichOneof("result")
    if which == "error":
        status = _STATUSES.get(result.error.code, grpc.StatusCode.UNKNOWN)
        return error_of(query.call, status, result.error.message)
    if which is None or which != _PARTS[query.call.method]:
        raise BadReply(f"the result of {query.call.method} is {which or 'empty'}")
    return query.call.parse(getattr(result, which))


def change(
    graph: str, action: m.GraphChangeRequest.Action, type: str, edges: graphs.Edges, time_ms: Optional[int]
) -> Tuple[Call[m.GraphChangeReply, r.EdgesChanged], m.GraphChangeRequest]:
    """Returns the call and the request of a change of edges. The call may be repeated if each edge has a time."""
    changed = [graphs.edge_of(edge, time_ms) for edge in edges]
    call = c.GRAPH_CHANGE_AT if all(edge.HasField("time_ms") for edge in changed) else c.GRAPH_CHANGE
    return call, m.GraphChangeRequest(graph=graph, action=action, type=q.text(type), edges=changed)


_NodeChange = Tuple[Call[m.NodeChangeReply, r.NodeChanged], Any]


def set_node(graph: str, node: int, type: Bytes, bins: q.Pairs[Bytes], time_ms: Optional[int]) -> _NodeChange:
    """Returns the call and the request that store the type and bins of a node."""
    pairs = [m.NodeBin(name=q.encoded(name), value=q.encoded(value)) for name, value in q.pairs_of(bins)]
    value = m.GraphNode(type=q.encoded(type), bins=pairs)
    call = c.GRAPH_SET_NODE if time_ms is None else c.GRAPH_SET_NODE_AT
    return call, m.SetNodeRequest(value=value, **_node_at(graph, node, time_ms))


def remove_node(graph: str, node: int, time_ms: Optional[int]) -> _NodeChange:
    """Returns the call and the request that remove the type and bins of a node."""
    call = c.GRAPH_REMOVE_NODE if time_ms is None else c.GRAPH_REMOVE_NODE_AT
    return call, m.NodeRequest(**_node_at(graph, node, time_ms))


def mark_node(graph: str, node: int, archived: bool, time_ms: Optional[int]) -> _NodeChange:
    """Returns the call and the request that hide or show the edges of a node."""
    call = c.GRAPH_MARK_NODE if time_ms is None else c.GRAPH_MARK_NODE_AT
    return call, m.MarkNodeRequest(archived=archived, **_node_at(graph, node, time_ms))


def _node_at(graph: str, node: int, time_ms: Optional[int]) -> Dict[str, Any]:
    fields: Dict[str, Union[str, int]] = {"graph": graph, "node": graphs.node("node", node)}
    if time_ms is not None:
        fields["time_ms"] = q.unsigned_64("time_ms", time_ms)
    return fields
