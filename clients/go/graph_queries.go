package gannet

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "gannet.dev/client/gannetv1"
)

// GraphAnswer is the result of a query of a graph: *EdgesFound, *NodeCount, *NeighbourPage, *MutualNodes, *NodePage,
// *Distances, *Paths or *Suggestions; and *Error for a query of several that failed.
type GraphAnswer interface{ isGraphAnswer() }

// EdgeInfo is the state of an edge. Without an edge, the state is EdgeAbsent, and there is neither time nor attributes.
type EdgeInfo struct {
	State EdgeState
	// Time is that of its last change.
	Time       time.Time
	Attributes map[string][]byte
}

// EdgesFound has the edges from a node to others, in the order of the call.
type EdgesFound struct{ Edges []EdgeInfo }

// NodeCount is the number of nodes that a query found.
type NodeCount struct {
	Count uint64
	// Partial is true if the budget did not suffice: there may be more.
	Partial bool
}

// Neighbour is a neighbour of a node, with the edge to it.
type Neighbour struct {
	Node uint64
	// Time is that of the edge's last change.
	Time       time.Time
	Attributes map[string][]byte
}

// NeighbourPage has some of the neighbours of a node.
type NeighbourPage struct {
	Nodes []uint64
	// Neighbours are the nodes with their edges if WithAttributes is passed; empty otherwise.
	Neighbours []Neighbour
	// Cursor is that of the next page; empty after the last one.
	Cursor Cursor
}

// MutualNodes has common neighbours of two nodes.
type MutualNodes struct {
	Nodes []uint64
	// Partial is true if the budget did not suffice: there may be more.
	Partial bool
}

// NodePage has some of the nodes that a query finds.
type NodePage struct {
	Nodes []uint64
	// Cursor is that of the next page; empty after the last one.
	Cursor Cursor
	// Partial is true if the budget did not suffice: there may be more.
	Partial bool
}

// Unreached is the distance of a node to which no path of at most DistanceMax edges was found.
const Unreached = -1

// Distances has the distances from a node to others, in the order of the call.
type Distances struct {
	// Distances are numbers of edges, or Unreached.
	Distances []int
	// Partial is true if the budget did not suffice: a node may be nearer, or have a distance in place of Unreached.
	Partial bool
}

// Paths has the shortest paths between two nodes, the shortest one first. Both ends are parts of each path.
type Paths struct {
	Paths [][]uint64
	// Partial is true if the budget did not suffice: there may be more, and shorter ones.
	Partial bool
}

// Suggestion is a node at distance 2, with the number of neighbours that it shares with the node of the call.
type Suggestion struct {
	Node   uint64
	Common uint32
}

// Suggestions has the nodes at distance 2 with the most common neighbours, the one with the most of them first.
type Suggestions struct {
	Suggestions []Suggestion
	// Partial is true if the budget did not suffice: others may have more common neighbours.
	Partial bool
}

func (*EdgesFound) isGraphAnswer()    {}
func (*NodeCount) isGraphAnswer()     {}
func (*NeighbourPage) isGraphAnswer() {}
func (*MutualNodes) isGraphAnswer()   {}
func (*NodePage) isGraphAnswer()      {}
func (*Distances) isGraphAnswer()     {}
func (*Paths) isGraphAnswer()         {}
func (*Suggestions) isGraphAnswer()   {}
func (*Error) isGraphAnswer()         {}

// selection has the options of a query of a graph.
type selection struct {
	cursor                           string
	limit, budget, distanceMax, kMax uint32
	stale                            uint64
	times                            *Times
	reverse, withAttributes          bool
	state                            EdgeState
}

type queryOption interface{ applyQuery(*selection) }

