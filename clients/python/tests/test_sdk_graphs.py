"""Graphs of both clients, against a real server."""

import asyncio
import itertools

import pytest
import redis
from conftest import CONFIGURATION, code
from server import free_port

from gannet import (
    CacheClient,
    CacheClientAsync,
    CacheError,
    Distances,
    Edge,
    EdgesChanged,
    EdgeState,
    ErrorCode,
    GraphAnswers,
    GraphQuery,
    Miss,
    MutualNodes,
    Neighbour,
    NodeChanged,
    NodeCount,
    NodeHit,
    NodePage,
    Paths,
    RetryBudget,
    SetOperation,
    Success,
    Suggestion,
)
from gannet._proto import graph_pb2
from gannet._requests import BadReply
from gannet.graph_queries import batch

MOST = (1 << 64) - 2
NUMBERS = itertools.count()


@pytest.fixture
def name(server):
    """The name of a graph that is dropped after the test."""
    name = f"g{next(NUMBERS)}"
    yield name
    with redis.Redis(port=server.resp_port) as plain:
        plain.execute_command("G.DROP", name)


@pytest.fixture
def graph(both, name):
    """A graph with an undirected type, and the edges of a path from 1 to 5 with a shortcut from 1 to 3."""
    graph = both.graph(name)
    assert graph.declare_type("knows", undirected=True) == Success()
    assert graph.add_edges("knows", [(1, 2), (2, 3), (3, 4), (4, 5), (1, 3)]) == EdgesChanged(5)
    return graph


def test_types_are_declared_once(graph):
    assert graph.declare_type("knows", undirected=True) == Success()
    other = graph.declare_type("knows")
    assert code(other) is ErrorCode.FAILED_PRECONDITION and other.remedy == "use another name"
    assert graph.declare_type("follows") == Success()
    assert graph.declare_type("followed_by", inverse_of="follows") == Success()
    assert graph.add_edges("follows", [(1, 2)]) == EdgesChanged(1)
    assert graph.count(2, "followed_by") == NodeCount(1) and graph.count(2, "follows") == NodeCount(0)


def test_edges_are_added_and_counted(graph):
    assert graph.add_edges("knows", [(1, 2)]) == EdgesChanged(0)
    assert graph.count(1, "knows") == NodeCount(2, partial=False)
    assert graph.add_edges("knows", [Edge(MOST, 1), Edge(MOST, 2)]) == EdgesChanged(2)
    assert graph.neighbours(1, "knows").nodes == (2, 3, MOST)
    assert graph.neighbours(MOST, "knows").nodes == (1, 2)


def test_states_of_edges(graph):
    live, absent = graph.get_edges(1, "knows", [2, 9]).edges
    assert (live.state, live.attributes) == (EdgeState.LIVE, {}) and live.time_ms > 1_600_000_000_000
    assert (absent.state, absent.time_ms) == (EdgeState.ABSENT, 0)
    assert graph.remove_edges("knows", [(1, 2)]) == EdgesChanged(1)
    assert graph.archive_edges("knows", [(1, 3)]) == EdgesChanged(1)
    states = [edge.state for edge in graph.get_edges(1, "knows", [2, 3]).edges]
    assert states == [EdgeState.REMOVED, EdgeState.ARCHIVED]
    assert graph.restore_edges("knows", [(1, 3)]) == EdgesChanged(1)
    assert graph.get_edges(1, "knows", [3]).edges[0].state is EdgeState.LIVE


def test_attributes_and_the_negative_state(graph):
    assert graph.declare_type("rated", attributes=["stars", "note"]) == Success()
    rated = Edge(1, 7, time_ms=5_000, attributes={"stars": b"\xff", "note": "good"})
    blocked = Edge(1, 8, time_ms=6_000, negative=True)
    assert graph.add_edges("rated", [rated, blocked]) == EdgesChanged(2)
    attributes = {"stars": b"\xff", "note": b"good"}
    first, second = graph.get_edges(1, "rated", [7, 8]).edges
    assert (first.state, first.time_ms, first.attributes) == (EdgeState.LIVE, 5_000, attributes)
    assert (second.state, second.time_ms) == (EdgeState.NEGATIVE, 6_000)
    page = graph.neighbours(1, "rated", with_attributes=True)
    assert page.neighbours == (Neighbour(7, 5_000, attributes),) and page.nodes == (7,)
    assert graph.neighbours(1, "rated", state=EdgeState.NEGATIVE).nodes == (8,)
    assert graph.neighbours(1, "rated").neighbours == ()


