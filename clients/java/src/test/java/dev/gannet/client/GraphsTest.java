package dev.gannet.client;

import static dev.gannet.client.Expect.error;
import static dev.gannet.client.Expect.got;
import static dev.gannet.client.Expect.success;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gannet.v1.DistanceReply;
import dev.gannet.v1.GetEdgesReply;
import dev.gannet.v1.GraphCountReply;
import dev.gannet.v1.GraphEdge;
import dev.gannet.v1.GraphQueryResult;
import dev.gannet.v1.NeighbourPage;
import io.grpc.Status;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/**
 * All calls on graphs, against a real server. The tests share a graph, because each graph takes a part of the store.
 * Each test declares its own edge types.
 */
class GraphsTest {
    private static final String CACHE = "default";
    private static final String NAME = "graphs of java";
    /** The greatest identifier of a node: 2^64 - 2. */
    private static final long GREATEST = -2;

    private static CacheClient client;
    private static Graph graph;

    @BeforeAll
    static void connect() {
        client = Servers.client(Servers.shared(), Configurations.Laptop.v1().withMetrics(true));
        graph = client.graph(CACHE, NAME);
    }

    /** A call of the schema that no test executes could not work at all. */
    @AfterAll
    static void everyCallOfGraphsWasExecuted() {
        Set<String> executed = client.metrics().methods().keySet();
        client.close();
        List<String> missing = Method.all().stream().filter(each -> each.service().equals("Graph"))
                .map(Method::name).filter(name -> !executed.contains(name)).toList();
        assertEquals(List.of(), missing);
    }

    private static void declare(String type) {
        success(graph.declareType(EdgeType.of(type).undirected()));
    }

    private static List<Edge> edges(long... pairs) {
        List<Edge> edges = new ArrayList<>();
        for (int at = 0; at < pairs.length; at += 2) {
            edges.add(Edge.of(pairs[at], pairs[at + 1]));
        }
        return edges;
    }

    private static void add(String type, long... pairs) {
        changed(pairs.length / 2, graph.addEdges(type, edges(pairs)));
    }

    private static void changed(long count, CompletableFuture<EdgesChangedResult> call) {
        assertEquals(new EdgesChangedResult.Success(count), got(call));
    }

    private static void count(long expected, CompletableFuture<NodeCountResult> call) {
        assertEquals(new NodeCountResult.Success(expected, false), got(call));
    }

    private static NeighbourPageResult.Success page(GraphQuery<NeighbourPageResult> query) {
        return assertInstanceOf(NeighbourPageResult.Success.class, got(graph.execute(query)));
    }

    private static List<EdgeInfo> infos(long source, String type, Long... destinations) {
        return assertInstanceOf(EdgesResult.Success.class,
                got(graph.getEdges(source, type, List.of(destinations)))).edges();
    }

    private static Instant at(long ms) {
        return Instant.ofEpochMilli(ms);
    }

    @Test
    void typeIsDeclaredAgainOnlyInItsForm() {
        declare("declared");
        declare("declared");
        error(ErrorCode.FAILED_PRECONDITION, graph.declareType(EdgeType.of("declared")), "direction");
        success(graph.declareType(EdgeType.of("follows")));
        success(graph.declareType(EdgeType.of("followed").inverseOf("follows")));
        add("follows", 1, 2);
        count(1, graph.count(2, "followed"));
        count(0, graph.count(2, "follows"));
        assertEquals(NAME, graph.name());
    }

    @Test
    void nodesAreUnsigned() {
        declare("unsigned");
        changed(4, graph.addEdges("unsigned", edges(1, 2, 2, 3, 3, 4, 1, 3)));
        changed(0, graph.addEdges("unsigned", edges(1, 2)));
        count(2, graph.count(1, "unsigned"));
        changed(1, graph.addEdges("unsigned", edges(GREATEST, 5)));
        assertEquals(List.of(GREATEST), page(GraphQuery.neighbours(5, "unsigned")).nodes());
        assertEquals(List.of(5L), page(GraphQuery.neighbours(GREATEST, "unsigned")).nodes());
        assertEquals("18446744073709551614", Long.toUnsignedString(GREATEST));
        error(ErrorCode.INVALID_ARGUMENT, graph.count(0, "unsigned"), "node 0");
        error(ErrorCode.INVALID_ARGUMENT, graph.count(-1, "unsigned"), "18446744073709551615");
    }