// The options of queries of graphs. Each interface names its options.
type (
	// NeighbourOption changes Neighbours: Cursor, Limit, Times, InState, Reversed and WithAttributes are such options.
	NeighbourOption interface {
		queryOption
		ofNeighbours()
	}
	// MutualOption changes Mutual: Limit and Budget are such options.
	MutualOption interface {
		queryOption
		ofMutual()
	}
	// MutualCountOption changes MutualCount: Budget is one.
	MutualCountOption interface {
		queryOption
		ofMutualCount()
	}
	// CombineOption changes Combine: Cursor and Limit are such options.
	CombineOption interface {
		queryOption
		ofCombine()
	}
	// DistanceOption changes Distances: DistanceMax and Budget are such options.
	DistanceOption interface {
		queryOption
		ofDistances()
	}
	// PathOption changes Paths: DistanceMax, PathsMax and Budget are such options.
	PathOption interface {
		queryOption
		ofPaths()
	}
	// SecondDegreeOption changes SecondDegree: Cursor, Limit, Budget and Stale are such options.
	SecondDegreeOption interface {
		queryOption
		ofSecondDegree()
	}
	// SecondDegreeCountOption changes SecondDegreeCount: Budget and Stale are such options.
	SecondDegreeCountOption interface {
		queryOption
		ofSecondDegreeCount()
	}
	// SuggestOption changes Suggest: SuggestionsMax and Budget are such options.
	SuggestOption interface {
		queryOption
		ofSuggest()
	}
)

func (c Cursor) applyQuery(s *selection) { s.cursor = string(c) }
func (Cursor) ofNeighbours()             {}
func (Cursor) ofCombine()                {}
func (Cursor) ofSecondDegree()           {}

// Limit is the maximum number of nodes of a result: 100 without it or with 0, and at most 4096.
type Limit uint32

func (l Limit) applyQuery(s *selection) { s.limit = uint32(l) }
func (Limit) ofNeighbours()             {}
func (Limit) ofMutual()                 {}
func (Limit) ofCombine()                {}
func (Limit) ofSecondDegree()           {}

// Budget is the number of edges that a query may touch: 100,000 without it or with 0, and at most 1,048,576. If it does
// not suffice, the result is Partial.
type Budget uint32

func (b Budget) applyQuery(s *selection) { s.budget = uint32(b) }
func (Budget) ofMutual()                 {}
func (Budget) ofMutualCount()            {}
func (Budget) ofDistances()              {}
func (Budget) ofPaths()                  {}
func (Budget) ofSecondDegree()           {}
func (Budget) ofSecondDegreeCount()      {}
func (Budget) ofSuggest()                {}

// DistanceMax is the longest distance of a search: 1 to 3, and 3 without it or with 0.
type DistanceMax uint32

func (d DistanceMax) applyQuery(s *selection) { s.distanceMax = uint32(d) }
func (DistanceMax) ofDistances()              {}
func (DistanceMax) ofPaths()                  {}

// PathsMax is the number of paths: 1 without it or with 0.
type PathsMax uint32

func (p PathsMax) applyQuery(s *selection) { s.kMax = uint32(p) }
func (PathsMax) ofPaths()                  {}

// SuggestionsMax is the number of suggestions: 10 without it or with 0.
type SuggestionsMax uint32

func (m SuggestionsMax) applyQuery(s *selection) { s.kMax = uint32(m) }
func (SuggestionsMax) ofSuggest()                {}

// Stale is the number of changes of the edge type that a set of the second degree may have missed in the server's
// cache.
type Stale uint64

func (m Stale) applyQuery(s *selection) { s.stale = uint64(m) }
func (Stale) ofSecondDegree()           {}
func (Stale) ofSecondDegreeCount()      {}

// Times are the first and the last time of the edges of a page, for types with SortedByTime.
type Times struct{ First, Last time.Time }

func (t Times) applyQuery(s *selection) { s.times = &t }
func (Times) ofNeighbours()             {}

// InState is the state of the edges of a page; EdgeLive without it.
type InState EdgeState

func (i InState) applyQuery(s *selection) { s.state = EdgeState(i) }
func (InState) ofNeighbours()             {}

// Reversed is the opposite order of a page.
var Reversed reversed

// WithAttributes is the option of a page that has the times and attributes of the edges too.
var WithAttributes withAttributes

