package gannet

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "gannet.dev/client/gannetv1"
)

// TestPlacesAreNeverLostOrGrantedTwice executes requests with random deadlines, and checks the bounds of the requests
// in flight. The exchange with the server is a short sleep.
func TestPlacesAreNeverLostOrGrantedTwice(t *testing.T) {
	const inFlightMax, streams = 7, 3
	e := &engine{configuration: LaptopV1().WithRequestsInFlightMax(inFlightMax).WithStreamsPerConnection(streams)}
	e.metadata.Store(&map[string]metadata.MD{})
	for range e.configuration.ConnectionsMax() {
		e.connections = append(e.connections, &connection{channel: new(grpc.ClientConn)})
	}
	e.limiter = newLimiter(e.connections, e.configuration)
	seed := rand.Uint64()
	var mutex sync.Mutex
	held := map[*grpc.ClientConn]int{}
	total, largest, executed, refused := 0, 0, 0, 0
	exchange := func(ctx context.Context, on *grpc.ClientConn) error {
		mutex.Lock()
		held[on]++
		total++
		executed++
		largest = max(largest, total)
		if total > inFlightMax || held[on] > streams {
			t.Errorf("seed %d: %d requests are in flight, %d on one connection", seed, total, held[on])
		}
		mutex.Unlock()
		time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
		mutex.Lock()
		defer mutex.Unlock()
		held[on]--
		total--
		return nil
	}
	var callers sync.WaitGroup
	for caller := range 32 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(caller)))
			for range 200 {
				limit := time.Duration(random.IntN(1000)) * time.Microsecond
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				_, failure := e.execute(ctx, methodGetBatch, "", nil, nil, exchange, nil)
				cancel()
				if failure == nil {
					continue
				}
				mutex.Lock()
				refused++
				mutex.Unlock()
				if failure.Code != CodeClientQueueTimeout {
					t.Errorf("seed %d: %v", seed, failure)
				}
			}
		})
	}
	callers.Wait()
	l := e.limiter
	if inFlight, queued := l.counts(); inFlight != 0 || queued != 0 || l.first != nil || l.newest != nil {
		t.Fatalf("seed %d: %d in flight and %d queued after the last request", seed, inFlight, queued)
	}
	for _, each := range e.connections {
		if each.inFlight != 0 {
			t.Fatalf("seed %d: a connection has %d requests after the last one", seed, each.inFlight)
		}
	}
	if executed+refused != 32*200 || executed == 0 || refused == 0 || largest != inFlightMax {
		t.Fatalf("seed %d: %d executed, %d refused, at most %d at once", seed, executed, refused, largest)
	}
}

// TestValueThatWasReadWhileItsKeyChangedIsNotCopied executes the orders of a read and a change that are rare in time.
func TestValueThatWasReadWhileItsKeyChangedIsNotCopied(t *testing.T) {
	watch := &nearWatch{watching: true, heard: time.Now(), changed: make(chan struct{})}
	changed := &pb.WatchKeysEvent{Kind: &pb.WatchKeysEvent_Keys{Keys: &pb.ChangedKeys{Keys: [][]byte{[]byte("k")}}}}
	all := &pb.WatchKeysEvent{Kind: &pb.WatchKeysEvent_All{All: &pb.AllKeys{}}}
	for name, change := range map[string]func(*nearCache){
		"reported":  func(n *nearCache) { n.accept("c", watch, changed, nil) },
		"all keys":  func(n *nearCache) { n.accept("c", watch, all, nil) },
		"own write": func(n *nearCache) { n.ended(methodSet, "c", &pb.SetRequest{Key: []byte("k")}) },
		"own flush": func(n *nearCache) { n.ended(methodFlushCache, "", &pb.CacheName{Name: "c"}) },
		"lost": func(n *nearCache) {
			n.accept("c", watch, nil, refusalClosed.error("WatchKeys"))
			n.accept("c", watch, &pb.WatchKeysEvent{}, nil)
		},
	} {
		n := newNearCache(&engine{silence: time.Minute}, NearCache{EntriesMax: 10, BytesMax: 100})
		n.watches["c"] = watch
		_, before := n.find("c", "k")
		change(n)
		_, after := n.find("c", "k")
		n.store("c", "k", before, []byte("old"))
		if found, _ := n.find("c", "k"); found != nil {
			t.Fatalf("%s: the old value was copied", name)
		}
		n.store("c", "k", after, []byte("new"))
		if found, _ := n.find("c", "k"); string(found) != "new" {
			t.Fatalf("%s: the new value was not copied", name)
		}
		change(n)
		if found, _ := n.find("c", "k"); found != nil {
			t.Fatalf("%s: the copy outlives the change", name)
		}
		if n.metrics.Bytes != 0 || len(n.entries) != 0 {
			t.Fatalf("%s: %+v", name, n.metrics)
		}
	}
}