    @Test
    void edgesHaveStates() {
        declare("states");
        add("states", 1, 2, 1, 3);
        List<EdgeInfo> found = infos(1, "states", 2L, 9L);
        assertEquals(EdgeState.LIVE, found.get(0).state());
        assertTrue(found.get(0).time().isAfter(Instant.EPOCH));
        assertEquals(new EdgeInfo(EdgeState.ABSENT, Instant.EPOCH, Map.of()), found.get(1));
        changed(1, graph.removeEdges("states", edges(1, 2)));
        assertEquals(EdgeState.REMOVED, infos(1, "states", 2L).get(0).state());
        changed(1, graph.archiveEdges("states", edges(1, 3)));
        assertEquals(EdgeState.ARCHIVED, infos(1, "states", 3L).get(0).state());
        assertEquals(List.of(3L),
                page(GraphQuery.neighbours(1, "states").withState(EdgeState.ARCHIVED)).nodes());
        changed(1, graph.restoreEdges("states", edges(1, 3)));
        assertEquals(EdgeState.LIVE, infos(1, "states", 3L).get(0).state());
    }

    @Test
    void edgesHaveAttributes() {
        success(graph.declareType(EdgeType.of("rated").undirected().withAttributes("stars", "note")));
        Bytes note = Bytes.of((byte) 0xff, (byte) 0);
        changed(1, graph.addEdges("rated",
                List.of(Edge.of(1, 2).withAttribute("stars", "5").withAttribute("note", note))));
        Map<String, Bytes> attributes = Map.of("stars", Bytes.of("5"), "note", note);
        assertEquals(attributes, infos(1, "rated", 2L).get(0).attributes());
        NeighbourPageResult.Success page = page(GraphQuery.neighbours(1, "rated").withAttributes());
        assertEquals(List.of(2L), page.nodes());
        assertEquals(attributes, page.neighbours().get(0).attributes());
        assertTrue(page.neighbours().get(0).time().isAfter(Instant.EPOCH));
        assertEquals(List.of(), page(GraphQuery.neighbours(1, "rated")).neighbours());
        changed(1, graph.addEdges("rated", List.of(Edge.of(1, 3).negative())));
        assertEquals(EdgeState.NEGATIVE, infos(1, "rated", 3L).get(0).state());
        assertEquals(List.of(3L), page(GraphQuery.neighbours(1, "rated").withState(EdgeState.NEGATIVE)).nodes());
        assertEquals(List.of(2L), page(GraphQuery.neighbours(1, "rated")).nodes());
        // The type of an edge replaces that of the call.
        declare("other");
        changed(1, graph.addEdges("rated", List.of(Edge.of(7, 8).withType("other"))));
        count(1, graph.count(7, "other"));
    }

    @Test
    void newestTimeOfAnEdgeWins() {
        declare("timed");
        changed(1, graph.addEdges("timed", edges(1, 2), at(2_000)));
        changed(0, graph.removeEdges("timed", edges(1, 2), at(1_000)));
        assertEquals(new EdgeInfo(EdgeState.LIVE, at(2_000), Map.of()), infos(1, "timed", 2L).get(0));
        changed(1, graph.removeEdges("timed", edges(1, 2), at(3_000)));
        // Its own time replaces that of the call.
        changed(0, graph.restoreEdges("timed", List.of(Edge.of(1, 2).withTime(at(2_500))), at(9_000)));
        changed(1, graph.restoreEdges("timed", edges(1, 2), at(4_000)));
        changed(1, graph.archiveEdges("timed", edges(1, 2), at(5_000)));
        assertEquals(EdgeState.ARCHIVED, infos(1, "timed", 2L).get(0).state());
        assertThrows(IllegalArgumentException.class, () -> graph.addEdges("timed", edges(1, 2), at(-1)));
        assertThrows(IllegalArgumentException.class, () -> graph.addEdges("timed", edges(1, 2), Instant.MAX));
    }