type (
	reversed       struct{}
	withAttributes struct{}
)

func (reversed) applyQuery(s *selection)       { s.reverse = true }
func (reversed) ofNeighbours()                 {}
func (withAttributes) applyQuery(s *selection) { s.withAttributes = true }
func (withAttributes) ofNeighbours()           {}

func selectionOf[O queryOption](options []O) selection {
	var all selection
	for _, each := range options {
		each.applyQuery(&all)
	}
	return all
}

// queryKind is a kind of queries.
type queryKind struct {
	method *method
	// reply returns an empty message of a reply.
	reply func() proto.Message
	// part returns the part of a request of several queries.
	part func(request proto.Message) *pb.GraphQuery
	// result returns the reply in a result of several ones; nil within if that is another one.
	result func(*pb.GraphQueryResult) proto.Message
	read   func(reply proto.Message) (GraphAnswer, error)
}

func kindOf[Q, P proto.Message](
	m *method, empty func() P, part func(Q) *pb.GraphQuery, result func(*pb.GraphQueryResult) P,
	read func(P) (GraphAnswer, error),
) *queryKind {
	return &queryKind{
		method: m,
		reply:  func() proto.Message { return empty() },
		part:   func(request proto.Message) *pb.GraphQuery { return part(request.(Q)) },
		result: func(of *pb.GraphQueryResult) proto.Message { return result(of) },
		read:   func(reply proto.Message) (GraphAnswer, error) { return read(reply.(P)) },
	}
}

func newMessage[T any]() *T { return new(T) }

var (
	kindEdges = kindOf(methodGraphGetEdges, newMessage[pb.GetEdgesReply], func(q *pb.GetEdgesRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_GetEdges{GetEdges: q}}
	}, (*pb.GraphQueryResult).GetGetEdges, edgesOf)
	kindCount = kindOf(methodGraphCount, newMessage[pb.GraphCountReply], func(q *pb.GraphCountRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_Count{Count: q}}
	}, (*pb.GraphQueryResult).GetCount, countOf)
	kindRange = kindOf(methodGraphRange, newMessage[pb.NeighbourPage], func(q *pb.GraphRangeRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_Range{Range: q}}
	}, (*pb.GraphQueryResult).GetRange, neighboursOf)
	kindMutual      = mutualKind(mutualOf)
	kindMutualCount = mutualKind(mutualCountOf)
	kindCombine     = kindOf(methodGraphCombine, newMessage[pb.NodePage], func(q *pb.CombineRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_Combine{Combine: q}}
	}, (*pb.GraphQueryResult).GetCombine, combinedOf)
	kindDistance = kindOf(methodGraphDistance, newMessage[pb.DistanceReply], func(q *pb.DistanceRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_Distance{Distance: q}}
	}, (*pb.GraphQueryResult).GetDistance, distancesOf)
	kindPath = kindOf(methodGraphPath, newMessage[pb.PathReply], func(q *pb.PathRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_Path{Path: q}}
	}, (*pb.GraphQueryResult).GetPath, pathsOf)
	kindSecondDegree      = secondDegreeKind(secondDegreeOf)
	kindSecondDegreeCount = secondDegreeKind(secondDegreeCountOf)

	kindSuggest = kindOf(methodGraphSuggest, newMessage[pb.SuggestReply], func(q *pb.SuggestRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_Suggest{Suggest: q}}
	}, (*pb.GraphQueryResult).GetSuggest, suggestionsOf)
)

func mutualKind(read func(*pb.MutualReply) (GraphAnswer, error)) *queryKind {
	return kindOf(methodGraphMutual, newMessage[pb.MutualReply], func(q *pb.MutualRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_Mutual{Mutual: q}}
	}, (*pb.GraphQueryResult).GetMutual, read)
}

