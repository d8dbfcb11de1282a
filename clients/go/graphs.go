package gannet

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	pb "gannet.dev/client/gannetv1"
)

// Graph has the calls on one graph of a server: nodes, which are numbers from 1 to 2^64 - 2, and typed edges with a
// time. Client.Graph returns it, and the first DeclareType creates the graph.
//
// The budget of a query is the number of edges that it may touch: 100,000 unless Budget is passed, and at most
// 1,048,576. If it does not suffice, the result is Partial: it is right as far as it goes, and may lack nodes. A page
// has 100 nodes unless Limit is passed, and at most 4096.
//
// The newest change of an edge or node wins. A change with a time (At, Edge.Time) may be repeated without effect, so
// the client repeats it after a failure. One without has the time of the server, and is never repeated.
type Graph struct {
	client      *Client
	cache, name string
}

// Graph returns an object with the calls on a graph. A graph is in no cache: the cache only counts the calls. Names of
// graphs, edge types and attributes are UTF-8. If the name is empty, each call returns the error CodeInvalidArgument.
func (c *Client) Graph(cache, name string) *Graph { return &Graph{c, cache, name} }

// Name returns the name of the graph.
func (g *Graph) Name() string { return g.name }

// EdgeState is the state of an edge.
type EdgeState int

// The states of edges.
const (
	// EdgeAbsent shows that there is no edge.
	EdgeAbsent = EdgeState(pb.EdgeState_EDGE_ABSENT)
	EdgeLive   = EdgeState(pb.EdgeState_EDGE_LIVE)
	// EdgeNegative is a second colour of edges, such as blocks.
	EdgeNegative = EdgeState(pb.EdgeState_EDGE_NEGATIVE)
	// EdgeArchived is an edge that is hidden until it is restored.
	EdgeArchived = EdgeState(pb.EdgeState_EDGE_ARCHIVED)
	EdgeRemoved  = EdgeState(pb.EdgeState_EDGE_REMOVED)
)

var edgeStates = [...]string{"absent", "live", "negative", "archived", "removed"}

// String returns the name of the state.
func (s EdgeState) String() string {
	if s < 0 || int(s) >= len(edgeStates) {
		return "unknown"
	}
	return edgeStates[s]
}

// SetOperation is an operation on lists of neighbours.
type SetOperation int

// The operations on lists of neighbours.
const (
	Intersection = SetOperation(pb.CombineRequest_INTERSECTION)
	Union        = SetOperation(pb.CombineRequest_UNION)
	// Difference is the first list without all others.
	Difference = SetOperation(pb.CombineRequest_DIFFERENCE)
)

// Edge is an edge that a call adds, removes, archives or restores.
type Edge struct {
	Source, Destination uint64
	// Type is its edge type; empty for that of the call.
	Type string
	// Time is that of its change; the zero time for that of the call.
	Time time.Time
	// Negative adds it with the negative state. Only for added edges.
	Negative bool
	// Attributes are those of an added edge, at most 255 bytes together. The schema of its type has their names.
	Attributes map[string][]byte
}

// NodeList is a list of neighbours: those of a node by edges of a type.
type NodeList struct {
	Node uint64
	Type string
}

// EdgeTypeOption is a property of an edge type: Undirected, InverseOf, SortedByTime, EdgeCap and AttributeNames are
// such options.
type EdgeTypeOption interface {
	applyEdgeType(*pb.DeclareTypeRequest)
}

// Undirected is the property of a type each edge of which is one in both directions.
var Undirected undirected

// SortedByTime is the property of a type whose pages list the newest edge first. Without it, they are ordered by
// identifier.
var SortedByTime sortedByTime

type (
	undirected   struct{}
	sortedByTime struct{}
)

func (undirected) applyEdgeType(r *pb.DeclareTypeRequest)   { r.Undirected = true }
func (sortedByTime) applyEdgeType(r *pb.DeclareTypeRequest) { r.SortByTime = true }

// InverseOf is the name of the type whose inverse a type is.
type InverseOf string

func (i InverseOf) applyEdgeType(r *pb.DeclareTypeRequest) { r.InverseOf = string(i) }