def test_the_newest_change_wins(graph):
    assert graph.add_edges("knows", [(10, 11)], time_ms=2_000) == EdgesChanged(1)
    assert graph.remove_edges("knows", [(10, 11)], time_ms=1_000) == EdgesChanged(0)
    assert graph.get_edges(10, "knows", [11]).edges[0].state is EdgeState.LIVE
    # The time of an edge precedes that of the call.
    assert graph.remove_edges("knows", [Edge(10, 11, time_ms=3_000)], time_ms=1_000) == EdgesChanged(1)


def test_edges_of_several_types_in_one_call(graph):
    assert graph.declare_type("likes") == Success()
    assert graph.add_edges("knows", [Edge(20, 21), Edge(20, 22, type="likes")]) == EdgesChanged(2)
    assert graph.neighbours(20, "knows").nodes == (21,) and graph.neighbours(20, "likes").nodes == (22,)


def test_pages_in_order_of_time(graph):
    assert graph.declare_type("visited", sort_by_time=True) == Success()
    visits = [Edge(1, 100 + at, time_ms=1_000 * at) for at in range(1, 6)]
    assert graph.add_edges("visited", visits) == EdgesChanged(5)
    assert graph.neighbours(1, "visited").nodes == (105, 104, 103, 102, 101)
    assert graph.neighbours(1, "visited", reverse=True, limit=2).nodes == (101, 102)
    assert graph.neighbours(1, "visited", times=(2_000, 4_000)).nodes == (104, 103, 102)
    assert code(graph.neighbours(1, "knows", times=(0, 9))) is ErrorCode.FAILED_PRECONDITION


def test_pages_of_neighbours(graph):
    assert graph.add_edges("knows", [(50, 60 + at) for at in range(10)]) == EdgesChanged(10)
    pages = list(graph.neighbour_pages(50, "knows", limit=3))
    assert [len(page.nodes) for page in pages] == [3, 3, 3, 1]
    assert sorted(node for page in pages for node in page.nodes) == list(range(60, 70))
    assert pages[-1].cursor is None
    rest = list(graph.neighbour_pages(50, "knows", limit=3, cursor=pages[0].cursor))
    assert rest == pages[1:]
    assert graph.neighbours(50, "knows", limit=3, cursor=pages[0].cursor) == pages[1]
    assert code(graph.neighbours(50, "knows", cursor="of another query")) is ErrorCode.INVALID_ARGUMENT
    *_, last = graph.neighbour_pages(50, "unknown")
    assert code(last) is ErrorCode.NOT_FOUND_GRAPH


def test_pages_of_sets_and_second_degrees(graph):
    assert graph.add_edges("knows", [(50, 60 + at) for at in range(10)]).changed == 10
    assert graph.add_edges("knows", [(51, 60 + at) for at in range(10)]).changed == 10
    common = list(graph.combine_pages(SetOperation.INTERSECTION, [(50, "knows"), (51, "knows")], limit=6))
    assert [len(page.nodes) for page in common] == [6, 4]
    assert sorted(node for page in common for node in page.nodes) == list(range(60, 70))
    rest = graph.combine(SetOperation.INTERSECTION, [(50, "knows"), (51, "knows")], limit=6, cursor=common[0].cursor)
    assert rest == common[1]
    pages = list(graph.second_degree_pages(60, "knows", limit=5))
    assert len(pages) == 2 and sorted(node for page in pages for node in page.nodes) == list(range(61, 70))
    assert graph.second_degree(60, "knows", limit=5, cursor=pages[0].cursor) == pages[1]


def test_common_neighbours_and_sets(graph):
    assert graph.mutual(1, 2, "knows") == MutualNodes((3,), partial=False)
    assert graph.mutual_count(1, 2, "knows") == NodeCount(1)
    lists = [(1, "knows"), (4, "knows")]
    assert graph.combine(SetOperation.INTERSECTION, lists) == NodePage((3,), None)
    assert sorted(graph.combine(SetOperation.UNION, lists).nodes) == [2, 3, 5]
    assert graph.combine(SetOperation.DIFFERENCE, lists).nodes == (2,)


def test_distances_and_paths(graph):
    assert graph.distances(1, "knows", [1, 2, 4, 5, 77]) == Distances((0, 1, 2, 3, None), partial=False)
    assert graph.distances(1, "knows", [2, 4], distance_max=1).distances == (1, None)
    assert graph.paths(1, 4, "knows") == Paths(((1, 3, 4),), partial=False)
    assert graph.paths(1, 4, "knows", k=2).paths == ((1, 3, 4), (1, 2, 3, 4))
    assert graph.paths(1, 5, "knows", distance_max=2) == Paths((), partial=False)


def test_second_degrees_and_suggestions(graph):
    assert graph.second_degree(1, "knows") == NodePage((4,), None)
    assert graph.second_degree_count(1, "knows") == NodeCount(1)
    assert graph.second_degree(1, "knows", stale=10).nodes == (4,)
    assert graph.add_edges("knows", [(2, 4), (5, 6)]) == EdgesChanged(2)
    suggestions = graph.suggest(1, "knows")
    assert suggestions.suggestions == (Suggestion(4, 2),) and not suggestions.partial
    assert graph.suggest(4, "knows", k=1).suggestions[0].common == 2