func secondDegreeKind(read func(*pb.SecondDegreeReply) (GraphAnswer, error)) *queryKind {
	empty := newMessage[pb.SecondDegreeReply]
	return kindOf(methodGraphSecondDegree, empty, func(q *pb.SecondDegreeRequest) *pb.GraphQuery {
		return &pb.GraphQuery{Query: &pb.GraphQuery_SecondDegree{SecondDegree: q}}
	}, (*pb.GraphQueryResult).GetSecondDegree, read)
}

// attributesOf returns attributes by name.
func attributesOf(all []*pb.GraphAttribute) map[string][]byte {
	attributes := make(map[string][]byte, len(all))
	for _, each := range all {
		attributes[each.Name] = each.Value
	}
	return attributes
}

func edgesOf(reply *pb.GetEdgesReply) (GraphAnswer, error) {
	edges := &EdgesFound{make([]EdgeInfo, len(reply.Edges))}
	for at, each := range reply.Edges {
		if each.State < 0 || int(each.State) >= len(edgeStates) {
			return nil, badReply(methodGraphGetEdges.name, fmt.Sprintf("the state of an edge is %d", each.State))
		}
		edges.Edges[at].State = EdgeState(each.State)
		if each.State != pb.EdgeState_EDGE_ABSENT {
			edges.Edges[at].Time = time.UnixMilli(int64(each.TimeMs))
			edges.Edges[at].Attributes = attributesOf(each.Attributes)
		}
	}
	return edges, nil
}

func countOf(reply *pb.GraphCountReply) (GraphAnswer, error) {
	return &NodeCount{reply.Count, false}, nil
}

func neighboursOf(reply *pb.NeighbourPage) (GraphAnswer, error) {
	page := &NeighbourPage{Nodes: reply.Nodes, Cursor: Cursor(reply.Cursor)}
	for _, each := range reply.Neighbours {
		page.Nodes = append(page.Nodes, each.Node)
		changed := time.UnixMilli(int64(each.TimeMs))
		page.Neighbours = append(page.Neighbours, Neighbour{each.Node, changed, attributesOf(each.Attributes)})
	}
	return page, nil
}

func mutualOf(reply *pb.MutualReply) (GraphAnswer, error) {
	return &MutualNodes{reply.Nodes, reply.Partial}, nil
}

func mutualCountOf(reply *pb.MutualReply) (GraphAnswer, error) {
	return &NodeCount{reply.Count, reply.Partial}, nil
}

func combinedOf(reply *pb.NodePage) (GraphAnswer, error) {
	return &NodePage{reply.Nodes, Cursor(reply.Cursor), false}, nil
}

// notReached is the distance of a node that was not found, in replies.
const notReached = 255

func distancesOf(reply *pb.DistanceReply) (GraphAnswer, error) {
	found := &Distances{make([]int, len(reply.Distances)), reply.Partial}
	for at, distance := range reply.Distances {
		if found.Distances[at] = int(distance); distance == notReached {
			found.Distances[at] = Unreached
		}
	}
	return found, nil
}

func pathsOf(reply *pb.PathReply) (GraphAnswer, error) {
	found := &Paths{make([][]uint64, len(reply.Paths)), reply.Partial}
	for at, path := range reply.Paths {
		found.Paths[at] = path.Nodes
	}
	return found, nil
}

func secondDegreeOf(reply *pb.SecondDegreeReply) (GraphAnswer, error) {
	return &NodePage{reply.Nodes, Cursor(reply.Cursor), reply.Partial}, nil
}

func secondDegreeCountOf(reply *pb.SecondDegreeReply) (GraphAnswer, error) {
	return &NodeCount{reply.Count, reply.Partial}, nil
}

func suggestionsOf(reply *pb.SuggestReply) (GraphAnswer, error) {
	found := &Suggestions{make([]Suggestion, len(reply.Suggestions)), reply.Partial}
	for at, each := range reply.Suggestions {
		found.Suggestions[at] = Suggestion{each.Node, each.Common}
	}
	return found, nil
}

// GraphQuery is a query of a graph, of which Graph.Query sends up to 64 in one request. The functions QueryEdges to
// QuerySuggest return queries. They have the arguments of the methods of Graph, which describe them.
type GraphQuery struct {
	kind    *queryKind
	request proto.Message
	refused *refusal
}

