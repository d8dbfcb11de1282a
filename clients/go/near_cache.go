package gannet

import (
	"bytes"
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "gannet.dev/client/gannetv1"
)

// NearCache has the bounds of the copies of values that a client keeps, for Configuration.WithNearCache. The least
// recently used copies give way.
//
// A Get whose value the client has a copy of asks no server. The server reports every change of a key by any client of
// any protocol, by expiry and by eviction, and the client drops its copy. A copy may therefore be stale for the time
// that this report needs, usually below a millisecond; the end of a time to live is reported within seconds. If the
// connection is broken without notice, a copy may be stale for at most 15 s: the client then misses three heartbeats,
// drops all copies, and asks the server for every value until it has connected again. A client sees its own completed
// writes at once. Use other calls, such as GetWithHash, for values that may not be stale: only Get uses copies.
type NearCache struct {
	// EntriesMax is the maximum number of copies of all caches together.
	EntriesMax int
	// BytesMax is the maximum size in bytes of their keys and values.
	BytesMax int
	// Prefixes are those of the keys that are copied; none for all keys. At most 256, of at most 256 bytes each.
	Prefixes []string
}

// NearCacheMetrics are the metrics of a near cache.
type NearCacheMetrics struct {
	// Hits is the number of calls of Get with a copy, and Misses that of the other ones.
	Hits, Misses uint64
	// Invalidations is the number of copies that were dropped because the server reported a change.
	Invalidations uint64
	// Entries and Bytes are the present copies.
	Entries, Bytes int
	// Watching is the number of caches whose changes the server reports now.
	Watching int
}

// nearCachesMax bounds the caches of which a client has copies. The server has no more caches.
const nearCachesMax = 16

// refusedDelay is the time before a watch that the server refuses is asked for again.
const refusedDelay = 5 * time.Second

type nearKey struct{ cache, key string }

type nearEntry struct {
	nearKey
	value []byte
}

func (e *nearEntry) size() int { return len(e.key) + len(e.value) }

// nearRead is a Get that the server answers. Its value may be copied unless the key changes in the meantime.
type nearRead struct{ readers int }

// nearWatch is the watch of one cache.
type nearWatch struct {
	watching bool
	heard    time.Time // the latest event
	failure  *Error
	changed  chan struct{} // closed when watching or failure changes
	end      context.CancelFunc
}

// nearCache has the copies of a client.
//
//	Get --copy--> hit
//	 +--none--> read (pending) --value--> copy, if the read is still pending and its cache is watched
//	report of a change, own write, lost watch --> neither copy nor pending read
type nearCache struct {
	engine *engine
	limits NearCache

	mutex   sync.Mutex
	watches map[string]*nearWatch
	entries map[nearKey]*list.Element
	pending map[nearKey]*nearRead
	recent  list.List // the most recently used entry first
	metrics NearCacheMetrics
}

func newNearCache(e *engine, limits NearCache) *nearCache {
	return &nearCache{
		engine: e, limits: limits, watches: map[string]*nearWatch{},
		entries: map[nearKey]*list.Element{}, pending: map[nearKey]*nearRead{},
	}
}

func (n *nearCache) copies(key string) bool {
	for _, prefix := range n.limits.Prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return len(n.limits.Prefixes) == 0
}

// find returns a copy of the value, or the read by which the caller asks the server. The caller passes it to store.
func (n *nearCache) find(cache, key string) ([]byte, *nearRead) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	of := nearKey{cache, key}
	watch := n.watchOf(cache)
	isCurrent := watch != nil && watch.watching
	if isCurrent && time.Since(watch.heard) > n.engine.silence {
		// The process was stopped for a while: the timer of the stream may fire later than this read.
		n.dropAll(cache)
		isCurrent = false
	}
	if found, has := n.entries[of]; has {
		n.metrics.Hits++
		n.recent.MoveToFront(found)
		// The caller may change its bytes.
		return bytes.Clone(found.Value.(*nearEntry).value), nil
	}
	n.metrics.Misses++
	if !isCurrent || !n.copies(key) {
		return nil, nil
	}
	read := n.pending[of]
	if read == nil {
		read = &nearRead{}
		n.pending[of] = read
	}
	read.readers++
	return nil, read
}