    @Test
    void pagesOfATypeThatIsSortedByTime() {
        success(graph.declareType(EdgeType.of("recent").sortByTime()));
        for (long node = 2; node <= 5; node++) {
            changed(1, graph.addEdges("recent", edges(1, node), at(node * 1_000)));
        }
        GraphQuery.Neighbours query = GraphQuery.neighbours(1, "recent");
        assertEquals(List.of(5L, 4L, 3L, 2L), page(query).nodes());
        assertEquals(List.of(2L, 3L, 4L, 5L), page(query.reversed()).nodes());
        assertEquals(List.of(4L, 3L), page(query.withTimes(at(3_000), at(4_000))).nodes());
        declare("by identifier");
        error(ErrorCode.FAILED_PRECONDITION, graph.execute(
                GraphQuery.neighbours(1, "by identifier").withTimes(at(0), at(1))), "cannot page by time");
    }

    private static long[] star(long hub, long first, int count) {
        return LongStream.range(first, first + count).flatMap(node -> LongStream.of(hub, node)).toArray();
    }

    private static <R extends GraphResult> List<R> allPages(GraphQuery.Paged<R> query) {
        List<R> pages = new ArrayList<>();
        graph.pages(query).forEach(pages::add);
        return pages;
    }

    @Test
    void pagesHaveEachNodeOnce() {
        declare("paged");
        add("paged", star(1, 100, 10));
        GraphQuery.Neighbours query = GraphQuery.neighbours(1, "paged").withLimit(3);
        List<NeighbourPageResult> pages = allPages(query);
        assertEquals(4, pages.size());
        List<Long> nodes = new ArrayList<>();
        pages.forEach(each -> nodes.addAll(((NeighbourPageResult.Success) each).nodes()));
        assertEquals(LongStream.range(100, 110).boxed().toList(), nodes);
        String cursor = ((NeighbourPageResult.Success) pages.get(0)).cursor();
        assertEquals(List.of(103L, 104L, 105L), page(query.after(cursor)).nodes());
        assertEquals(3, allPages(query.after(cursor)).size());
        error(ErrorCode.INVALID_ARGUMENT, graph.execute(
                GraphQuery.combine(CombineOperation.UNION, List.of(new NodeList(1, "paged"))).after(cursor)), "cursor");
        // Each of the neighbours has the other nine at distance 2.
        GraphQuery.SecondDegree second = GraphQuery.secondDegree(100, "paged").withLimit(5);
        GraphQuery.Combine union = GraphQuery.combine(
                CombineOperation.UNION, List.of(new NodeList(1, "paged"), new NodeList(100, "paged"))).withLimit(6);
        assertEquals(List.of(9, 11), List.of(nodesOf(allPages(second)), nodesOf(allPages(union))));
    }

    /** Returns the number of different nodes of at least two pages. */
    private static int nodesOf(List<NodePageResult> pages) {
        assertTrue(pages.size() >= 2, pages::toString);
        List<Long> nodes = new ArrayList<>();
        pages.forEach(each -> nodes.addAll(((NodePageResult.Success) each).nodes()));
        assertEquals(nodes.size(), new HashSet<>(nodes).size());
        return nodes.size();
    }

    @Test
    void failureIsTheLastOfThePages() {
        List<NeighbourPageResult> pages = allPages(GraphQuery.neighbours(1, "undeclared"));
        assertEquals(1, pages.size());
        assertEquals(ErrorCode.NOT_FOUND_GRAPH, ((NeighbourPageResult.Error) pages.get(0)).code());
        var iterator = graph.pages(GraphQuery.neighbours(1, "undeclared")).iterator();
        iterator.next();
        assertFalse(iterator.hasNext());
        assertThrows(java.util.NoSuchElementException.class, iterator::next);
    }