// QueryEdges returns the query of Graph.GetEdges.
func QueryEdges(source uint64, edgeType string, destinations ...uint64) GraphQuery {
	request := &pb.GetEdgesRequest{Source: source, Type: edgeType, Destinations: destinations}
	return GraphQuery{kindEdges, request, nil}
}

// QueryCount returns the query of Graph.Count.
func QueryCount(node uint64, edgeType string) GraphQuery {
	return GraphQuery{kindCount, &pb.GraphCountRequest{Node: node, Type: edgeType}, nil}
}

// QueryNeighbours returns the query of Graph.Neighbours.
func QueryNeighbours(node uint64, edgeType string, options ...NeighbourOption) GraphQuery {
	all := selectionOf(options)
	request := &pb.GraphRangeRequest{
		Node: node, Type: edgeType, Cursor: all.cursor, Limit: all.limit, Reverse: all.reverse,
		WithAttributes: all.withAttributes, State: pb.EdgeState(all.state),
	}
	query := GraphQuery{kindRange, request, nil}
	if all.times != nil {
		first, refusedFirst := boundOf(all.times.First)
		last, refusedLast := boundOf(all.times.Last)
		request.Times = &pb.TimeRange{FirstMs: first, LastMs: last}
		if query.refused = refusedFirst; query.refused == nil {
			query.refused = refusedLast
		}
	}
	return query
}

// boundOf returns a bound of a range of times. The zero time is 1970.
func boundOf(bound time.Time) (uint64, *refusal) {
	ms, refused := timeOf(bound)
	if ms == nil {
		return 0, refused
	}
	return *ms, nil
}

// QueryMutual returns the query of Graph.Mutual.
func QueryMutual(first, second uint64, edgeType string, options ...MutualOption) GraphQuery {
	all := selectionOf(options)
	request := &pb.MutualRequest{First: first, Second: second, Type: edgeType, Limit: all.limit, Budget: all.budget}
	return GraphQuery{kindMutual, request, nil}
}

// QueryMutualCount returns the query of Graph.MutualCount.
func QueryMutualCount(first, second uint64, edgeType string, options ...MutualCountOption) GraphQuery {
	all := selectionOf(options)
	request := &pb.MutualRequest{First: first, Second: second, Type: edgeType, CountOnly: true, Budget: all.budget}
	return GraphQuery{kindMutualCount, request, nil}
}

// QueryCombine returns the query of Graph.Combine.
func QueryCombine(operation SetOperation, lists []NodeList, options ...CombineOption) GraphQuery {
	all := selectionOf(options)
	request := &pb.CombineRequest{
		Operation: pb.CombineRequest_Operation(operation), Cursor: all.cursor, Limit: all.limit,
	}
	for _, each := range lists {
		request.Lists = append(request.Lists, &pb.NodeList{Node: each.Node, Type: each.Type})
	}
	return GraphQuery{kindCombine, request, nil}
}

// QueryDistances returns the query of Graph.Distances.
func QueryDistances(source uint64, edgeType string, destinations []uint64, options ...DistanceOption) GraphQuery {
	all := selectionOf(options)
	return GraphQuery{kindDistance, &pb.DistanceRequest{
		Source: source, Type: edgeType, Destinations: destinations, Max: all.distanceMax, Budget: all.budget,
	}, nil}
}

// QueryPaths returns the query of Graph.Paths.
func QueryPaths(source, destination uint64, edgeType string, options ...PathOption) GraphQuery {
	all := selectionOf(options)
	return GraphQuery{kindPath, &pb.PathRequest{
		Source: source, Destination: destination, Type: edgeType, Max: all.distanceMax, K: all.kMax, Budget: all.budget,
	}, nil}
}