func TestBucketContainsItsValue(t *testing.T) {
	for _, value := range []uint64{0, 1, 63, 64, 127, 128, 129, 255, 256, 1000, 123456, 1 << 30, 1<<40 - 1} {
		h := &histogram{}
		h.record(value)
		count, ends := h.quantiles(0.5, 0.999)
		if count != 1 || ends[0] != ends[1] || uint64(ends[0]) < value || uint64(ends[0]) > value+value/64 {
			t.Errorf("%d: count %d, quantiles %v", value, count, ends)
		}
	}
	h := &histogram{}
	for value := range uint64(1000) {
		h.record(value)
	}
	if _, ends := h.quantiles(0.5, 0.99); ends[0] < 499 || ends[0] > 507 || ends[1] < 989 || ends[1] > 1005 {
		t.Errorf("quantiles of 0..999 are %v", ends)
	}
}

func TestMetadataOfManyCachesIsBounded(t *testing.T) {
	client, err := NewClient(context.Background(), Token("127.0.0.1:7000", "secret"), LaptopV1(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 * cachesRememberedMax {
		name := string(rune('a' + rand.N(26)))
		for len(name) < 8 {
			name += string(rune('a' + rand.N(26)))
		}
		pairs := client.engine.metadataOf(name)
		if pairs.Get("cache")[0] != name || pairs.Get("authorization")[0] != "secret" {
			t.Fatalf("metadata is %v", pairs)
		}
	}
	if known := len(*client.engine.metadata.Load()); known != cachesRememberedMax {
		t.Fatalf("%d caches are retained", known)
	}
}

// lateStream yields a message at the instant when it is cancelled, and then what gRPC yields for a cancelled stream.
type lateStream struct {
	grpc.ServerStreamingClient[pb.TopicEvent]
	ctx  context.Context
	sent bool
}

func (s *lateStream) Recv() (*pb.TopicEvent, error) {
	<-s.ctx.Done()
	if s.sent {
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
	s.sent = true
	return &pb.TopicEvent{}, nil
}

func TestStreamEndsForGoodBecauseAMessageArrivesAsItsSilenceEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream := &silent[pb.TopicEvent]{
		ServerStreamingClient: &lateStream{ctx: ctx}, giveUp: cancel, limit: time.Millisecond,
	}
	if message, err := stream.Recv(); message == nil || err != nil {
		t.Fatalf("the message is lost: %v", err)
	}
	_, err := stream.Recv()
	e := &engine{}
	if failure := e.errorOfStatus(methodSubscribe, nil, err); !passes(failure) {
		t.Fatalf("the stream is not opened again after %v", failure)
	}
}

func TestStatusesThatEndStreamsDifferFromThoseOfOtherLanguages(t *testing.T) {
	var table struct{ Lasting, Passing []string }
	if _, err := toml.DecodeFile("../streams.toml", &table); err != nil {
		t.Fatal(err)
	}
	if count := len(table.Lasting) + len(table.Passing); count != 17 {
		t.Fatalf("the table has %d statuses of 17", count)
	}
	e := &engine{}
	check := func(name string, want bool) {
		t.Helper()
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(strconv.Quote(name))); err != nil {
			t.Fatal(err)
		}
		err := status.Error(code, "reason")
		if code == codes.OK {
			err = io.EOF
		}
		if passes(e.errorOfStatus(methodSubscribe, nil, err)) != want {
			t.Errorf("%s: passes is not %v", name, want)
		}
	}
	for _, name := range table.Lasting {
		check(name, false)
	}
	for _, name := range table.Passing {
		check(name, true)
	}
	if passes(refusalCancelled.error("Subscribe")) || passes(refusalClosed.error("Subscribe")) {
		t.Error("a stream that the caller has ended is opened again")
	}
}

func TestCallsThatAreRepeatedDifferFromThoseOfOtherLanguages(t *testing.T) {
	var table struct {
		Never     []string
		ByRequest []string `toml:"by_request"`
	}
	if _, err := toml.DecodeFile("../calls.toml", &table); err != nil {
		t.Fatal(err)
	}
	forms := []*method{
		methodSetSubtractFrom, methodGraphChangeAt, methodGraphSetNodeAt, methodGraphRemoveNodeAt, methodGraphMarkNodeAt,
	}
	var once, both []string
	for _, each := range append(forms, allMethods...) {
		if each == methodSubscribe || each == methodWatchKeys || each.idempotent {
			continue
		}
		isOther := func(other *method) bool { return other.name == each.name && other.idempotent }
		if slices.ContainsFunc(allMethods, isOther) || slices.ContainsFunc(forms, isOther) {
			both = append(both, each.name)
		} else {
			once = append(once, each.name)
		}
	}
	slices.Sort(once)
	slices.Sort(both)
	if !slices.Equal(once, table.Never) {
		t.Errorf("%v are never repeated, not %v", once, table.Never)
	}
	if !slices.Equal(both, table.ByRequest) {
		t.Errorf("%v are repeated in one form, not %v", both, table.ByRequest)
	}
}
