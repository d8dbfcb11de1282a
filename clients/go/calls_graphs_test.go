package gannet_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gannet "gannet.dev/client"
)

const lastNode = uint64(math.MaxUint64 - 1)

var graphs atomic.Int64

// dropAfter drops a graph by a Redis client when the test ends. A server has room for few graphs.
func dropAfter(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		open, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", shared.ports[1]))
		must(t, err)
		defer open.Close()
		fmt.Fprintf(open, "G.DROP %s\r\n", name)
		if reply, err := bufio.NewReader(open).ReadString('\n'); err != nil || reply != ":1\r\n" {
			t.Fatalf("G.DROP %s: %q %v", name, reply, err)
		}
	})
}

// graphOf returns a graph with an undirected type, and the edges of a path from 1 to 5 with a shortcut from 1 to 3.
func graphOf(t *testing.T, client *gannet.Client) *gannet.Graph {
	t.Helper()
	ctx, graph := testContext(t), client.Graph("default", fmt.Sprintf("g%d", graphs.Add(1)))
	must(t, graph.DeclareType(ctx, "knows", gannet.Undirected))
	dropAfter(t, graph.Name())
	changes(t, 5)(graph.AddEdges(ctx, "knows", edges([2]uint64{1, 2}, [2]uint64{2, 3}, [2]uint64{3, 4},
		[2]uint64{4, 5}, [2]uint64{1, 3})))
	return graph
}

func edges(pairs ...[2]uint64) []gannet.Edge {
	all := make([]gannet.Edge, len(pairs))
	for at, pair := range pairs {
		all[at] = gannet.Edge{Source: pair[0], Destination: pair[1]}
	}
	return all
}

// star returns edges from a node to count others.
func star(centre, first, count uint64) []gannet.Edge {
	var all []gannet.Edge
	for node := range count {
		all = append(all, gannet.Edge{Source: centre, Destination: first + node})
	}
	return all
}

// changes returns a function that fails the test unless this number of edges changed.
func changes(t *testing.T, want uint64) func(uint64, error) {
	return func(changed uint64, err error) {
		t.Helper()
		must(t, err)
		equal(t, changed, want)
	}
}

func isChanged(t *testing.T, want bool) func(bool, error) {
	return func(changed bool, err error) {
		t.Helper()
		must(t, err)
		equal(t, changed, want)
	}
}

func nodesOf(t *testing.T, graph *gannet.Graph, node uint64, edgeType string, o ...gannet.NeighbourOption) []uint64 {
	t.Helper()
	return got[*gannet.NeighbourPage](t)(graph.Neighbours(testContext(t), node, edgeType, o...)).Nodes
}

func statesOf(t *testing.T, graph *gannet.Graph, source uint64, nodes ...uint64) []string {
	t.Helper()
	var states []string
	for _, each := range got[*gannet.EdgesFound](t)(graph.GetEdges(testContext(t), source, "knows", nodes...)).Edges {
		states = append(states, each.State.String())
	}
	return states
}

func allOf[P any](t *testing.T, pages iter.Seq2[P, error]) []P {
	t.Helper()
	var all []P
	for page, err := range pages {
		must(t, err)
		all = append(all, page)
	}
	return all
}

func TestGraphTypesAreDeclaredOnce(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	must(t, graph.DeclareType(ctx, "knows", gannet.Undirected))
	failure := wantCode(t, graph.DeclareType(ctx, "knows"), gannet.CodeFailedPrecondition)
	equal(t, failure.Remedy, "use another name")
	must(t, graph.DeclareType(ctx, "follows"))
	must(t, graph.DeclareType(ctx, "followed by", gannet.InverseOf("follows")))
	changes(t, 1)(graph.AddEdges(ctx, "follows", edges([2]uint64{1, 2})))
	equal(t, got[*gannet.NodeCount](t)(graph.Count(ctx, 2, "followed by")), &gannet.NodeCount{Count: 1})
	equal(t, got[*gannet.NodeCount](t)(graph.Count(ctx, 2, "follows")), &gannet.NodeCount{})
}