    @Test
    void listsAreCombined() {
        declare("lists");
        add("lists", 1, 10, 1, 11, 1, 12, 2, 11, 2, 12, 2, 13);
        assertEquals(new MutualNodesResult.Success(List.of(11L, 12L), false), got(graph.mutual(1, 2, "lists")));
        count(2, graph.mutualCount(1, 2, "lists"));
        assertEquals(new MutualNodesResult.Success(List.of(11L), false),
                got(graph.execute(GraphQuery.mutual(1, 2, "lists").withLimit(1))));
        List<NodeList> both = List.of(new NodeList(1, "lists"), new NodeList(2, "lists"));
        Map<CombineOperation, Set<Long>> expected = Map.of(
                CombineOperation.INTERSECTION, Set.of(11L, 12L), CombineOperation.DIFFERENCE, Set.of(10L),
                CombineOperation.UNION, Set.of(10L, 11L, 12L, 13L));
        expected.forEach((operation, nodes) -> {
            NodePageResult.Success page =
                    assertInstanceOf(NodePageResult.Success.class, got(graph.combine(operation, both)));
            assertEquals(nodes, new HashSet<>(page.nodes()));
            assertFalse(page.isPartial());
            assertEquals("", page.cursor());
        });
    }

    @Test
    void distancesAndPaths() {
        declare("walks");
        add("walks", 1, 2, 2, 4, 1, 3, 3, 5, 5, 4);
        OptionalInt none = OptionalInt.empty();
        assertEquals(new DistancesResult.Success(
                List.of(OptionalInt.of(0), OptionalInt.of(1), OptionalInt.of(2), none), false),
                got(graph.distances(1, "walks", List.of(1L, 2L, 4L, 77L))));
        assertEquals(new DistancesResult.Success(List.of(OptionalInt.of(1), none), false),
                got(graph.execute(GraphQuery.distances(1, "walks", List.of(2L, 4L)).withMax(1))));
        assertEquals(new PathsResult.Success(List.of(List.of(1L, 2L, 4L)), false), got(graph.paths(1, 4, "walks")));
        assertEquals(new PathsResult.Success(List.of(List.of(1L, 2L, 4L), List.of(1L, 3L, 5L, 4L)), false),
                got(graph.execute(GraphQuery.paths(1, 4, "walks").withCount(2))));
        assertEquals(new PathsResult.Success(List.of(List.of(1L, 2L, 4L)), false),
                got(graph.execute(GraphQuery.paths(1, 4, "walks").withCount(2).withMax(2))));
    }

    @Test
    void nodesAtDistanceTwo() {
        declare("second");
        add("second", 1, 2, 1, 3, 2, 4, 3, 4, 3, 5);
        NodePageResult.Success page =
                assertInstanceOf(NodePageResult.Success.class, got(graph.secondDegree(1, "second")));
        assertEquals(Set.of(4L, 5L), new HashSet<>(page.nodes()));
        count(2, graph.secondDegreeCount(1, "second"));
        count(2, graph.execute(GraphQuery.secondDegreeCount(1, "second").withStale(10)));
        assertEquals(
                new SuggestionsResult.Success(List.of(new Suggestion(4, 2), new Suggestion(5, 1)), false),
                got(graph.suggest(1, "second")));
        assertEquals(new SuggestionsResult.Success(List.of(new Suggestion(4, 2)), false),
                got(graph.execute(GraphQuery.suggest(1, "second").withCount(1))));
    }

    @Test
    void smallBudgetMakesAResultPartial() {
        declare("budget");
        add("budget", star(1, 200, 50));
        GraphQuery.SecondDegreeCount query = GraphQuery.secondDegreeCount(200, "budget");
        NodeCountResult.Success part =
                assertInstanceOf(NodeCountResult.Success.class, got(graph.execute(query.withBudget(1))));
        assertTrue(part.isPartial() && part.count() < 49, part::toString);
        GraphQuery.SecondDegree page = GraphQuery.secondDegree(200, "budget").withBudget(1);
        assertTrue(isPartial(page));
        count(49, graph.execute(query.withBudget(1_000)));
        // The server has the set in its cache, which misses the next edge: a change in each direction.
        add("budget", 1, 250);
        assertTrue(isPartial(page));
        assertFalse(isPartial(page.withStale(2)));
        DistancesResult.Success distances = assertInstanceOf(DistancesResult.Success.class, got(
                graph.execute(GraphQuery.distances(200, "budget", List.of(201L)).withBudget(1))));
        assertEquals(new DistancesResult.Success(List.of(OptionalInt.empty()), true), distances);
        assertEquals(new PathsResult.Success(List.of(), true),
                got(graph.execute(GraphQuery.paths(200, 201, "budget").withBudget(1))));
        assertTrue(assertInstanceOf(SuggestionsResult.Success.class,
                got(graph.execute(GraphQuery.suggest(200, "budget").withBudget(1)))).isPartial());
        add("budget", star(2, 200, 50));
        assertTrue(assertInstanceOf(MutualNodesResult.Success.class,
                got(graph.execute(GraphQuery.mutual(1, 2, "budget").withBudget(1)))).isPartial());
        assertTrue(assertInstanceOf(NodeCountResult.Success.class,
                got(graph.execute(GraphQuery.mutualCount(1, 2, "budget").withBudget(1)))).isPartial());
    }