// EdgeCap is the maximum number of live edges of a node; 0 for no cap.
type EdgeCap uint32

func (e EdgeCap) applyEdgeType(r *pb.DeclareTypeRequest) { r.Cap = uint32(e) }

// AttributeNames are the names of the attributes of edges.
type AttributeNames []string

func (a AttributeNames) applyEdgeType(r *pb.DeclareTypeRequest) { r.Attributes = a }

// ChangeOption changes a call that changes edges or a node. At is one.
type ChangeOption interface{ applyChangeTime(*time.Time) }

// At is the time of a change. Edges with a time of their own have that.
type At time.Time

func (a At) applyChangeTime(t *time.Time) { *t = time.Time(a) }

// refusalGraphName is the reason why no request of an empty graph is sent. It would mean all graphs in Stats.
var refusalGraphName = refusal{CodeInvalidArgument, "the name of the graph is empty", "give a name", nil}

var refusalEmptyQuery = refusal{
	CodeInvalidArgument, "a query is the zero GraphQuery", "pass one that QueryCount or a function beside it returns", nil,
}

// callGraph executes a call on a graph with one reply, of the type of reply.
func callGraph[R proto.Message](ctx context.Context, g *Graph, m *method, request proto.Message, reply R) (R, error) {
	if g.name == "" {
		return reply, refusalGraphName.error(m.name)
	}
	return unary(ctx, g.client, m, g.cache, request, reply)
}

// timeOf returns the time of a change: nil for that of the server, or the reason why it cannot be sent.
func timeOf(changed time.Time) (*uint64, *refusal) {
	if changed.IsZero() {
		return nil, nil
	}
	ms := changed.UnixMilli()
	if ms < 0 {
		return nil, &refusal{
			CodeInvalidArgument, "the time " + changed.Format(time.RFC3339) + " is before 1970", "pass a later one", nil,
		}
	}
	return proto.Uint64(uint64(ms)), nil
}

func changeTimeOf(options []ChangeOption) time.Time {
	var changed time.Time
	for _, each := range options {
		each.applyChangeTime(&changed)
	}
	return changed
}

// DeclareType declares an edge type, and creates the graph with its first one. It does nothing if the type is declared
// with the same properties. The error CodeFailedPrecondition shows that it has others.
func (g *Graph) DeclareType(ctx context.Context, edgeType string, options ...EdgeTypeOption) error {
	request := &pb.DeclareTypeRequest{Graph: g.name, Type: edgeType}
	for _, each := range options {
		each.applyEdgeType(request)
	}
	_, err := callGraph(ctx, g, methodGraphDeclareType, request, &pb.Done{})
	return err
}

// AddEdges adds edges of a type, at most 4096, and returns the number of those that changed. It is 0 if all were so
// before, also because an attempt whose reply was lost has changed them.
//
// All changes are checked before the first is made. A cap or full memory can refuse a later one; the error then states
// how many edges were changed.
func (g *Graph) AddEdges(
	ctx context.Context, edgeType string, edges []Edge, options ...ChangeOption,
) (uint64, error) {
	return g.change(ctx, pb.GraphChangeRequest_ADD, edgeType, edges, options)
}

// RemoveEdges removes edges, and returns the number of those that changed. One that does not exist is no error.
func (g *Graph) RemoveEdges(
	ctx context.Context, edgeType string, edges []Edge, options ...ChangeOption,
) (uint64, error) {
	return g.change(ctx, pb.GraphChangeRequest_REMOVE, edgeType, edges, options)
}

// ArchiveEdges hides edges until they are restored, and returns the number of those that changed.
func (g *Graph) ArchiveEdges(
	ctx context.Context, edgeType string, edges []Edge, options ...ChangeOption,
) (uint64, error) {
	return g.change(ctx, pb.GraphChangeRequest_ARCHIVE, edgeType, edges, options)
}

// RestoreEdges shows edges again, and returns the number of those that changed: an addition that leaves the attributes
// as they are.
func (g *Graph) RestoreEdges(
	ctx context.Context, edgeType string, edges []Edge, options ...ChangeOption,
) (uint64, error) {
	return g.change(ctx, pb.GraphChangeRequest_RESTORE, edgeType, edges, options)
}

