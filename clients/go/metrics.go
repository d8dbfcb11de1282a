package gannet

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Metrics is a snapshot of a client's metrics. Counters are those since the client was created.
type Metrics struct {
	// InFlight is the number of requests that were sent and whose replies are awaited.
	InFlight int
	// Queued is the number of requests that wait in the client's queue.
	Queued int
	// Connections is the number of connections that the client uses for requests.
	Connections int
	Retries     uint64
	Hedges      uint64
	// Resumes is the number of times that subscriptions and watches were continued on a new stream.
	Resumes uint64
	// NearCache has the metrics of the near cache, if the configuration has one.
	NearCache NearCacheMetrics
	// Methods has the calls and latencies by the name of the call in the schema. It is empty unless the configuration
	// enables metrics.
	Methods map[string]MethodMetrics
}

// MethodMetrics has the calls of one method so far.
type MethodMetrics struct {
	Calls uint64
	// Errors is the number of failed calls by their code.
	Errors map[Code]uint64
	P50    time.Duration
	P99    time.Duration
	P999   time.Duration
}

const (
	// A value below 64 ns has a bucket of its own. Larger ones have 64 buckets for each power of two:
	//
	//	64..127 in steps of 1, 128..255 in steps of 2, 256..511 in steps of 4, ...
	//
	// so that a bucket is at most 1/64 of its values wide. Values of 2^40 ns (18 minutes) and more share the last bucket.
	bucketBits    = 6
	valueBitsMax  = 40
	bucketsNumber = (valueBitsMax - bucketBits + 1) << bucketBits
)

// histogram counts latencies in nanoseconds. Any number of goroutines may record.
type histogram struct {
	buckets [bucketsNumber]atomic.Uint64
}

func (h *histogram) record(ns uint64) {
	at := ns
	if length := bits.Len64(ns); length > bucketBits+1 {
		shift := length - bucketBits - 1
		at = uint64(shift)<<bucketBits + ns>>shift
	}
	h.buckets[min(at, bucketsNumber-1)].Add(1)
}

// quantiles returns the number of values, and for each share the upper end of the bucket that reaches it, or 0 without
// values. The shares ascend.
func (h *histogram) quantiles(shares ...float64) (count uint64, ends []time.Duration) {
	var counts [bucketsNumber]uint64
	for at := range h.buckets {
		counts[at] = h.buckets[at].Load()
		count += counts[at]
	}
	ends = make([]time.Duration, len(shares))
	passed, next := uint64(0), 0
	for at := 0; at < bucketsNumber && next < len(shares); at++ {
		passed += counts[at]
		for next < len(shares) && counts[at] > 0 && float64(passed) >= shares[next]*float64(count) {
			ends[next] = time.Duration(bucketEnd(at))
			next++
		}
	}
	return count, ends
}

func bucketEnd(at int) int64 {
	if at < 2<<bucketBits {
		return int64(at)
	}
	shift := at>>bucketBits - 1
	return int64(at-shift<<bucketBits+1)<<shift - 1
}

// methodRecord has the calls of one method.
type methodRecord struct {
	latencies histogram
	errors    [codesCount]atomic.Uint64
}

// recorder collects the calls of one client, by the index of the method. A record is allocated by the first call.
type recorder struct {
	methods []atomic.Pointer[methodRecord]
}

func newRecorder() *recorder { return &recorder{make([]atomic.Pointer[methodRecord], len(allMethods))} }

func (r *recorder) record(m *method, duration time.Duration, failure *Error) {
	record := r.methods[m.index].Load()
	if record == nil {
		r.methods[m.index].CompareAndSwap(nil, &methodRecord{})
		record = r.methods[m.index].Load()
	}
	record.latencies.record(uint64(max(0, duration)))
	if failure != nil {
		record.errors[failure.Code].Add(1)
	}
}

func (r *recorder) snapshot() map[string]MethodMetrics {
	methods := map[string]MethodMetrics{}
	for index := range r.methods {
		record := r.methods[index].Load()
		if record == nil {
			continue
		}
		count, ends := record.latencies.quantiles(0.5, 0.99, 0.999)
		failed := map[Code]uint64{}
		for code := range record.errors {
			if number := record.errors[code].Load(); number > 0 {
				failed[Code(code)] = number
			}
		}
		methods[allMethods[index].name] = MethodMetrics{count, failed, ends[0], ends[1], ends[2]}
	}
	return methods
}
