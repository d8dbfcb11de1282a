#!/usr/bin/env python3
"""Writes a graph and answers of networkx about it, which `crates/graph/tests/oracle.rs` compares with the engine's.

    python3 lab/graph_oracle.py FILE.gt.gz --ball 700 > crates/graph/tests/answers/pgp.txt
    python3 lab/graph_oracle.py FILE.gt.gz > /tmp/whole.txt
    GANNET_GRAPH_ANSWERS=/tmp/whole.txt cargo test -p gannet-graph --test oracle

`gnm:NODES:EDGES` is a random directed graph. `--ball N` takes the first N nodes that a search in breadth finds from the
node of the median degree above 10, with all edges among them.
"""

import argparse
import random
import sys

import graph_data

try:
    import networkx
except ImportError:
    sys.exit("cannot import networkx: install it, or run this with a Python that has it")

WIDTH_MAX = 110


def ball(graph, nodes):
    """Returns the part of a graph around a node, numbered from 1 in the order of the search."""
    candidates = sorted((graph.degree(node), node) for node in graph if graph.degree(node) > 10)
    start = candidates[len(candidates) // 2][1]
    found = [start] + [node for _, node in networkx.bfs_edges(graph, start)]
    numbers = {node: number for number, node in enumerate(found[:nodes], 1)}
    return networkx.relabel_nodes(graph.subgraph(numbers), numbers)


def load(name):
    if name.startswith("gnm:"):
        nodes, edges = map(int, name.split(":")[1:])
        graph = networkx.gnm_random_graph(nodes, edges, 7, directed=True)
        return networkx.relabel_nodes(graph, {node: node + 1 for node in range(nodes)})
    graph = networkx.Graph()
    graph.add_edges_from(graph_data.graph(name))
    return graph


def wrapped(head, numbers):
    """Prints `head` and numbers in lines of bounded width."""
    line = head
    for number in numbers:
        if len(line) > WIDTH_MAX:
            print(line)
            line = head
        line += f" {number}"
    print(line)


def weight(path):
    """Returns a number that differs if the nodes or their order differ."""
    return sum((place + 1) * node for place, node in enumerate(path))


def answers(graph, count):
    neighbours = graph.successors if graph.is_directed() else graph.neighbors
    chance = random.Random(11)
    nodes = sorted(graph)
    by_degree = [node for edge in graph.edges for node in edge]
    for question in range(count):
        drawn = nodes if question % 2 else by_degree
        source, other = chance.choice(drawn), chance.choice(drawn)
        within = networkx.single_source_shortest_path_length(graph, source, cutoff=3)
        targets = [chance.choice(nodes) for _ in range(8)]
        print("distance", source, *(f"{node}:{within.get(node, '-')}" for node in targets))
        second = [node for node, hops in within.items() if hops == 2]
        print("second", source, len(second), sum(second))
        own = sorted(neighbours(source))
        print("page", source, len(own), sum(own))
        if source != other:
            common = sorted(set(neighbours(source)) & set(neighbours(other)))
            print("mutual", source, other, len(common), sum(common))
            if question % 4 == 0:
                paths = list(networkx.all_simple_paths(graph, source, other, cutoff=3))
                if len(paths) <= 4000:
                    print("paths", source, other, len(paths), sum(map(weight, paths)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="gnm:NODES:EDGES, a .gt.gz file, or a list of edges")
    parser.add_argument("--ball", type=int, help="the number of nodes of the part that is taken")
    parser.add_argument("--questions", type=int, default=200)
    arguments = parser.parse_args()
    graph = load(arguments.graph)
    if arguments.ball:
        graph = ball(graph, arguments.ball)
    print("directed" if graph.is_directed() else "undirected", graph.number_of_nodes(), graph.number_of_edges())
    for node in sorted(graph):
        others = sorted(other for other in graph[node] if graph.is_directed() or other > node)
        if others:
            wrapped(f"edges {node}", others)
    answers(graph, arguments.questions)


if __name__ == "__main__":
    main()