func TestGraphEdges(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	changes(t, 0)(graph.AddEdges(ctx, "knows", edges([2]uint64{1, 2})))
	equal(t, got[*gannet.NodeCount](t)(graph.Count(ctx, 1, "knows")), &gannet.NodeCount{Count: 2})
	changes(t, 2)(graph.AddEdges(ctx, "knows", edges([2]uint64{lastNode, 1}, [2]uint64{lastNode, 2})))
	equal(t, nodesOf(t, graph, 1, "knows"), []uint64{2, 3, lastNode})
	equal(t, nodesOf(t, graph, lastNode, "knows"), []uint64{1, 2})

	live := got[*gannet.EdgesFound](t)(graph.GetEdges(ctx, 1, "knows", 2)).Edges[0]
	if live.State != gannet.EdgeLive || len(live.Attributes) != 0 || time.Since(live.Time).Abs() > time.Hour {
		t.Fatalf("the edge is %+v", live)
	}
	absent := got[*gannet.EdgesFound](t)(graph.GetEdges(ctx, 1, "knows", 9)).Edges[0]
	equal(t, absent, gannet.EdgeInfo{})
	changes(t, 1)(graph.RemoveEdges(ctx, "knows", edges([2]uint64{1, 2})))
	changes(t, 1)(graph.ArchiveEdges(ctx, "knows", edges([2]uint64{1, 3})))
	equal(t, statesOf(t, graph, 1, 2, 3, 9), []string{"removed", "archived", "absent"})
	changes(t, 1)(graph.RestoreEdges(ctx, "knows", edges([2]uint64{1, 3})))
	equal(t, statesOf(t, graph, 1, 3), []string{"live"})
}

func TestGraphAttributesAndNegativeEdges(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	must(t, graph.DeclareType(ctx, "rated", gannet.AttributeNames{"stars", "note"}))
	attributes := map[string][]byte{"stars": {0xff}, "note": []byte("good")}
	changes(t, 2)(graph.AddEdges(ctx, "rated", []gannet.Edge{
		{Source: 1, Destination: 7, Time: time.UnixMilli(5_000), Attributes: attributes},
		{Source: 1, Destination: 8, Time: time.UnixMilli(6_000), Negative: true},
	}))
	found := got[*gannet.EdgesFound](t)(graph.GetEdges(ctx, 1, "rated", 7, 8)).Edges
	equal(t, found[0], gannet.EdgeInfo{State: gannet.EdgeLive, Time: time.UnixMilli(5_000), Attributes: attributes})
	equal(t, [2]any{found[1].State, found[1].Time}, [2]any{gannet.EdgeNegative, time.UnixMilli(6_000)})
	page := got[*gannet.NeighbourPage](t)(graph.Neighbours(ctx, 1, "rated", gannet.WithAttributes))
	equal(t, page, &gannet.NeighbourPage{
		Nodes:      []uint64{7},
		Neighbours: []gannet.Neighbour{{Node: 7, Time: time.UnixMilli(5_000), Attributes: attributes}},
	})
	equal(t, nodesOf(t, graph, 1, "rated", gannet.InState(gannet.EdgeNegative)), []uint64{8})
	equal(t, len(got[*gannet.NeighbourPage](t)(graph.Neighbours(ctx, 1, "rated")).Neighbours), 0)
}