    private static boolean isPartial(GraphQuery<NodePageResult> query) {
        return assertInstanceOf(NodePageResult.Success.class, got(graph.execute(query))).isPartial();
    }

    private static void changedNode(boolean isChanged, CompletableFuture<NodeChangedResult> call) {
        assertEquals(new NodeChangedResult.Success(isChanged), got(call));
    }

    @Test
    void nodesHaveObjectsAndMarks() {
        declare("objects");
        add("objects", 900, 901);
        assertEquals(new NodeResult.Miss(), got(graph.getNode(900)));
        NodeObject object = NodeObject.of("person").withBin("name", "Ann")
                .withBin(Bytes.of((byte) 0xfe), Bytes.of((byte) 0xff));
        changedNode(true, graph.setNode(900, object, at(2_000)));
        assertEquals(new NodeResult.Hit(object), got(graph.getNode(900)));
        assertEquals("person", object.typeString());
        assertEquals("Ann", object.binStrings().get("name"));
        changedNode(false, graph.setNode(900, NodeObject.of("thing"), at(1_000)));
        changedNode(true, graph.setNode(900, NodeObject.of(Bytes.of((byte) 0xff))));
        assertEquals(Bytes.of((byte) 0xff), ((NodeResult.Hit) got(graph.getNode(900))).object().type());
        changedNode(true, graph.archiveNode(901));
        changedNode(false, graph.archiveNode(901));
        assertEquals(List.of(), page(GraphQuery.neighbours(900, "objects")).nodes());
        changedNode(true, graph.restoreNode(901));
        assertEquals(List.of(901L), page(GraphQuery.neighbours(900, "objects")).nodes());
        Instant later = Instant.now().plusSeconds(3_600);
        changedNode(true, graph.archiveNode(901, later));
        changedNode(true, graph.restoreNode(901, later.plusMillis(1)));
        changedNode(true, graph.removeNode(900));
        assertEquals(new NodeResult.Miss(), got(graph.getNode(900)));
        changedNode(false, graph.removeNode(900, later));
        assertThrows(IllegalArgumentException.class, () -> graph.removeNode(900, at(-1)));
    }

    private static GraphQueriesResult.Success results(GraphQuery<?>... queries) {
        return assertInstanceOf(GraphQueriesResult.Success.class, got(graph.query(List.of(queries))));
    }