func (g *Graph) change(
	ctx context.Context, action pb.GraphChangeRequest_Action, edgeType string, edges []Edge, options []ChangeOption,
) (uint64, error) {
	ofAll := changeTimeOf(options)
	m := methodGraphChangeAt
	request := &pb.GraphChangeRequest{Graph: g.name, Action: action, Type: edgeType}
	for _, edge := range edges {
		if edge.Time.IsZero() {
			edge.Time = ofAll
		}
		ms, refused := timeOf(edge.Time)
		if refused != nil {
			return 0, refused.error(m.name)
		}
		if ms == nil {
			// The server's time of a repetition would be newer than a change of another client in the meantime.
			m = methodGraphChange
		}
		changed := &pb.EdgeChange{
			Source: edge.Source, Type: edge.Type, Destination: edge.Destination, TimeMs: ms, Negative: edge.Negative,
		}
		for name, value := range edge.Attributes {
			changed.Attributes = append(changed.Attributes, &pb.GraphAttribute{Name: name, Value: value})
		}
		request.Edges = append(request.Edges, changed)
	}
	reply, err := callGraph(ctx, g, m, request, &pb.GraphChangeReply{})
	if err != nil {
		return 0, err
	}
	return reply.Changed, nil
}

// NodeResult is *NodeHit or *Miss.
type NodeResult interface{ isNodeResult() }

// NodeHit is the type and the bins of a node.
type NodeHit struct {
	Type string
	Bins map[string][]byte
}

func (*NodeHit) isNodeResult() {}
func (*Miss) isNodeResult()    {}

// BinStrings returns the bins as text.
func (h *NodeHit) BinStrings() map[string]string {
	texts := make(map[string]string, len(h.Bins))
	for name, value := range h.Bins {
		texts[name] = string(value)
	}
	return texts
}

// GetNode returns the type and bins of a node, also of an archived one: *NodeHit, or *Miss if it has none.
func (g *Graph) GetNode(ctx context.Context, node uint64) (NodeResult, error) {
	request := &pb.NodeRequest{Graph: g.name, Node: node}
	reply, err := callGraph(ctx, g, methodGraphGetNode, request, &pb.GetNodeReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.GetNodeReply_Found:
		hit := &NodeHit{string(which.Found.Type), make(map[string][]byte, len(which.Found.Bins))}
		for _, bin := range which.Found.Bins {
			hit.Bins[string(bin.Name)] = bin.Value
		}
		return hit, nil
	case *pb.GetNodeReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodGraphGetNode)
}

// SetNode stores the type and bins of a node in place of earlier ones, at most 16 KiB together. It returns false if the
// node was so before, or a newer change exists.
func (g *Graph) SetNode(
	ctx context.Context, node uint64, nodeType string, bins map[string][]byte, options ...ChangeOption,
) (bool, error) {
	value := &pb.GraphNode{Type: []byte(nodeType)}
	for name, bin := range bins {
		value.Bins = append(value.Bins, &pb.NodeBin{Name: []byte(name), Value: bin})
	}
	return g.changeNode(ctx, methodGraphSetNode, methodGraphSetNodeAt, options, func(ms *uint64) proto.Message {
		return &pb.SetNodeRequest{Graph: g.name, Node: node, TimeMs: ms, Value: value}
	})
}

// RemoveNode removes the type and bins of a node. Its edges stay. It returns false if there were none, or a newer
// change exists.
func (g *Graph) RemoveNode(ctx context.Context, node uint64, options ...ChangeOption) (bool, error) {
	return g.changeNode(ctx, methodGraphRemoveNode, methodGraphRemoveNodeAt, options, func(ms *uint64) proto.Message {
		return &pb.NodeRequest{Graph: g.name, Node: node, TimeMs: ms}
	})
}

// ArchiveNode hides all edges of a node, in its own lists and in those of others. It returns false if they were hidden,
// or a newer change exists.
func (g *Graph) ArchiveNode(ctx context.Context, node uint64, options ...ChangeOption) (bool, error) {
	return g.markNode(ctx, node, true, options)
}