// store ends a read, and retains its value unless it is nil, or the key may have changed since the read began.
func (n *nearCache) store(cache, key string, read *nearRead, value []byte) {
	if read == nil {
		return
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	of := nearKey{cache, key}
	if n.pending[of] != read {
		return
	}
	if read.readers--; read.readers == 0 {
		delete(n.pending, of)
	}
	entry := &nearEntry{of, value}
	if value == nil || entry.size() > n.limits.BytesMax {
		return
	}
	n.remove(of)
	n.entries[of] = n.recent.PushFront(entry)
	n.metrics.Bytes += entry.size()
	for len(n.entries) > n.limits.EntriesMax || n.metrics.Bytes > n.limits.BytesMax {
		n.remove(n.recent.Back().Value.(*nearEntry).nearKey)
	}
}

// remove removes a copy, and returns false if there is none. The caller holds the lock.
func (n *nearCache) remove(of nearKey) bool {
	found, has := n.entries[of]
	if has {
		n.recent.Remove(found)
		delete(n.entries, of)
		n.metrics.Bytes -= found.Value.(*nearEntry).size()
	}
	return has
}

// drop removes the copy of a key, and returns true if there was one. Reads that have begun store none.
func (n *nearCache) drop(of nearKey) bool {
	delete(n.pending, of)
	return n.remove(of)
}

// dropAll removes the copies of a cache, and returns their number. Reads that have begun store none.
func (n *nearCache) dropAll(cache string) (dropped uint64) {
	for of := range n.pending {
		if of.cache == cache {
			delete(n.pending, of)
		}
	}
	for of := range n.entries {
		if of.cache == cache && n.remove(of) {
			dropped++
		}
	}
	return dropped
}

// ended drops what a call of this client may have changed, whatever its result.
func (n *nearCache) ended(m *method, cache string, request proto.Message) {
	switch m {
	case methodGet, methodGetBatch, methodGetWithHash, methodGetTTL, methodGetType:
		return
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	switch request := request.(type) {
	case *pb.SetBatchRequest:
		for _, each := range request.Items {
			n.drop(nearKey{cache, string(each.Key)})
		}
	case *pb.CacheName:
		n.dropAll(request.Name)
	case interface{ GetKey() []byte }:
		n.drop(nearKey{cache, string(request.GetKey())})
	case interface{ GetLeaderboard() string }:
		n.drop(nearKey{cache, request.GetLeaderboard()})
	}
}

// watchOf returns the watch of a cache, which it starts if there is none, or nil if there are too many. The caller
// holds the lock.
func (n *nearCache) watchOf(cache string) *nearWatch {
	watch := n.watches[cache]
	if watch == nil && n.engine.background.Err() == nil && (len(n.watches) < nearCachesMax || n.endUseless()) {
		ctx, end := context.WithCancel(n.engine.background)
		watch = &nearWatch{changed: make(chan struct{}), end: end}
		n.watches[cache] = watch
		go n.follow(ctx, cache, watch)
	}
	return watch
}

// endUseless ends the watch of a cache that does not exist, and returns false if there is none. The caller holds the
// lock.
func (n *nearCache) endUseless() bool {
	for cache, watch := range n.watches {
		if watch.failure != nil && watch.failure.Code == CodeNotFoundCache {
			watch.end()
			delete(n.watches, cache)
			return true
		}
	}
	return false
}

func (n *nearCache) follow(ctx context.Context, cache string, watch *nearWatch) {
	defer watch.end()
	request := &pb.WatchKeysRequest{Prefixes: bytesOf(n.limits.Prefixes)}
	stream := follower[pb.WatchKeysEvent]{
		engine: n.engine, method: methodWatchKeys, cache: cache, ctx: ctx,
		begin: func(
			ctx context.Context, channel *grpc.ClientConn,
		) (grpc.ServerStreamingClient[pb.WatchKeysEvent], error) {
			return pb.NewInvalidationsClient(channel).WatchKeys(ctx, request)
		},
	}
	for ctx.Err() == nil {
		event, failure := stream.receive()
		n.accept(cache, watch, event, failure)
		if failure != nil && !passes(failure) {
			sleep(ctx, refusedDelay)
		} else if failure != nil {
			stream.pause()
		}
	}
	stream.close(nil)
}

// accept drops what an event reports. Without a stream, it drops all copies.
func (n *nearCache) accept(cache string, watch *nearWatch, event *pb.WatchKeysEvent, failure *Error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.watches[cache] != watch {
		return
	}
	if watching := failure == nil; watch.watching != watching || watch.failure != failure {
		watch.watching, watch.failure = watching, failure
		close(watch.changed)
		watch.changed = make(chan struct{})
	}
	if failure != nil {
		n.dropAll(cache)
		return
	}
	watch.heard = time.Now()
	switch kind := event.Kind.(type) {
	case *pb.WatchKeysEvent_Keys:
		for _, key := range kind.Keys.Keys {
			if n.drop(nearKey{cache, string(key)}) {
				n.metrics.Invalidations++
			}
		}
	case *pb.WatchKeysEvent_All:
		n.metrics.Invalidations += n.dropAll(cache)
	}
}

func (n *nearCache) snapshot() NearCacheMetrics {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	metrics := n.metrics
	metrics.Entries = len(n.entries)
	for _, watch := range n.watches {
		if watch.watching {
			metrics.Watching++
		}
	}
	return metrics
}

// WatchNearCache waits until the server reports the changes of a cache to the near cache of the configuration, and
// returns the reason if it refuses. Without this call, the first Get of the cache starts the watch.
func (c *Client) WatchNearCache(ctx context.Context, cache string) error {
	near := c.engine.near
	if near == nil {
		return newError(CodeInvalidArgument, "cannot watch cache '"+cache+"'", "the client has no near cache",
			"use Configuration.WithNearCache", nil)
	}
	for {
		near.mutex.Lock()
		watch := near.watchOf(cache)
		if watch == nil {
			near.mutex.Unlock()
			return newError(CodeLimitExceeded, "cannot watch cache '"+cache+"'", "the client watches 16 caches",
				"use another client", nil)
		}
		watching, failure, changed := watch.watching, watch.failure, watch.changed
		near.mutex.Unlock()
		if watching {
			return nil
		}
		if failure != nil && !passes(failure) {
			return failure
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if failure != nil {
				return failure
			}
			return newError(CodeTimeout, "cannot watch cache '"+cache+"'", "the watch has not begun",
				"check that the server runs", ctx.Err())
		}
	}
}