    @Test
    void failedQueryOfABatchHasAnErrorInItsPlace() {
        declare("batch");
        add("batch", 1, 2, 2, 3);
        List<GraphResult> results = results(
                GraphQuery.count(2, "batch"), GraphQuery.distances(1, "batch", List.of(3L)),
                GraphQuery.paths(1, 3, "batch"), GraphQuery.count(2, "undeclared"),
                GraphQuery.count(2, "batch").inGraph("absent of java"), GraphQuery.neighbours(0, "batch"),
                GraphQuery.getEdges(1, "batch", List.of(9L)), GraphQuery.neighbours(2, "batch"),
                GraphQuery.secondDegreeCount(1, "batch"), GraphQuery.suggest(1, "batch"),
                GraphQuery.mutual(1, 3, "batch"), GraphQuery.mutualCount(1, 3, "batch"),
                GraphQuery.combine(CombineOperation.UNION, List.of(new NodeList(1, "batch"))),
                GraphQuery.secondDegree(1, "batch")).results();
        assertEquals(new NodeCountResult.Success(2, false), results.get(0));
        assertEquals(new DistancesResult.Success(List.of(OptionalInt.of(2)), false), results.get(1));
        assertEquals(new PathsResult.Success(List.of(List.of(1L, 2L, 3L)), false), results.get(2));
        for (int at : new int[] {3, 4}) {
            CacheError error = assertInstanceOf(NodeCountResult.Error.class, results.get(at)).error();
            Expect.check(ErrorCode.NOT_FOUND_GRAPH, error, "cannot execute Count at ", "declareType");
        }
        CacheError error = assertInstanceOf(NeighbourPageResult.Error.class, results.get(5)).error();
        Expect.check(ErrorCode.INVALID_ARGUMENT, error, "cannot execute Range at ", "node 0");
        assertEquals(
                new EdgesResult.Success(List.of(new EdgeInfo(EdgeState.ABSENT, Instant.EPOCH, Map.of()))),
                results.get(6));
        assertEquals(List.of(1L, 3L), assertInstanceOf(NeighbourPageResult.Success.class, results.get(7)).nodes());
        assertEquals(new NodeCountResult.Success(1, false), results.get(8));
        assertEquals(new SuggestionsResult.Success(List.of(new Suggestion(3, 1)), false), results.get(9));
        assertEquals(new MutualNodesResult.Success(List.of(2L), false), results.get(10));
        assertEquals(new NodeCountResult.Success(1, false), results.get(11));
        assertEquals(new NodePageResult.Success(List.of(2L), "", false), results.get(12));
        assertEquals(new NodePageResult.Success(List.of(3L), "", false), results.get(13));
        error(ErrorCode.INVALID_ARGUMENT, graph.query(List.of()), "give 1 to 64");
    }

    /** Returns the result of a query whose place in a reply has this one. */
    private static GraphResult read(GraphQuery<?> query, GraphQueryResult.Builder result) {
        return query.request().resultOf(result.build(), client.engine);
    }

    @Test
    void replyThatDoesNotFitItsQueryIsNoResult() {
        GraphQuery<?> count = GraphQuery.count(1, "t");
        assertEquals(new NodeCountResult.Success(7, false),
                read(count, GraphQueryResult.newBuilder().setCount(GraphCountReply.newBuilder().setCount(7))));
        GraphQueryResult.Builder page = GraphQueryResult.newBuilder().setRange(NeighbourPage.getDefaultInstance());
        assertThrows(BadReplyException.class, () -> read(count, page));
        assertThrows(BadReplyException.class, () -> read(count, GraphQueryResult.newBuilder()));
        GraphQuery<?> edges = GraphQuery.getEdges(1, "t", List.of(2L));
        GetEdgesReply.Builder none = GetEdgesReply.newBuilder();
        assertThrows(BadReplyException.class, () -> read(edges, GraphQueryResult.newBuilder().setGetEdges(none)));
        GetEdgesReply.Builder unknown = GetEdgesReply.newBuilder().addEdges(GraphEdge.newBuilder().setStateValue(5));
        assertThrows(BadReplyException.class, () -> read(edges, GraphQueryResult.newBuilder().setGetEdges(unknown)));
        GraphQuery<?> distances = GraphQuery.distances(1, "t", List.of(2L, 3L));
        DistanceReply.Builder one = DistanceReply.newBuilder().addDistances(1);
        assertThrows(BadReplyException.class, () -> read(distances, GraphQueryResult.newBuilder().setDistance(one)));
    }

    @Test
    void queryNamesAnotherGraph() {
        declare("here");
        add("here", 1, 2);
        Graph other = client.graph(CACHE, "another of java");
        success(other.declareType(EdgeType.of("there")));
        List<GraphQuery<?>> queries = List.of(
                GraphQuery.count(1, "here"), GraphQuery.getEdges(1, "here", List.of(2L)),
                GraphQuery.neighbours(1, "here"), GraphQuery.mutual(1, 2, "here"),
                GraphQuery.mutualCount(1, 2, "here"),
                GraphQuery.combine(CombineOperation.UNION, List.of(new NodeList(1, "here"))),
                GraphQuery.distances(1, "here", List.of(2L)), GraphQuery.paths(1, 2, "here"),
                GraphQuery.secondDegree(1, "here"), GraphQuery.secondDegreeCount(1, "here"),
                GraphQuery.suggest(1, "here"));
        for (GraphQuery<?> query : queries) {
            error(ErrorCode.NOT_FOUND_GRAPH, other.execute(query));
            assertEquals(got(graph.execute(query)), got(other.execute(query.inGraph(NAME))));
        }
    }