// RestoreNode shows the edges of an archived node again. It returns false if they were not hidden, or a newer change
// exists.
func (g *Graph) RestoreNode(ctx context.Context, node uint64, options ...ChangeOption) (bool, error) {
	return g.markNode(ctx, node, false, options)
}

func (g *Graph) markNode(ctx context.Context, node uint64, archived bool, options []ChangeOption) (bool, error) {
	return g.changeNode(ctx, methodGraphMarkNode, methodGraphMarkNodeAt, options, func(ms *uint64) proto.Message {
		return &pb.MarkNodeRequest{Graph: g.name, Node: node, TimeMs: ms, Archived: archived}
	})
}

// changeNode executes a change of a node: the form that is repeated if it has a time.
func (g *Graph) changeNode(
	ctx context.Context, once, timed *method, options []ChangeOption, request func(ms *uint64) proto.Message,
) (bool, error) {
	ms, refused := timeOf(changeTimeOf(options))
	if refused != nil {
		return false, refused.error(once.name)
	}
	m := timed
	if ms == nil {
		m = once
	}
	reply, err := callGraph(ctx, g, m, request(ms), &pb.NodeChangeReply{})
	if err != nil {
		return false, err
	}
	return reply.Changed, nil
}

// GraphStats has figures of a graph, such as "nodes", and the names of its edge types.
type GraphStats struct {
	Figures map[string]uint64
	Types   []string
}

// GraphStoreStats has figures of all graphs of a server together, and their names.
type GraphStoreStats struct {
	Figures map[string]uint64
	Graphs  []string
}

// Stats returns figures and the edge types of the graph. It needs the right to all graphs.
func (g *Graph) Stats(ctx context.Context) (*GraphStats, error) {
	request := &pb.GraphStatsRequest{Graph: g.name}
	reply, err := callGraph(ctx, g, methodGraphStats, request, &pb.GraphStatsReply{})
	if err != nil {
		return nil, err
	}
	return &GraphStats{figuresOf(reply.Figures), reply.Types}, nil
}

// GraphStoreStats returns the figures of all graphs together, and their names. It needs the right to all graphs.
func (c *Client) GraphStoreStats(ctx context.Context, cache string) (*GraphStoreStats, error) {
	reply, err := unary(ctx, c, methodGraphStats, cache, &pb.GraphStatsRequest{}, &pb.GraphStatsReply{})
	if err != nil {
		return nil, err
	}
	return &GraphStoreStats{figuresOf(reply.Figures), reply.Graphs}, nil
}

func figuresOf(all []*pb.GraphFigure) map[string]uint64 {
	figures := make(map[string]uint64, len(all))
	for _, each := range all {
		figures[each.Name] = each.Value
	}
	return figures
}

// GetEdges returns state, time and attributes of the edges from a node to others, at most 4096, in their order.
func (g *Graph) GetEdges(
	ctx context.Context, source uint64, edgeType string, destinations ...uint64,
) (*EdgesFound, error) {
	return ask[*EdgesFound](ctx, g, QueryEdges(source, edgeType, destinations...))
}

// Count returns the degree of a node. Archived neighbours count.
func (g *Graph) Count(ctx context.Context, node uint64, edgeType string) (*NodeCount, error) {
	return ask[*NodeCount](ctx, g, QueryCount(node, edgeType))
}

// Neighbours returns a page of the neighbours of a node.
func (g *Graph) Neighbours(
	ctx context.Context, node uint64, edgeType string, options ...NeighbourOption,
) (*NeighbourPage, error) {
	return ask[*NeighbourPage](ctx, g, QueryNeighbours(node, edgeType, options...))
}

// NeighbourPages returns the pages of Neighbours, each of which is one call. It ends after an error. The cursor of a
// page continues in another loop, in another process too.
//
//	for page, err := range graph.NeighbourPages(ctx, 1, "knows") { ... }
func (g *Graph) NeighbourPages(
	ctx context.Context, node uint64, edgeType string, options ...NeighbourOption,
) iter.Seq2[*NeighbourPage, error] {
	return pagesOf[*NeighbourPage](ctx, g, QueryNeighbours(node, edgeType, options...))
}

