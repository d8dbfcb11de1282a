"""Compares the answers of the graph commands with those of networkx, on known and on random graphs."""

import itertools
import random

import networkx
import pytest
import redis

from server import Server


@pytest.fixture(scope="module")
def client():
    with Server(resp=True, WORKERS="2") as running:
        with redis.Redis("127.0.0.1", running.resp_port, socket_timeout=20, decode_responses=True) as client:
            yield client


def powers_of_random_degrees(seed):
    return networkx.barabasi_albert_graph(3000, 4, seed=seed)


GRAPHS = {
    "karate": networkx.karate_club_graph,
    "books": networkx.les_miserables_graph,
    "random": lambda: networkx.gnm_random_graph(500, 900, seed=1),
    "hubs": lambda: powers_of_random_degrees(2),
}


@pytest.fixture(scope="module", params=GRAPHS)
def both(client, request):
    """A graph in networkx with the nodes 1 to n, its name in the store, and random pairs of its nodes."""
    graph = networkx.convert_node_labels_to_integers(GRAPHS[request.param](), first_label=1)
    client.execute_command("G.TYPE", request.param, "knows", "UNDIRECTED")
    edges = [edge for edge in graph.edges if edge[0] != edge[1]]
    graph = networkx.Graph(edges)
    for part in chunks(edges, 400):
        words = itertools.chain.from_iterable((a, "knows", b) for a, b in part)
        assert client.execute_command("G.ADD", request.param, *words) == len(part)
    chance = random.Random(7)
    nodes = list(graph.nodes)
    return graph, request.param, [chance.sample(nodes, 2) for _ in range(300)]


def chunks(items, size):
    return [items[at : at + size] for at in range(0, len(items), size)]


def test_degrees_and_neighbours(client, both):
    graph, name, _ = both
    for node in graph:
        assert client.execute_command("G.COUNT", name, node, "knows") == graph.degree(node)
    for node in list(graph)[:200]:
        cursor, neighbours = "0", []
        while True:
            cursor, page = client.execute_command("G.RANGE", name, node, "knows", "CURSOR", cursor, "LIMIT", 37)
            neighbours += page
            if cursor == "0":
                break
        assert sorted(neighbours) == sorted(graph[node])


def test_common_neighbours_and_sets(client, both):
    graph, name, pairs = both
    for a, b in pairs:
        partial, common = client.execute_command("G.MUTUAL", name, a, b, "knows", "LIMIT", 4096)
        assert (partial, set(common)) == (0, set(graph[a]) & set(graph[b]))
        for command, expected in [
            ("G.INTER", set(graph[a]) & set(graph[b])),
            ("G.UNION", set(graph[a]) | set(graph[b])),
            ("G.DIFF", set(graph[a]) - set(graph[b])),
        ]:
            _, found = client.execute_command(command, name, a, "knows", b, "knows", "LIMIT", 4096)
            assert set(found) == expected


def test_distances_and_paths(client, both):
    graph, name, pairs = both
    for source, target in pairs:
        near = networkx.single_source_shortest_path_length(graph, source, cutoff=3)
        asked = [target, source, *list(graph)[:20]]
        partial, distances = client.execute_command("G.DIST", name, source, "knows", *asked, "BUDGET", 1 << 20)
        assert (partial, distances) == (0, [near.get(node) for node in asked])
        partial, paths = client.execute_command(
            "G.PATH", name, source, target, "knows", "K", 4096, "BUDGET", 1 << 20
        )
        expected = sorted(networkx.all_simple_paths(graph, source, target, cutoff=3))
        assert partial == 0
        if len(expected) <= 4096:
            assert sorted(paths) == expected
        assert [len(path) for path in paths] == sorted(len(path) for path in paths)


def test_second_degrees_and_suggestions(client, both):
    graph, name, pairs = both
    for node, _ in pairs[:100]:
        near = networkx.single_source_shortest_path_length(graph, node, cutoff=2)
        second = {other for other, distance in near.items() if distance == 2}
        partial, count = client.execute_command("G.DEG2", name, node, "knows", "COUNT", "BUDGET", 1 << 20)
        assert (partial, count) == (0, len(second))
        cursor, listed = "0", []
        while True:
            _, (cursor, page) = client.execute_command(
                "G.DEG2", name, node, "knows", "CURSOR", cursor, "LIMIT", 100, "BUDGET", 1 << 20
            )
            listed += page
            if cursor == "0":
                break
        assert len(listed) == len(second) and set(listed) == second
        _, suggested = client.execute_command("G.SUGGEST", name, node, "knows", "K", 5, "BUDGET", 1 << 20)
        common = {other: len(set(graph[node]) & set(graph[other])) for other in second}
        assert [count for _, count in suggested] == sorted(common.values(), reverse=True)[:5]
        assert all(common[other] == count for other, count in suggested)


def test_answers_stay_right_while_edges_come_and_go(client, both):
    graph, name, pairs = both
    graph = graph.copy()
    for (a, b), (c, d) in zip(pairs[:100], pairs[100:200]):
        client.execute_command("G.ADD", name, a, "knows", b)
        graph.add_edge(a, b)
        changed = client.execute_command("G.DEL", name, c, "knows", d)
        assert changed == int(graph.has_edge(c, d))
        if changed:
            graph.remove_edge(c, d)
        near = networkx.single_source_shortest_path_length(graph, a, cutoff=3)
        _, distances = client.execute_command("G.DIST", name, a, "knows", b, c, d, "BUDGET", 1 << 20)
        assert distances == [near.get(node) for node in (b, c, d)]