// QuerySecondDegree returns the query of Graph.SecondDegree.
func QuerySecondDegree(node uint64, edgeType string, options ...SecondDegreeOption) GraphQuery {
	all := selectionOf(options)
	return GraphQuery{kindSecondDegree, &pb.SecondDegreeRequest{
		Node: node, Type: edgeType, Cursor: all.cursor, Limit: all.limit, Budget: all.budget, Stale: all.stale,
	}, nil}
}

// QuerySecondDegreeCount returns the query of Graph.SecondDegreeCount.
func QuerySecondDegreeCount(node uint64, edgeType string, options ...SecondDegreeCountOption) GraphQuery {
	all := selectionOf(options)
	request := &pb.SecondDegreeRequest{
		Node: node, Type: edgeType, CountOnly: true, Budget: all.budget, Stale: all.stale,
	}
	return GraphQuery{kindSecondDegreeCount, request, nil}
}

// QuerySuggest returns the query of Graph.Suggest.
func QuerySuggest(node uint64, edgeType string, options ...SuggestOption) GraphQuery {
	all := selectionOf(options)
	return GraphQuery{kindSuggest, &pb.SuggestRequest{
		Node: node, Type: edgeType, K: all.kMax, Budget: all.budget,
	}, nil}
}

// InGraph returns the same query of another graph than that of the call. An empty name stands for that.
func (q GraphQuery) InGraph(name string) GraphQuery { return q.with("graph", name) }

// After returns the query of the page after a page, and false if it was the last one, or is no page.
func (q GraphQuery) After(page GraphAnswer) (GraphQuery, bool) {
	cursor := cursorOf(page)
	if cursor == "" {
		return GraphQuery{}, false
	}
	return q.with("cursor", string(cursor)), true
}

func cursorOf(page GraphAnswer) Cursor {
	switch page := page.(type) {
	case *NeighbourPage:
		return page.Cursor
	case *NodePage:
		return page.Cursor
	}
	return ""
}

// with returns the query with another value of a text field of its request.
func (q GraphQuery) with(field protoreflect.Name, value string) GraphQuery {
	if q.kind == nil {
		return q
	}
	q.request = proto.Clone(q.request)
	message := q.request.ProtoReflect()
	message.Set(message.Descriptor().Fields().ByName(field), protoreflect.ValueOfString(value))
	return q
}

// ask executes a query alone.
func ask[R GraphAnswer](ctx context.Context, g *Graph, query GraphQuery) (R, error) {
	var none R
	m := query.kind.method
	if query.refused != nil {
		return none, query.refused.error(m.name)
	}
	reply, err := callGraph(ctx, g, m, query.InGraph(g.name).request, query.kind.reply())
	if err != nil {
		return none, err
	}
	answer, err := query.kind.read(reply)
	if err != nil {
		return none, err
	}
	return answer.(R), nil
}

// pagesOf returns the pages of a query.
func pagesOf[P GraphAnswer](ctx context.Context, g *Graph, query GraphQuery) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		for next, more := query, true; more; {
			page, err := ask[P](ctx, g, next)
			if !yield(page, err) || err != nil {
				return
			}
			next, more = next.After(page)
		}
	}
}

// answersOf returns the results of several queries.
func (e *engine) answersOf(queries []GraphQuery, results []*pb.GraphQueryResult) ([]GraphAnswer, error) {
	if len(results) != len(queries) {
		cause := fmt.Sprintf("%d results of %d queries", len(results), len(queries))
		return nil, badReply(methodGraphQuery.name, cause)
	}
	answers := make([]GraphAnswer, len(results))
	for at, result := range results {
		kind := queries[at].kind
		if failure := result.GetError(); failure != nil {
			answers[at] = e.errorOfStatus(kind.method, nil, status.Error(codes.Code(failure.Code), failure.Message))
			continue
		}
		reply := kind.result(result)
		if !reply.ProtoReflect().IsValid() {
			return nil, badReply(methodGraphQuery.name, "the result of "+kind.method.name+" is that of another query")
		}
		answer, err := kind.read(reply)
		if err != nil {
			return nil, err
		}
		answers[at] = answer
	}
	return answers, nil
}