def test_a_budget_that_does_not_suffice_gives_a_partial_result(graph):
    assert graph.add_edges("knows", [(50, 60 + at) for at in range(50)]).changed == 50
    results = [
        lambda budget: graph.second_degree(60, "knows", budget=budget),
        lambda budget: graph.second_degree_count(60, "knows", budget=budget),
        lambda budget: graph.suggest(60, "knows", budget=budget),
        lambda budget: graph.paths(60, 5, "knows", budget=budget),
        lambda budget: graph.distances(60, "knows", [109, 5], budget=budget),
    ]
    # The server keeps the second degrees that are complete, for all budgets.
    for budget, partial in [(1, True), (None, False)]:
        assert [result(budget).partial for result in results] == [partial] * len(results)


def test_nodes(graph):
    assert graph.get_node(1) == Miss()
    assert graph.set_node(1, "person", {"name": "Ann", b"\xff": b"\x00"}) == NodeChanged(True)
    found = graph.get_node(1)
    assert found == NodeHit(b"person", {b"name": b"Ann", b"\xff": b"\x00"}) and found.type_string == "person"
    assert graph.set_node(2, b"person", time_ms=2_000) == NodeChanged(True)
    assert graph.set_node(2, "robot", time_ms=1_000) == NodeChanged(False)
    assert graph.get_node(2).type_string == "person" and graph.get_node(2).bins_string == {}
    assert graph.archive_node(3) == NodeChanged(True) and graph.archive_node(3) == NodeChanged(False)
    assert graph.neighbours(1, "knows").nodes == (2,)
    assert graph.restore_node(3) == NodeChanged(True)
    assert graph.neighbours(1, "knows").nodes == (2, 3)
    assert graph.remove_node(1) == NodeChanged(True) and graph.get_node(1) == Miss()
    assert graph.count(1, "knows") == NodeCount(2)


def test_several_queries_in_one_call(graph):
    answers = graph.query(
        [
            GraphQuery.count(1, "knows"),
            GraphQuery.distances(1, "knows", [4]),
            GraphQuery.count(1, "unknown"),
            GraphQuery.paths(1, 4, "knows"),
            GraphQuery.count(1, "knows").in_graph("unknown"),
            GraphQuery.count(0, "knows"),
            GraphQuery.neighbours(1, "knows", limit=1),
            GraphQuery.get_edges(1, "knows", [2]),
            GraphQuery.mutual(1, 2, "knows"),
            GraphQuery.mutual_count(1, 2, "knows"),
            GraphQuery.combine(SetOperation.UNION, [(1, "knows")]),
            GraphQuery.second_degree(1, "knows"),
            GraphQuery.second_degree_count(1, "knows"),
            GraphQuery.suggest(1, "knows"),
        ]
    )
    assert isinstance(answers, GraphAnswers) and len(answers.results) == 14
    results = answers.results
    assert results[:2] == (NodeCount(2), Distances((2,), partial=False))
    assert results[3] == Paths(((1, 3, 4),), partial=False)
    for result, kind in [
        (results[2], ErrorCode.NOT_FOUND_GRAPH),
        (results[4], ErrorCode.NOT_FOUND_GRAPH),
        (results[5], ErrorCode.INVALID_ARGUMENT),
    ]:
        assert code(result) is kind and result.message.startswith("cannot execute Count at 127.0.0.1:")
    page, edges, mutual, mutual_count, union, second, second_count, suggestions = results[6:]
    assert (page.nodes, edges.edges[0].state, mutual.nodes) == ((2,), EdgeState.LIVE, (3,))
    assert (mutual_count, union.nodes, second.nodes, second_count) == (NodeCount(1), (2, 3), (4,), NodeCount(1))
    assert suggestions.suggestions == (Suggestion(4, 1),)
    # The next pages of several queries are queries too.
    following = GraphQuery.neighbours(1, "knows", limit=1).after(page)
    (last,) = graph.query([following]).results
    assert last.nodes == (3,) and following.after(last) is None and following.after(results[2]) is None
    assert code(graph.query([])) is ErrorCode.INVALID_ARGUMENT


def test_replies_to_other_queries_are_refused():
    result = graph_pb2.GraphQueryResult(count=graph_pb2.GraphCountReply(count=1))
    reply = graph_pb2.GraphQueryReply(results=[result])
    queries = [GraphQuery.count(1, "knows"), GraphQuery.paths(1, 2, "knows")]
    call, _ = batch("g", queries[:1], lambda *_: pytest.fail("no query failed"))
    assert call.parse(reply).results == (NodeCount(1),)
    for others in (queries, queries[1:]):
        call, _ = batch("g", others, lambda *_: pytest.fail("no query failed"))
        with pytest.raises(BadReply):
            call.parse(reply)