    @Test
    void errorsNameTheirRemedies() {
        CacheError unknown = error(ErrorCode.NOT_FOUND_GRAPH, client.graph(CACHE, "absent of java").count(1, "knows"),
                "cannot find the graph", "declareType");
        assertFalse(unknown.message().contains("G.TYPE") || unknown.isRetryable(), unknown::message);
        error(ErrorCode.NOT_FOUND_GRAPH, graph.count(1, "undeclared"), "cannot find the edge type", "declareType");
        success(graph.declareType(EdgeType.of("capped").withCap(1)));
        error(ErrorCode.FAILED_PRECONDITION, graph.addEdges("capped", edges(1, 2, 1, 3)),
                "the cap", "1 edges were changed");
        error(ErrorCode.NOT_FOUND_CACHE, client.graph("absent", NAME).count(1, "capped"), "createCache");
        error(ErrorCode.LIMIT_EXCEEDED, graph.addEdges("capped", largeEdges()), "above the maximum of");
        Consumer<Executable> refused = call -> assertThrows(IllegalArgumentException.class, call);
        refused.accept(() -> client.graph(CACHE, ""));
        refused.accept(() -> GraphQuery.count(1, "capped").inGraph(""));
        refused.accept(() -> GraphQuery.neighbours(1, "capped").withLimit(0));
        refused.accept(() -> GraphQuery.secondDegree(1, "capped").withBudget(-1));
        refused.accept(() -> EdgeType.of("t").withCap(0));
        refused.accept(() -> EdgeType.of("t").withCap(1L << 32));
        error(ErrorCode.INVALID_ARGUMENT, graph.execute(GraphQuery.neighbours(1, "capped").withLimit(5_000)), "4096");
    }

    /** The general remedies are for items, such as to delete one. */
    @Test
    void errorOfAGraphWithoutARemedyHasNoneOfItems() {
        String text = "this server has no graph store: start it with --graph-memory, as in 256MiB";
        for (Status status : List.of(Status.FAILED_PRECONDITION, Status.RESOURCE_EXHAUSTED)) {
            CacheError error = client.engine.errorOf(Methods.GRAPH_COUNT, status.withDescription(text), 0);
            assertTrue(error.message().endsWith(
                    text + "; read the message, and docs/graph/README.md for the limits"), error::message);
        }
        Status elsewhere = Status.NOT_FOUND.withDescription("the cache does not exist");
        assertEquals(ErrorCode.NOT_FOUND_CACHE, client.engine.errorOf(Methods.GRAPH_COUNT, elsewhere, 0).code());
    }

    /** Returns edges whose message is longer than the client sends. */
    private static List<Edge> largeEdges() {
        Bytes mebibyte = Bytes.of(new byte[1 << 20]);
        Edge edge = Edge.of(1, 2);
        for (int at = 0; at < 11; at++) {
            edge = edge.withAttribute("a", mebibyte);
        }
        return List.of(edge);
    }

    /** Java encodes a lone surrogate as "?": two names would be one, also in the parts of a message. */
    @Test
    void loneSurrogatesInPartsOfARequestAreRefused() {
        String bad = "a\ud83d";
        String text = "has a lone surrogate";
        error(ErrorCode.INVALID_ARGUMENT, client.graph(CACHE, bad).count(1, "t"), "the text of graph", text);
        error(ErrorCode.INVALID_ARGUMENT, graph.count(1, bad), "the text of type", text);
        error(ErrorCode.INVALID_ARGUMENT, graph.query(List.of(GraphQuery.count(1, bad))), "the text of type", text);
        error(ErrorCode.INVALID_ARGUMENT,
                graph.combine(CombineOperation.UNION, List.of(new NodeList(1, bad))), "the text of type", text);
        error(ErrorCode.INVALID_ARGUMENT,
                graph.addEdges("t", List.of(Edge.of(1, 2).withAttribute(bad, "v"))), "the text of name", text);
        error(ErrorCode.INVALID_ARGUMENT,
                graph.declareType(EdgeType.of("t").withAttributes("a", bad)), "the text of attributes", text);
        assertThrows(IllegalArgumentException.class, () -> Edge.of(1, 2).withAttribute("a", bad));
        assertThrows(IllegalArgumentException.class, () -> client.topicPublish(CACHE, "graphs", bad));
    }

