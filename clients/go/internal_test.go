package gannet

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestPlacesAreNeverLostOrGrantedTwice runs requests with random deadlines against a limiter, and checks its bounds.
func TestPlacesAreNeverLostOrGrantedTwice(t *testing.T) {
	const inFlightMax, streams = 7, 3
	connections := []*connection{{}, {}, {}}
	l := newLimiter(connections, LaptopV1().WithRequestsInFlightMax(inFlightMax).WithStreamsPerConnection(streams))
	seed := rand.Uint64()
	var mutex sync.Mutex
	held := map[*connection]int{}
	granted, refused := 0, 0
	var requests sync.WaitGroup
	for worker := range 32 {
		requests.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(200))*time.Microsecond)
				used, own, reason := l.enter(true)
				if own != nil {
					used, reason = l.wait(ctx, own)
				}
				mutex.Lock()
				total := 0
				if reason == nil {
					held[used]++
					granted++
				} else {
					refused++
				}
				for _, number := range held {
					total += number
				}
				if total > inFlightMax || (reason == nil && held[used] > streams) {
					t.Errorf("seed %d: %d places are held, %d on one connection", seed, total, held[used])
				}
				mutex.Unlock()
				if reason == nil {
					time.Sleep(time.Duration(random.IntN(50)) * time.Microsecond)
					mutex.Lock()
					held[used]--
					mutex.Unlock()
					l.release(used)
				}
				cancel()
			}
		})
	}
	requests.Wait()
	if inFlight, queued := l.counts(); inFlight != 0 || queued != 0 || l.first != nil || l.newest != nil {
		t.Fatalf("seed %d: %d in flight and %d queued after the last request", seed, inFlight, queued)
	}
	for _, each := range connections {
		if each.inFlight != 0 {
			t.Fatalf("seed %d: a connection has %d requests after the last one", seed, each.inFlight)
		}
	}
	if granted == 0 || refused == 0 {
		t.Fatalf("seed %d: %d granted and %d refused: both must occur", seed, granted, refused)
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
