"""The calls of the synchronous client on a graph."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Optional, Tuple, TypeVar, Union

from gannet import _calls as c
from gannet import _requests as q
from gannet import graph_queries, graphs
from gannet import results as r
from gannet._calls import Call
from gannet._engine import Scope
from gannet._engine_sync import SyncEngine
from gannet._proto import graph_pb2 as m
from gannet._requests import Bytes
from gannet.errors import CacheError
from gannet.graph_queries import GraphQuery
from gannet.graphs import EdgeState, SetOperation

R = TypeVar("R")


class Graph:
    """Calls on one graph of a server: nodes, which are numbers from 1 to 2^64 - 2, and typed edges with a time.

    `CacheClient.graph` returns it. It uses the connections, limits and deadline of its client. A graph is in no
    cache: the client's cache only counts the calls.

    - The budget of a query is the number of edges that it may touch: 100,000 without it, and at most 1,048,576. If it
      does not suffice, the result is `partial`: it is right as far as it goes, and may lack nodes.
    - `limit` is the maximum number of nodes of a result: 100 without it, and at most 4096.
    - Times are in ms since 1970. The newest change of an edge or node wins. A change with a time may be repeated
      without effect, so the client repeats it after a failure; one without has the time of the server, and is never
      repeated.
    """

    _engine: SyncEngine
    _scope: Scope

    def __init__(self, engine: SyncEngine, scope: Scope, name: str) -> None:
        self._engine = engine
        self._scope = scope
        self._name = graphs.graph_name(name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def _call(self, call: Call[Any, R], request: Any) -> Union[R, CacheError]:
        return self._engine.call(call, request, self._scope)

    def _call_query(self, query: GraphQuery[R]) -> Union[R, CacheError]:
        return self._engine.call(query.call, query.alone(self._name), self._scope)

    # Changes.

    def declare_type(
        self,
        type: str,
        *,
        undirected: bool = False,
        inverse_of: Optional[str] = None,
        sort_by_time: bool = False,
        cap: Optional[int] = None,
        attributes: Iterable[str] = (),
    ) -> r.DoneResult:
        """Declares an edge type, and creates the graph with its first one.

        Does nothing if the type is declared with the same properties, and is FAILED_PRECONDITION if with others.

        - undirected: each edge is one in both directions.
        - inverse_of: the name of the type whose inverse this one is.
        - sort_by_time: pages list the newest edge first; otherwise they are ordered by identifier.
        - cap: the maximum number of live edges of a node.
        - attributes: the names of the attributes of edges.
        """
        request = m.DeclareTypeRequest(
            graph=self._name,
            type=q.text(type),
            undirected=undirected,
            inverse_of=q.text(inverse_of or ""),
            sort_by_time=sort_by_time,
            cap=graphs.from_1("cap", cap),
            attributes=[q.text(name) for name in attributes],
        )
        return self._call(c.GRAPH_DECLARE_TYPE, request)

    def add_edges(self, type: str, edges: graphs.Edges, *, time_ms: Optional[int] = None) -> r.EdgesChangedResult:
        """Adds edges of a type, at most 4096: `Edge` objects, or pairs of source and destination.

        All changes are checked before the first is made. A cap or full memory can refuse a later one; the error then
        states how many edges were changed. `time_ms` is the time of those that have none of their own.
        """
        return self._call(*graph_queries.change(self._name, m.GraphChangeRequest.ADD, type, edges, time_ms))

    def remove_edges(
        self, type: str, edges: graphs.Edges, *, time_ms: Optional[int] = None
    ) -> r.EdgesChangedResult:
        """Removes edges. One that does not exist is no error."""
        return self._call(*graph_queries.change(self._name, m.GraphChangeRequest.REMOVE, type, edges, time_ms))

    def archive_edges(
        self, type: str, edges: graphs.Edges, *, time_ms: Optional[int] = None
    ) -> r.EdgesChangedResult:
        """Hides edges until they are restored."""
        return self._call(*graph_queries.change(self._name, m.GraphChangeRequest.ARCHIVE, type, edges, time_ms))

    def restore_edges(
        self, type: str, edges: graphs.Edges, *, time_ms: Optional[int] = None
    ) -> r.EdgesChangedResult:
        """Shows edges again: an addition that leaves the attributes as they are."""
        return self._call(*graph_queries.change(self._name, m.GraphChangeRequest.RESTORE, type, edges, time_ms))

    # Neighbourhoods.

    def get_edges(self, source: int, type: str, destinations: Iterable[int]) -> r.EdgesResult:
        """Returns state, time and attributes of the edges from a node to others, at most 4096."""
        return self._call_query(GraphQuery.get_edges(source, type, destinations))

    def count(self, node: int, type: str) -> r.NodeCountResult:
        """Returns the degree of a node. Archived neighbours count."""
        return self._call_query(GraphQuery.count(node, type))

    def neighbours(
        self,
        node: int,
        type: str,
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        times: Optional[Tuple[int, int]] = None,
        reverse: bool = False,
        with_attributes: bool = False,
        state: EdgeState = EdgeState.LIVE,
    ) -> r.NeighbourPageResult:
        """Returns a page of the neighbours of a node, from `cursor` on.

        - times: edges from a first to a last time in ms alone; for types that are sorted by time.
        - reverse: the opposite order.
        - with_attributes: the result has times and attributes too.
        - state: the state of the edges.
        """
        return self._call_query(
            GraphQuery.neighbours(
                node,
                type,
                cursor=cursor,
                limit=limit,
                times=times,
                reverse=reverse,
                with_attributes=with_attributes,
                state=state,
            )
        )

    def neighbour_pages(
        self,
        node: int,
        type: str,
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        times: Optional[Tuple[int, int]] = None,
        reverse: bool = False,
        with_attributes: bool = False,
        state: EdgeState = EdgeState.LIVE,
    ) -> Iterator[r.NeighbourPageResult]:
        """Yields pages of the neighbours of a node, one call each. A CacheError is the last value that it yields.

        The cursor of a page continues in another iterator, in another process too.
        """
        query: Optional[GraphQuery[r.NeighbourPage]] = GraphQuery.neighbours(
            node,
            type,
            cursor=cursor,
            limit=limit,
            times=times,
            reverse=reverse,
            with_attributes=with_attributes,
            state=state,
        )
        while query is not None:
            page = self._call_query(query)
            yield page
            query = query.after(page)

    def mutual(
        self, first: int, second: int, type: str, *, limit: Optional[int] = None, budget: Optional[int] = None
    ) -> r.MutualNodesResult:
        """Returns common neighbours of two nodes."""
        return self._call_query(GraphQuery.mutual(first, second, type, limit=limit, budget=budget))

    def mutual_count(
        self, first: int, second: int, type: str, *, budget: Optional[int] = None
    ) -> r.NodeCountResult:
        """Returns the number of common neighbours of two nodes."""
        return self._call_query(GraphQuery.mutual_count(first, second, type, budget=budget))

    def combine(
        self,
        operation: SetOperation,
        lists: Iterable[Tuple[int, str]],
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> r.NodePageResult:
        """Returns a page of the intersection, union or difference of the neighbours of up to 16 nodes.

        `lists` are pairs of node and edge type.
        """
        return self._call_query(GraphQuery.combine(operation, lists, cursor=cursor, limit=limit))

    def combine_pages(
        self,
        operation: SetOperation,
        lists: Iterable[Tuple[int, str]],
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> Iterator[r.NodePageResult]:
        """Yields the pages of `combine`, as `neighbour_pages` does."""
        query: Optional[GraphQuery[r.NodePage]] = GraphQuery.combine(operation, lists, cursor=cursor, limit=limit)
        while query is not None:
            page = self._call_query(query)
            yield page
            query = query.after(page)

    # Walks of more than one edge.

    def distances(
        self,
        source: int,
        type: str,
        destinations: Iterable[int],
        *,
        distance_max: Optional[int] = None,
        budget: Optional[int] = None,
    ) -> r.DistancesResult:
        """Returns the number of edges from a node to each of at most 4096 others.

        It is None for a node that `distance_max` edges do not reach: 1 to 3, and 3 without it.
        """
        query = GraphQuery.distances(source, type, destinations, distance_max=distance_max, budget=budget)
        return self._call_query(query)

    def paths(
        self,
        source: int,
        destination: int,
        type: str,
        *,
        distance_max: Optional[int] = None,
        k: Optional[int] = None,
        budget: Optional[int] = None,
    ) -> r.PathsResult:
        """Returns the k shortest paths between two nodes (1 without `k`), of at most `distance_max` edges.

        There are none if the nodes are further apart than `distance_max`: 1 to 3, and 3 without it.
        """
        query = GraphQuery.paths(source, destination, type, distance_max=distance_max, k=k, budget=budget)
        return self._call_query(query)

    def second_degree(
        self,
        node: int,
        type: str,
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        budget: Optional[int] = None,
        stale: int = 0,
    ) -> r.NodePageResult:
        """Returns a page of the nodes at distance 2. They may come from a cache that has missed `stale` changes."""
        query = GraphQuery.second_degree(node, type, cursor=cursor, limit=limit, budget=budget, stale=stale)
        return self._call_query(query)

    def second_degree_pages(
        self,
        node: int,
        type: str,
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        budget: Optional[int] = None,
        stale: int = 0,
    ) -> Iterator[r.NodePageResult]:
        """Yields the pages of `second_degree`, as `neighbour_pages` does."""
        query: Optional[GraphQuery[r.NodePage]] = GraphQuery.second_degree(
            node, type, cursor=cursor, limit=limit, budget=budget, stale=stale
        )
        while query is not None:
            page = self._call_query(query)
            yield page
            query = query.after(page)

    def second_degree_count(
        self, node: int, type: str, *, budget: Optional[int] = None, stale: int = 0
    ) -> r.NodeCountResult:
        """Returns the number of nodes at distance 2."""
        return self._call_query(GraphQuery.second_degree_count(node, type, budget=budget, stale=stale))

    def suggest(
        self, node: int, type: str, *, k: Optional[int] = None, budget: Optional[int] = None
    ) -> r.SuggestionsResult:
        """Returns the k nodes at distance 2 (10 without `k`) with the most common neighbours."""
        return self._call_query(GraphQuery.suggest(node, type, k=k, budget=budget))

    # Nodes.

    def get_node(self, node: int) -> r.NodeResult:
        """Returns the type and bins of a node, also of an archived one. Miss if it has none."""
        return self._call(c.GRAPH_GET_NODE, m.NodeRequest(graph=self._name, node=graphs.node("node", node)))

    def set_node(
        self, node: int, type: Bytes, bins: q.Pairs[Bytes] = (), *, time_ms: Optional[int] = None
    ) -> r.NodeChangedResult:
        """Stores the type and bins of a node in place of earlier ones, at most 16 KiB together."""
        return self._call(*graph_queries.set_node(self._name, node, type, bins, time_ms))

    def remove_node(self, node: int, *, time_ms: Optional[int] = None) -> r.NodeChangedResult:
        """Removes the type and bins of a node. Its edges stay."""
        return self._call(*graph_queries.remove_node(self._name, node, time_ms))

    def archive_node(self, node: int, *, time_ms: Optional[int] = None) -> r.NodeChangedResult:
        """Hides all edges of a node, in its own lists and in those of others."""
        return self._call(*graph_queries.mark_node(self._name, node, True, time_ms))

    def restore_node(self, node: int, *, time_ms: Optional[int] = None) -> r.NodeChangedResult:
        """Shows the edges of an archived node again."""
        return self._call(*graph_queries.mark_node(self._name, node, False, time_ms))

    # Several queries, and figures.

    def query(self, queries: Iterable[GraphQuery[Any]]) -> r.GraphAnswersResult:
        """Executes up to 64 queries in one call, and returns their results in the same order.

        A query that fails has a CacheError in its place.
        """
        return self._call(*graph_queries.batch(self._name, queries, self._engine.error))

    def stats(self) -> r.GraphStatsResult:
        """Returns figures and the edge types of the graph. It needs the right to all graphs."""
        return self._call(c.GRAPH_STATS, m.GraphStatsRequest(graph=self._name))