func TestNewestChangeOfAnEdgeWins(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	at := func(ms int64) gannet.At { return gannet.At(time.UnixMilli(ms)) }
	changes(t, 1)(graph.AddEdges(ctx, "knows", edges([2]uint64{10, 11}), at(2_000)))
	changes(t, 0)(graph.RemoveEdges(ctx, "knows", edges([2]uint64{10, 11}), at(1_000)))
	equal(t, statesOf(t, graph, 10, 11), []string{"live"})
	// The time of an edge precedes that of the call.
	newer := []gannet.Edge{{Source: 10, Destination: 11, Time: time.UnixMilli(3_000)}}
	changes(t, 1)(graph.RemoveEdges(ctx, "knows", newer, at(1_000)))
	_, err := graph.AddEdges(ctx, "knows", edges([2]uint64{10, 11}), at(-1))
	wantMessage(t, wantCode(t, err, gannet.CodeInvalidArgument), "is before 1970")

	must(t, graph.DeclareType(ctx, "likes"))
	changes(t, 2)(graph.AddEdges(ctx, "knows", []gannet.Edge{
		{Source: 20, Destination: 21}, {Source: 20, Destination: 22, Type: "likes"},
	}))
	equal(t, nodesOf(t, graph, 20, "knows"), []uint64{21})
	equal(t, nodesOf(t, graph, 20, "likes"), []uint64{22})
}

func TestGraphPagesInOrderOfTime(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	must(t, graph.DeclareType(ctx, "visited", gannet.SortedByTime))
	visits := star(1, 101, 5)
	for at := range visits {
		visits[at].Time = time.UnixMilli(1_000 * int64(at+1))
	}
	changes(t, 5)(graph.AddEdges(ctx, "visited", visits))
	equal(t, nodesOf(t, graph, 1, "visited"), []uint64{105, 104, 103, 102, 101})
	equal(t, nodesOf(t, graph, 1, "visited", gannet.Reversed, gannet.Limit(2)), []uint64{101, 102})
	times := gannet.Times{First: time.UnixMilli(2_000), Last: time.UnixMilli(4_000)}
	equal(t, nodesOf(t, graph, 1, "visited", times), []uint64{104, 103, 102})
	_, err := graph.Neighbours(ctx, 1, "knows", times)
	wantCode(t, err, gannet.CodeFailedPrecondition)
	_, err = graph.Neighbours(ctx, 1, "visited", gannet.Times{First: time.UnixMilli(-1)})
	wantCode(t, err, gannet.CodeInvalidArgument)
}

func TestGraphPages(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	changes(t, 10)(graph.AddEdges(ctx, "knows", star(50, 60, 10)))
	pages := allOf(t, graph.NeighbourPages(ctx, 50, "knows", gannet.Limit(3)))
	var nodes []uint64
	for _, page := range pages {
		nodes = append(nodes, page.Nodes...)
	}
	slices.Sort(nodes)
	equal(t, [2]int{len(pages), len(pages[3].Nodes)}, [2]int{4, 1})
	equal(t, nodes, []uint64{60, 61, 62, 63, 64, 65, 66, 67, 68, 69})
	equal(t, pages[3].Cursor, gannet.Cursor(""))
	equal(t, allOf(t, graph.NeighbourPages(ctx, 50, "knows", gannet.Limit(3), pages[0].Cursor)), pages[1:])
	next := got[*gannet.NeighbourPage](t)(graph.Neighbours(ctx, 50, "knows", gannet.Limit(3), pages[0].Cursor))
	equal(t, next, pages[1])
	_, err := graph.Neighbours(ctx, 50, "knows", gannet.Cursor("of another query"))
	wantCode(t, err, gannet.CodeInvalidArgument)
	ended := 0
	for _, err := range graph.NeighbourPages(ctx, 50, "unknown") {
		wantCode(t, err, gannet.CodeNotFoundGraph)
		ended++
	}
	equal(t, ended, 1)
	for page, err := range graph.NeighbourPages(ctx, 50, "knows", gannet.Limit(3)) {
		must(t, err)
		equal(t, page, pages[0])
		break
	}

	changes(t, 10)(graph.AddEdges(ctx, "knows", star(51, 60, 10)))
	lists := []gannet.NodeList{{Node: 50, Type: "knows"}, {Node: 51, Type: "knows"}}
	common := allOf(t, graph.CombinePages(ctx, gannet.Intersection, lists, gannet.Limit(6)))
	equal(t, [3]int{len(common), len(common[0].Nodes), len(common[1].Nodes)}, [3]int{2, 6, 4})
	rest := got[*gannet.NodePage](t)(graph.Combine(ctx, gannet.Intersection, lists, gannet.Limit(6), common[0].Cursor))
	equal(t, rest, common[1])
	second := allOf(t, graph.SecondDegreePages(ctx, 60, "knows", gannet.Limit(5)))
	equal(t, [3]int{len(second), len(second[0].Nodes), len(second[1].Nodes)}, [3]int{2, 5, 4})
}

