"""Graphs for figures: R-MAT, files of Debian's package python3-graph-tool, and lists of edges.

The data sets need no installation: `apt-get download python3-graph-tool`, then `dpkg -x FILE.deb FOLDER`.
"""

import gzip
import pathlib
import struct
import sys

MAGIC = "⛾ gt".encode()
WIDTHS = ((1 << 8, "B"), (1 << 16, "H"), (1 << 32, "I"), (1 << 64, "Q"))


def graph_tool_edges(path):
    """Returns the edges of a `.gt` or `.gt.gz` file as pairs, with nodes numbered from 0."""
    opened = gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")
    with opened as file:
        if file.read(len(MAGIC)) != MAGIC:
            sys.exit(f"cannot read {path}: it does not begin as a graph-tool file; name a .gt or .gt.gz file")
        file.read(1)
        order = "<>"[file.read(1)[0]]

        def numbers(count, kind):
            size = struct.calcsize(kind) * count
            data = file.read(size)
            if len(data) < size:
                sys.exit(f"cannot read {path}: it ends within the lists; download it again")
            return struct.unpack(f"{order}{count}{kind}", data)

        file.read(numbers(1, "Q")[0])
        file.read(1)
        nodes = numbers(1, "Q")[0]
        kind = next(kind for limit, kind in WIDTHS if nodes < limit)
        edges = []
        for node in range(nodes):
            edges.extend((node, other) for other in numbers(numbers(1, "Q")[0], kind))
        return edges


def rmat_edges(scale, count, seed):
    """Returns `count` drawn edges of an R-MAT graph (.57 .19 .19 .05), with nodes numbered from 0."""
    try:
        import numpy
    except ImportError:
        sys.exit("cannot import numpy: install it, or run this with a Python that has it")
    chance = numpy.random.default_rng(seed)
    source, destination = numpy.zeros(count, numpy.int64), numpy.zeros(count, numpy.int64)
    for _ in range(scale):
        draw = chance.random(count)
        source = source << 1 | (draw >= 0.76)
        destination = destination << 1 | ((draw >= 0.57) & (draw < 0.76) | (draw >= 0.95))
    return zip(source.tolist(), destination.tolist())


def undirected(edges):
    """Returns each edge once, the lower node first, without edges from a node to itself; nodes are numbered from 1."""
    return sorted({(min(a, b) + 1, max(a, b) + 1) for a, b in edges if a != b})


def graph(name):
    """Returns the edges of `rmat:SCALE:EDGES`, of a graph-tool file, or of a list of edges with nodes from 1."""
    if name.startswith("rmat:"):
        scale, count = map(int, name.split(":")[1:])
        return undirected(rmat_edges(scale, count, 1))
    if ".gt" in pathlib.Path(name).suffixes:
        return undirected(graph_tool_edges(name))
    with open(name) as file:
        lines = (line.split()[:2] for line in file if line[0] not in "#%\n")
        return undirected((int(a) - 1, int(b) - 1) for a, b in lines)
