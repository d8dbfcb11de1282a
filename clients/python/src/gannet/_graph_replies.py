"""Results of the replies to calls on graphs."""

from __future__ import annotations

from typing import Dict, Iterable, Union

from gannet import results as r
from gannet._proto import graph_pb2 as m
from gannet._requests import BadReply
from gannet.graphs import EdgeState

# The distance of a node that was not found.
_NOT_REACHED = 255


def _attributes(attributes: Iterable[m.GraphAttribute]) -> Dict[str, bytes]:
    return {each.name: each.value for each in attributes}


def _edge(edge: m.GraphEdge) -> r.EdgeInfo:
    try:
        state = EdgeState(edge.state)
    except ValueError:
        raise BadReply(f"the state of an edge is {edge.state}") from None
    return r.EdgeInfo(state, edge.time_ms, _attributes(edge.attributes))


def changed(reply: m.GraphChangeReply) -> r.EdgesChanged:
    return r.EdgesChanged(reply.changed)


def edges(reply: m.GetEdgesReply) -> r.EdgesFound:
    return r.EdgesFound(tuple(_edge(each) for each in reply.edges))


def count(reply: m.GraphCountReply) -> r.NodeCount:
    return r.NodeCount(reply.count)


def neighbours(reply: m.NeighbourPage) -> r.NeighbourPage:
    found = tuple(r.Neighbour(each.node, each.time_ms, _attributes(each.attributes)) for each in reply.neighbours)
    nodes = tuple(each.node for each in found) if found else tuple(reply.nodes)
    return r.NeighbourPage(nodes, found, reply.cursor or None)


def mutual(reply: m.MutualReply) -> r.MutualNodes:
    return r.MutualNodes(tuple(reply.nodes), reply.partial)


def count_with_budget(reply: Union[m.MutualReply, m.SecondDegreeReply]) -> r.NodeCount:
    return r.NodeCount(reply.count, reply.partial)


def combined(reply: m.NodePage) -> r.NodePage:
    return r.NodePage(tuple(reply.nodes), reply.cursor or None)


def distances(reply: m.DistanceReply) -> r.Distances:
    found = tuple(None if distance == _NOT_REACHED else distance for distance in reply.distances)
    return r.Distances(found, reply.partial)


def paths(reply: m.PathReply) -> r.Paths:
    return r.Paths(tuple(tuple(path.nodes) for path in reply.paths), reply.partial)


def second_degree(reply: m.SecondDegreeReply) -> r.NodePage:
    return r.NodePage(tuple(reply.nodes), reply.cursor or None, reply.partial)


def suggestions(reply: m.SuggestReply) -> r.Suggestions:
    return r.Suggestions(tuple(r.Suggestion(each.node, each.common) for each in reply.suggestions), reply.partial)


def node(reply: m.GetNodeReply) -> Union[r.NodeHit, r.Miss]:
    which = reply.WhichOneof("reply")
    if which is None:
        raise BadReply("the reply to GetNode is empty")
    if which == "missing":
        return r.Miss()
    return r.NodeHit(reply.found.type, {each.name: each.value for each in reply.found.bins})


def node_changed(reply: m.NodeChangeReply) -> r.NodeChanged:
    return r.NodeChanged(reply.changed)


def graph_stats(reply: m.GraphStatsReply) -> r.GraphStats:
    return r.GraphStats({each.name: each.value for each in reply.figures}, tuple(reply.types))


def store_stats(reply: m.GraphStatsReply) -> r.GraphStoreStats:
    return r.GraphStoreStats({each.name: each.value for each in reply.figures}, tuple(reply.graphs))