func TestGraphCommonNeighboursAndSets(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	equal(t, got[*gannet.MutualNodes](t)(graph.Mutual(ctx, 1, 2, "knows")), &gannet.MutualNodes{Nodes: []uint64{3}})
	equal(t, got[*gannet.NodeCount](t)(graph.MutualCount(ctx, 1, 2, "knows")), &gannet.NodeCount{Count: 1})
	for operation, want := range map[gannet.SetOperation][]uint64{
		gannet.Intersection: {3}, gannet.Union: {2, 3, 5}, gannet.Difference: {2},
	} {
		lists := []gannet.NodeList{{Node: 1, Type: "knows"}, {Node: 4, Type: "knows"}}
		page := got[*gannet.NodePage](t)(graph.Combine(ctx, operation, lists))
		slices.Sort(page.Nodes)
		equal(t, page, &gannet.NodePage{Nodes: want})
	}
}

func TestGraphDistancesAndPaths(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	distances := func(nodes []uint64, options ...gannet.DistanceOption) []int {
		t.Helper()
		found := got[*gannet.Distances](t)(graph.Distances(ctx, 1, "knows", nodes, options...))
		equal(t, found.Partial, false)
		return found.Distances
	}
	equal(t, distances([]uint64{1, 2, 4, 5, 77}), []int{0, 1, 2, 3, gannet.Unreached})
	equal(t, distances([]uint64{2, 4}, gannet.DistanceMax(1)), []int{1, gannet.Unreached})
	paths := func(to uint64, options ...gannet.PathOption) [][]uint64 {
		t.Helper()
		return got[*gannet.Paths](t)(graph.Paths(ctx, 1, to, "knows", options...)).Paths
	}
	equal(t, paths(4), [][]uint64{{1, 3, 4}})
	equal(t, paths(4, gannet.PathsMax(2)), [][]uint64{{1, 3, 4}, {1, 2, 3, 4}})
	equal(t, paths(5, gannet.DistanceMax(2)), [][]uint64{})
}

func TestGraphSecondDegreesAndSuggestions(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	second := got[*gannet.NodePage](t)(graph.SecondDegree(ctx, 1, "knows", gannet.Stale(10)))
	equal(t, second, &gannet.NodePage{Nodes: []uint64{4}})
	equal(t, got[*gannet.NodeCount](t)(graph.SecondDegreeCount(ctx, 1, "knows")), &gannet.NodeCount{Count: 1})
	changes(t, 2)(graph.AddEdges(ctx, "knows", edges([2]uint64{2, 4}, [2]uint64{5, 6})))
	suggested := got[*gannet.Suggestions](t)(graph.Suggest(ctx, 1, "knows"))
	equal(t, suggested, &gannet.Suggestions{Suggestions: []gannet.Suggestion{{Node: 4, Common: 2}}})
	one := got[*gannet.Suggestions](t)(graph.Suggest(ctx, 4, "knows", gannet.SuggestionsMax(1)))
	equal(t, [2]any{len(one.Suggestions), one.Suggestions[0].Common}, [2]any{1, uint32(2)})
}