    @Test
    void figuresOfTheGraphAndTheStore() {
        declare("counted");
        add("counted", 1, 2);
        GraphStatsResult.Success stats = assertInstanceOf(GraphStatsResult.Success.class, got(graph.stats()));
        assertTrue(stats.types().contains("counted"), stats::toString);
        assertTrue(stats.figures().get("nodes") >= 2, stats::toString);
        GraphStoreStatsResult.Success store =
                assertInstanceOf(GraphStoreStatsResult.Success.class, got(client.graphStoreStats(CACHE)));
        assertTrue(store.graphs().contains(NAME) && !store.figures().isEmpty(), store::toString);
    }

    private static CacheClient failing(String method) {
        return Servers.client(Servers.shared(), Configurations.Laptop.v1().withMetrics(true).withMetadata(Map.of(
                "request-id", UUID.randomUUID().toString(), "return-error", "unavailable", "error-rpcs", method,
                "error-count", "1")));
    }

    /** Runs calls on graphs of a client whose first call of a method fails, and returns the number of retries. */
    private static long retriesOf(String method, Consumer<Graph> calls) {
        try (CacheClient own = failing(method)) {
            calls.accept(own.graph(CACHE, NAME));
            return own.metrics().retries();
        }
    }

    /** The server would give a repeated change another time, by which it could win over that of another client. */
    @Test
    void changesAreRepeatedOnlyWithATime() {
        declare("retried");
        assertEquals(1, retriesOf("count", own -> count(0, own.count(1, "retried"))));
        assertEquals(1, retriesOf("query", own -> assertInstanceOf(GraphQueriesResult.Success.class,
                got(own.query(List.of(GraphQuery.count(1, "retried")))))));
        assertEquals(0, retriesOf("change",
                own -> error(ErrorCode.UNAVAILABLE, own.addEdges("retried", edges(1, 2)))));
        assertEquals(1, retriesOf("change", own -> changed(1, own.addEdges("retried", edges(1, 2), at(1_000)))));
        List<Edge> mixed = List.of(Edge.of(1, 3).withTime(at(1_000)), Edge.of(1, 4));
        assertEquals(0, retriesOf("change", own -> error(ErrorCode.UNAVAILABLE, own.removeEdges("retried", mixed))));
        assertEquals(1, retriesOf("change", own -> changed(1, own.addEdges("retried", mixed.subList(0, 1)))));
        assertEquals(0, retriesOf("set-node",
                own -> error(ErrorCode.UNAVAILABLE, own.setNode(910, NodeObject.of("t")))));
        assertEquals(1, retriesOf("set-node",
                own -> changedNode(true, own.setNode(910, NodeObject.of("t"), at(1_000)))));
        assertEquals(0, retriesOf("mark-node", own -> error(ErrorCode.UNAVAILABLE, own.archiveNode(910))));
        assertEquals(1, retriesOf("mark-node", own -> changedNode(true, own.archiveNode(910, at(1_000)))));
        assertEquals(0, retriesOf("remove-node", own -> error(ErrorCode.UNAVAILABLE, own.removeNode(910))));
        assertEquals(1, retriesOf("remove-node", own -> changedNode(true, own.removeNode(910, at(2_000)))));
    }

    @Test
    void metricsHaveTheNamesOfTheSchema() {
        declare("metrics");
        try (CacheClient own = Servers.client(Servers.shared(), Configurations.Laptop.v1().withMetrics(true))) {
            got(own.graph(CACHE, NAME).neighbours(1, "metrics"));
            got(own.graph(CACHE, NAME).addEdges("metrics", edges(1, 2)));
            assertEquals(Set.of("Range", "Change"), own.metrics().methods().keySet());
        }
    }
}