// Mutual returns common neighbours of two nodes.
func (g *Graph) Mutual(
	ctx context.Context, first, second uint64, edgeType string, options ...MutualOption,
) (*MutualNodes, error) {
	return ask[*MutualNodes](ctx, g, QueryMutual(first, second, edgeType, options...))
}

// MutualCount returns the number of common neighbours of two nodes.
func (g *Graph) MutualCount(
	ctx context.Context, first, second uint64, edgeType string, options ...MutualCountOption,
) (*NodeCount, error) {
	return ask[*NodeCount](ctx, g, QueryMutualCount(first, second, edgeType, options...))
}

// Combine returns a page of the intersection, union or difference of up to 16 lists.
func (g *Graph) Combine(
	ctx context.Context, operation SetOperation, lists []NodeList, options ...CombineOption,
) (*NodePage, error) {
	return ask[*NodePage](ctx, g, QueryCombine(operation, lists, options...))
}

// CombinePages returns the pages of Combine, as NeighbourPages does.
func (g *Graph) CombinePages(
	ctx context.Context, operation SetOperation, lists []NodeList, options ...CombineOption,
) iter.Seq2[*NodePage, error] {
	return pagesOf[*NodePage](ctx, g, QueryCombine(operation, lists, options...))
}

// Distances returns the number of edges from a node to each of at most 4096 others: Unreached if DistanceMax edges do
// not reach it, 1 to 3 of them, and 3 without this option.
func (g *Graph) Distances(
	ctx context.Context, source uint64, edgeType string, destinations []uint64, options ...DistanceOption,
) (*Distances, error) {
	return ask[*Distances](ctx, g, QueryDistances(source, edgeType, destinations, options...))
}

// Paths returns the shortest paths between two nodes: one unless PathsMax is passed, and none if the nodes are further
// apart than DistanceMax.
func (g *Graph) Paths(
	ctx context.Context, source, destination uint64, edgeType string, options ...PathOption,
) (*Paths, error) {
	return ask[*Paths](ctx, g, QueryPaths(source, destination, edgeType, options...))
}

// SecondDegree returns a page of the nodes at distance 2.
func (g *Graph) SecondDegree(
	ctx context.Context, node uint64, edgeType string, options ...SecondDegreeOption,
) (*NodePage, error) {
	return ask[*NodePage](ctx, g, QuerySecondDegree(node, edgeType, options...))
}

// SecondDegreePages returns the pages of SecondDegree, as NeighbourPages does.
func (g *Graph) SecondDegreePages(
	ctx context.Context, node uint64, edgeType string, options ...SecondDegreeOption,
) iter.Seq2[*NodePage, error] {
	return pagesOf[*NodePage](ctx, g, QuerySecondDegree(node, edgeType, options...))
}

// SecondDegreeCount returns the number of nodes at distance 2.
func (g *Graph) SecondDegreeCount(
	ctx context.Context, node uint64, edgeType string, options ...SecondDegreeCountOption,
) (*NodeCount, error) {
	return ask[*NodeCount](ctx, g, QuerySecondDegreeCount(node, edgeType, options...))
}

// Suggest returns the nodes at distance 2 with the most common neighbours: 10 unless SuggestionsMax is passed.
func (g *Graph) Suggest(
	ctx context.Context, node uint64, edgeType string, options ...SuggestOption,
) (*Suggestions, error) {
	return ask[*Suggestions](ctx, g, QuerySuggest(node, edgeType, options...))
}

// Query executes up to 64 queries in one call, and returns their results in the same order. A query that fails has an
// *Error in its place.
func (g *Graph) Query(ctx context.Context, queries ...GraphQuery) ([]GraphAnswer, error) {
	request := &pb.GraphQueryRequest{Graph: g.name}
	for _, each := range queries {
		if each.kind == nil {
			return nil, refusalEmptyQuery.error(methodGraphQuery.name)
		}
		if each.refused != nil {
			return nil, each.refused.error(each.kind.method.name)
		}
		request.Queries = append(request.Queries, each.kind.part(each.request))
	}
	reply, err := callGraph(ctx, g, methodGraphQuery, request, &pb.GraphQueryReply{})
	if err != nil {
		return nil, err
	}
	return g.client.engine.answersOf(queries, reply.Results)
}