func TestGraphBudgetThatDoesNotSuffice(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	changes(t, 50)(graph.AddEdges(ctx, "knows", star(50, 60, 50)))
	// The server keeps the second degrees that are complete, for all budgets.
	for _, budget := range []gannet.Budget{1, 0} {
		want := budget == 1
		partial := []bool{
			got[*gannet.NodePage](t)(graph.SecondDegree(ctx, 60, "knows", budget)).Partial,
			got[*gannet.NodeCount](t)(graph.SecondDegreeCount(ctx, 60, "knows", budget)).Partial,
			got[*gannet.Suggestions](t)(graph.Suggest(ctx, 60, "knows", budget)).Partial,
			got[*gannet.Paths](t)(graph.Paths(ctx, 60, 5, "knows", budget)).Partial,
			got[*gannet.Distances](t)(graph.Distances(ctx, 60, "knows", []uint64{109, 5}, budget)).Partial,
		}
		equal(t, partial, []bool{want, want, want, want, want})
	}
}

func TestGraphNodes(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	node := func(number uint64) gannet.NodeResult {
		t.Helper()
		return got[gannet.NodeResult](t)(graph.GetNode(ctx, number))
	}
	equal(t, node(1), &gannet.Miss{})
	bins := map[string][]byte{"name": []byte("Ann"), "\xff": {0}}
	isChanged(t, true)(graph.SetNode(ctx, 1, "person", bins))
	equal(t, node(1), &gannet.NodeHit{Type: "person", Bins: bins})
	equal(t, node(1).(*gannet.NodeHit).BinStrings(), map[string]string{"name": "Ann", "\xff": "\x00"})
	isChanged(t, true)(graph.SetNode(ctx, 2, "person", nil, gannet.At(time.UnixMilli(2_000))))
	isChanged(t, false)(graph.SetNode(ctx, 2, "robot", nil, gannet.At(time.UnixMilli(1_000))))
	equal(t, node(2).(*gannet.NodeHit).Type, "person")
	isChanged(t, true)(graph.ArchiveNode(ctx, 3))
	isChanged(t, false)(graph.ArchiveNode(ctx, 3))
	equal(t, nodesOf(t, graph, 1, "knows"), []uint64{2})
	isChanged(t, true)(graph.RestoreNode(ctx, 3))
	equal(t, nodesOf(t, graph, 1, "knows"), []uint64{2, 3})
	isChanged(t, true)(graph.RemoveNode(ctx, 1))
	equal(t, node(1), &gannet.Miss{})
	equal(t, got[*gannet.NodeCount](t)(graph.Count(ctx, 1, "knows")).Count, uint64(2))
	_, err := graph.SetNode(ctx, 1, "person", nil, gannet.At(time.UnixMilli(-1)))
	wantCode(t, err, gannet.CodeInvalidArgument)
}

