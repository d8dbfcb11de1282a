"""Graphs: the states of edges, operations on lists of neighbours, and the edges of a change."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Iterable, List, Mapping, Optional, Tuple, Union

from gannet import _requests as q
from gannet._proto import graph_pb2 as m
from gannet._requests import Bytes


class EdgeState(enum.Enum):
    """States of edges."""

    ABSENT = 0
    """There is no edge."""
    LIVE = 1
    NEGATIVE = 2
    """A second colour of edges, such as blocks."""
    ARCHIVED = 3
    """Hidden until it is restored."""
    REMOVED = 4


class SetOperation(enum.Enum):
    """Operations on lists of neighbours."""

    INTERSECTION = 0
    UNION = 1
    DIFFERENCE = 2
    """The first list without all others."""


@dataclass(frozen=True)
class Edge:
    """An edge that a call adds, removes, archives or restores."""

    source: int
    destination: int
    type: str = ""
    """Its edge type; without it, that of the call."""
    time_ms: Optional[int] = None
    """The time of its change, in ms since 1970; without it, that of the call."""
    negative: bool = False
    """True to add it with the negative state. Only for added edges."""
    attributes: Mapping[str, Bytes] = field(default_factory=dict)
    """The attributes of an added edge, at most 255 bytes together. The schema of its type has their names."""


Edges = Iterable[Union[Edge, Tuple[int, int]]]
"""Edges, or pairs of source and destination."""


def node(name: str, value: int) -> int:
    """Returns the number of a node. Raises ValueError if it is beyond 64 bits."""
    return q.unsigned_64(name, value)


def destinations_of(nodes: Iterable[int]) -> List[int]:
    """Returns the nodes to which a query searches edges or distances."""
    return [node("destination", each) for each in nodes]


def from_1(name: str, value: Optional[int]) -> int:
    """Returns a number of at least 1, or 0, which stands for the default of the server, for None."""
    return 0 if value is None else q.whole(name, value, 1, (1 << 32) - 1)


def edge_of(edge: Union[Edge, Tuple[int, int]], time_ms: Optional[int]) -> m.EdgeChange:
    """Returns the message of an edge. `time_ms` is the time of one that has none."""
    if not isinstance(edge, Edge):
        source, destination = edge
        edge = Edge(source, destination)
    changed = edge.time_ms if edge.time_ms is not None else time_ms
    return m.EdgeChange(
        source=node("source", edge.source),
        type=q.text(edge.type),
        destination=node("destination", edge.destination),
        time_ms=None if changed is None else q.unsigned_64("time_ms", changed),
        negative=edge.negative,
        attributes=[
            m.GraphAttribute(name=q.text(name), value=q.encoded(value)) for name, value in edge.attributes.items()
        ],
    )


def times_of(times: Optional[Tuple[int, int]]) -> Optional[m.TimeRange]:
    """Returns a range of times in ms since 1970, both ends included."""
    if times is None:
        return None
    first_ms, last_ms = times
    return m.TimeRange(first_ms=q.unsigned_64("first_ms", first_ms), last_ms=q.unsigned_64("last_ms", last_ms))


def graph_name(name: str) -> str:
    """Returns the name of a graph. Raises ValueError if it is empty."""
    if not q.text(name):
        raise ValueError("cannot use graph '': its name is empty; give a name")
    return name