def test_errors_name_their_remedies(both, graph):
    for result in (both.graph("unknown").count(1, "knows"), graph.count(1, "unknown")):
        assert code(result) is ErrorCode.NOT_FOUND_GRAPH and not result.retryable
        assert "declare_type" in result.remedy and "G.TYPE" not in result.message
    assert graph.declare_type("one", cap=1) == Success()
    full = graph.add_edges("one", [(1, 2), (1, 3)])
    assert code(full) is ErrorCode.FAILED_PRECONDITION and "1 edges were changed before" in full.message
    denied = graph.add_edges("knows", [Edge(1, 2, attributes={"stars": b"5"})])
    assert code(denied) is ErrorCode.FAILED_PRECONDITION and "get_type" not in denied.remedy
    assert code(graph.distances(1, "knows", [2], distance_max=9)) is ErrorCode.INVALID_ARGUMENT
    absent = both.with_cache("absent").graph("g").count(1, "knows")
    assert code(absent) is ErrorCode.NOT_FOUND_CACHE and "create_cache" in absent.remedy


def test_arguments_out_of_range_are_refused(both, graph):
    with pytest.raises(ValueError, match="its name is empty"):
        both.graph("")
    for call in (
        lambda: graph.count(1 << 64, "knows"),
        lambda: graph.count(-1, "knows"),
        lambda: graph.add_edges("knows", [(1, 1 << 64)]),
        lambda: graph.neighbours(1, "knows", limit=0),
        lambda: graph.paths(1, 2, "knows", k=0),
        lambda: graph.suggest(1, "knows", budget=1 << 32),
        lambda: graph.set_node(1, "person", time_ms=-1),
    ):
        with pytest.raises(ValueError, match="out of range"):
            call()
    with pytest.raises(TypeError, match="give str"):
        graph.count(1, b"knows")


def test_figures(both, graph, name):
    stats = graph.stats()
    assert stats.types == ("knows",) and stats.figures["nodes"] == 5
    store = both.graph_store_stats()
    assert name in store.graphs and store.figures["edges_changed"] >= 5


def test_changes_are_repeated_only_with_a_time(connect):
    budget = RetryBudget(percent=10, burst=1_000)
    client = connect(f"127.0.0.1:{free_port()}", CONFIGURATION.with_retry_budget(budget))
    graph = client.graph("g")
    timed = [Edge(1, 2, time_ms=5), Edge(1, 3, time_ms=6)]
    for call, repeated in [
        (lambda: graph.count(1, "knows"), True),
        (lambda: graph.declare_type("knows"), True),
        (lambda: graph.query([GraphQuery.count(1, "knows")]), True),
        (lambda: graph.add_edges("knows", [(1, 2)]), False),
        (lambda: graph.add_edges("knows", [(1, 2)], time_ms=5), True),
        (lambda: graph.remove_edges("knows", timed), True),
        (lambda: graph.remove_edges("knows", [*timed, (1, 4)]), False),
        (lambda: graph.set_node(1, "person"), False),
        (lambda: graph.set_node(1, "person", time_ms=5), True),
        (lambda: graph.remove_node(1), False),
        (lambda: graph.remove_node(1, time_ms=5), True),
        (lambda: graph.archive_node(1), False),
        (lambda: graph.restore_node(1, time_ms=5), True),
        (lambda: graph.stats(), True),
    ]:
        before = client.metrics().retries
        assert code(call()) is ErrorCode.UNAVAILABLE
        assert (client.metrics().retries > before) is repeated


def test_calls_have_the_names_of_the_schema_in_metrics(server, graph, name):
    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        client.graph(name).neighbours(1, "knows")
        client.graph(name).query([GraphQuery.count(1, "knows")])
        client.graph(name).count(1, "unknown")
        methods = client.metrics().methods
        assert {method: each.calls for method, each in methods.items()} == {"Range": 1, "Query": 1, "Count": 1}
        assert methods["Count"].errors == {"NOT_FOUND_GRAPH": 1}


def test_pages_with_asyncio(server, graph, name):
    async def nodes():
        async with CacheClientAsync(server.grpc_address, CONFIGURATION) as client:
            of_tasks = client.graph(name)
            assert repr(of_tasks) == f"GraphAsync('{name}')"
            found = []
            async for page in of_tasks.neighbour_pages(3, "knows", limit=2):
                assert not isinstance(page, CacheError)
                found += page.nodes
            return found

    assert asyncio.run(nodes()) == [1, 2, 4]