func TestSeveralQueriesOfAGraph(t *testing.T) {
	graph, ctx := graphOf(t, sharedClient(t)), testContext(t)
	lists := []gannet.NodeList{{Node: 1, Type: "knows"}}
	pages := gannet.QueryNeighbours(1, "knows", gannet.Limit(1))
	answers := got[[]gannet.GraphAnswer](t)(graph.Query(ctx,
		gannet.QueryCount(1, "knows"), gannet.QueryDistances(1, "knows", []uint64{4}), gannet.QueryCount(1, "unknown"),
		gannet.QueryPaths(1, 4, "knows"), gannet.QueryCount(1, "knows").InGraph("unknown"), gannet.QueryCount(0, "knows"),
		pages, gannet.QueryEdges(1, "knows", 2), gannet.QueryMutual(1, 2, "knows"), gannet.QueryMutualCount(1, 2, "knows"),
		gannet.QueryCombine(gannet.Union, lists), gannet.QuerySecondDegree(1, "knows"),
		gannet.QuerySecondDegreeCount(1, "knows"), gannet.QuerySuggest(1, "knows"), gannet.QueryCount(1, "knows").InGraph(""),
	))
	equal(t, answers[0], &gannet.NodeCount{Count: 2})
	equal(t, answers[1], &gannet.Distances{Distances: []int{2}})
	equal(t, answers[3], &gannet.Paths{Paths: [][]uint64{{1, 3, 4}}})
	for at, code := range map[int]gannet.Code{
		2: gannet.CodeNotFoundGraph, 4: gannet.CodeNotFoundGraph, 5: gannet.CodeInvalidArgument,
	} {
		failure := wantCode(t, answers[at].(*gannet.Error), code)
		wantMessage(t, failure, "cannot execute Count at "+shared.address()+": ")
	}
	first := answers[6].(*gannet.NeighbourPage)
	equal(t, first.Nodes, []uint64{2})
	equal(t, answers[7].(*gannet.EdgesFound).Edges[0].State, gannet.EdgeLive)
	equal(t, answers[8:], []gannet.GraphAnswer{
		&gannet.MutualNodes{Nodes: []uint64{3}}, &gannet.NodeCount{Count: 1}, &gannet.NodePage{Nodes: []uint64{2, 3}},
		&gannet.NodePage{Nodes: []uint64{4}}, &gannet.NodeCount{Count: 1},
		&gannet.Suggestions{Suggestions: []gannet.Suggestion{{Node: 4, Common: 1}}}, &gannet.NodeCount{Count: 2},
	})
	// The next pages of several queries are queries too.
	following, more := pages.After(first)
	equal(t, more, true)
	last := got[[]gannet.GraphAnswer](t)(graph.Query(ctx, following))[0]
	equal(t, last, &gannet.NeighbourPage{Nodes: []uint64{3}})
	for _, end := range []gannet.GraphAnswer{last, answers[0], answers[2]} {
		_, more = following.After(end)
		equal(t, more, false)
	}
	_, err := graph.Query(ctx)
	wantCode(t, err, gannet.CodeInvalidArgument)
	_, err = graph.Query(ctx, gannet.QueryNeighbours(1, "knows", gannet.Times{Last: time.UnixMilli(-1)}))
	wantCode(t, err, gannet.CodeInvalidArgument)
	_, err = graph.Query(ctx, gannet.QueryCount(1, "knows"), gannet.GraphQuery{}.InGraph("g"))
	wantMessage(t, wantCode(t, err, gannet.CodeInvalidArgument), "a query is the zero GraphQuery")
}

func TestGraphErrorsNameTheirRemedies(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	graph := graphOf(t, client)
	for _, each := range []struct {
		graph    *gannet.Graph
		edgeType string
	}{{client.Graph("default", "unknown"), "knows"}, {graph, "unknown"}} {
		_, err := each.graph.Count(ctx, 1, each.edgeType)
		failure := wantCode(t, err, gannet.CodeNotFoundGraph)
		wantMessage(t, failure, "DeclareType")
		if failure.Retryable || strings.Contains(failure.Message, "G.TYPE") {
			t.Fatalf("the error is %+v", failure)
		}
	}
	equal(t, gannet.CodeNotFoundGraph.String(), "NOT_FOUND_GRAPH")
	must(t, graph.DeclareType(ctx, "one", gannet.EdgeCap(1)))
	_, err := graph.AddEdges(ctx, "one", star(1, 2, 2))
	wantMessage(t, wantCode(t, err, gannet.CodeFailedPrecondition), "1 edges were changed before")
	attributes := map[string][]byte{"stars": []byte("5")}
	_, err = graph.AddEdges(ctx, "knows", []gannet.Edge{{Source: 1, Destination: 2, Attributes: attributes}})
	if failure := wantCode(t, err, gannet.CodeFailedPrecondition); strings.Contains(failure.Remedy, "GetType") {
		t.Fatalf("the remedy is that of items: %s", failure.Message)
	}
	_, err = graph.Distances(ctx, 1, "knows", []uint64{2}, gannet.DistanceMax(9))
	wantCode(t, err, gannet.CodeInvalidArgument)
	_, err = client.Graph("absent", "g").Count(ctx, 1, "knows")
	wantMessage(t, wantCode(t, err, gannet.CodeNotFoundCache), "CreateCache")
	nameless := client.Graph("default", "")
	_, err = nameless.Stats(ctx)
	wantMessage(t, wantCode(t, err, gannet.CodeInvalidArgument), "the name of the graph is empty")
	wantCode(t, nameless.DeclareType(ctx, "knows"), gannet.CodeInvalidArgument)
}

func TestGraphFigures(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	graph := graphOf(t, client)
	stats := got[*gannet.GraphStats](t)(graph.Stats(ctx))
	equal(t, stats.Types, []string{"knows"})
	equal(t, stats.Figures["nodes"], uint64(5))
	store := got[*gannet.GraphStoreStats](t)(client.GraphStoreStats(ctx, "default"))
	if !slices.Contains(store.Graphs, graph.Name()) || store.Figures["edges_changed"] < 5 {
		t.Fatalf("the figures are %+v", store)
	}
}

func TestChangesOfGraphsAreRepeatedOnlyWithATime(t *testing.T) {
	ctx := testContext(t)
	port := got[int](t)(freePort())
	configuration := gannet.LaptopV1().WithRetryBudget(gannet.RetryBudget{Percent: 10, Burst: 1000})
	client := newClient(t, gannet.NoToken(fmt.Sprintf("127.0.0.1:%d", port)), configuration)
	graph, at := client.Graph("default", "g"), gannet.At(time.UnixMilli(5))
	timed := []gannet.Edge{{Source: 1, Destination: 2, Time: time.UnixMilli(5)}}
	for number, each := range []struct {
		call     func() error
		repeated bool
	}{
		{func() error { _, err := graph.Count(ctx, 1, "knows"); return err }, true},
		{func() error { return graph.DeclareType(ctx, "knows") }, true},
		{func() error { _, err := graph.Query(ctx, gannet.QueryCount(1, "knows")); return err }, true},
		{func() error { _, err := graph.AddEdges(ctx, "knows", star(1, 2, 1)); return err }, false},
		{func() error { _, err := graph.AddEdges(ctx, "knows", star(1, 2, 1), at); return err }, true},
		{func() error { _, err := graph.RemoveEdges(ctx, "knows", timed); return err }, true},
		{func() error { _, err := graph.RemoveEdges(ctx, "knows", append(star(1, 3, 1), timed...)); return err }, false},
		{func() error { _, err := graph.SetNode(ctx, 1, "person", nil); return err }, false},
		{func() error { _, err := graph.SetNode(ctx, 1, "person", nil, at); return err }, true},
		{func() error { _, err := graph.RemoveNode(ctx, 1); return err }, false},
		{func() error { _, err := graph.RemoveNode(ctx, 1, at); return err }, true},
		{func() error { _, err := graph.ArchiveNode(ctx, 1); return err }, false},
		{func() error { _, err := graph.RestoreNode(ctx, 1, at); return err }, true},
		{func() error { _, err := graph.Stats(ctx); return err }, true},
	} {
		before := client.Metrics().Retries
		wantCode(t, each.call(), gannet.CodeUnavailable)
		if repeated := client.Metrics().Retries > before; repeated != each.repeated {
			t.Fatalf("call %d: repeated is %v", number, repeated)
		}
	}
}

func TestCallsOnGraphsHaveTheNamesOfTheSchema(t *testing.T) {
	ctx := testContext(t)
	name := graphOf(t, sharedClient(t)).Name()
	client := newClient(t, gannet.NoToken(shared.address()), gannet.LaptopV1().WithMetrics(true))
	graph := client.Graph("default", name)
	nodesOf(t, graph, 1, "knows")
	_, err := graph.Count(ctx, 1, "unknown")
	wantCode(t, err, gannet.CodeNotFoundGraph)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = graph.Suggest(cancelled, 1, "knows")
	wantCode(t, err, gannet.CodeCancelled)
	methods := client.Metrics().Methods
	equal(t, [3]uint64{methods["Range"].Calls, methods["Count"].Calls, methods["Suggest"].Calls}, [3]uint64{1, 1, 1})
	equal(t, methods["Count"].Errors, map[gannet.Code]uint64{gannet.CodeNotFoundGraph: 1})
}
