// Command gannet-bench measures the client library against a server, and prints one JSON object:
//
//	gannet-bench -address 127.0.0.1:7000 -preset InRegion.LowLatency -concurrency 5000 -seconds 10
//
// Each of the concurrent callers begins its next call when its previous one has ended. The measurement begins after a
// warm-up of half its duration, and of at most 1 s. Latencies are those that a caller sees, with the wait in the
// client's queue. The environment variable GANNET_TOKEN has the token, if the server needs one.
//
// With -compare, the same callers also use the generated stub on one connection, without a deadline and with one. The
// three take turns, so that the state of the machine is the same for all of them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gannet "gannet.dev/client"
	pb "gannet.dev/client/gannetv1"
)

// batchKeys is the number of keys that each batch of the preparation stores.
const batchKeys = 1_000

type settings struct {
	address     string
	cache       string
	preset      string
	inFlightMax int
	concurrency int
	seconds     float64
	keySpace    int
	valueBytes  int
	getRatio    float64
	compare     bool
	caFile      string
	tls         bool
}

// result is the printed object. Latencies are microseconds.
type result struct {
	Preset      string  `json:"preset,omitempty"`
	Concurrency int     `json:"concurrency"`
	Seconds     float64 `json:"seconds"`
	// Requests is the number of calls without an error. Latencies are those of all calls.
	Requests          uint64            `json:"requests"`
	RequestsPerSecond float64           `json:"requests_per_s"`
	P50               float64           `json:"p50_us"`
	P99               float64           `json:"p99_us"`
	P999              float64           `json:"p999_us"`
	Errors            map[string]uint64 `json:"errors"`
	Connections       int               `json:"connections"`
	Retries           uint64            `json:"retries"`
	CPUSeconds        float64           `json:"cpu_seconds"`
	CPUPerRequest     float64           `json:"cpu_us_per_request"`
}

// comparison is the object that -compare prints.
type comparison struct {
	Library          result `json:"library"`
	Stub             result `json:"stub"`
	StubWithDeadline result `json:"stub_with_deadline"`
	// CPUOverStub is the CPU time of a request of the library over that of the stub.
	CPUOverStub             float64 `json:"cpu_over_stub"`
	CPUOverStubWithDeadline float64 `json:"cpu_over_stub_with_deadline"`
}

// caller executes the requests of the measurement, from any number of goroutines.
type caller interface {
	get(ctx context.Context, key string) error
	set(ctx context.Context, key string, value []byte) error
	close()
}

func main() {
	var s settings
	flag.StringVar(&s.address, "address", "127.0.0.1:7000", "HOST:PORT of gannet serve --grpc")
	flag.StringVar(&s.cache, "cache", "default", "name of the cache")
	flag.StringVar(&s.preset, "preset", "InRegion.Default", "name of the preset, such as Laptop or InRegion.LowLatency.v1")
	flag.IntVar(&s.inFlightMax, "in-flight-max", 0, "cap of requests in flight (0: that of the preset)")
	flag.IntVar(&s.concurrency, "concurrency", 100, "number of callers")
	flag.Float64Var(&s.seconds, "seconds", 10, "duration of the measurement")
	flag.IntVar(&s.keySpace, "key-space", 1_000, "number of keys")
	flag.IntVar(&s.valueBytes, "value-bytes", 100, "size of each value")
	flag.Float64Var(&s.getRatio, "get-ratio", 1, "share of gets; the other calls are sets")
	flag.BoolVar(&s.compare, "compare", false, "also measure the generated stub, in turn")
	flag.BoolVar(&s.tls, "tls", false, "use TLS, also for a local address")
	flag.StringVar(&s.caFile, "ca-file", "", "PEM file with the CA of the server")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (s settings) check() error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("cannot use argument '%s': it is no flag; run gannet-bench -help", flag.Arg(0))
	case s.concurrency < 1, s.seconds <= 0, s.keySpace < 1, s.valueBytes < 0, s.getRatio < 0, s.getRatio > 1:
		return errors.New("cannot use flags: a number is out of range; run gannet-bench -help")
	case s.compare && (s.tls || s.caFile != "" || os.Getenv("GANNET_TOKEN") != ""):
		return errors.New("cannot use -compare with TLS or a token: the stub has neither; drop -compare")
	}
	return nil
}

func run(s settings) error {
	if err := s.check(); err != nil {
		return err
	}
	configuration, err := gannet.Preset(s.preset)
	if err != nil {
		return err
	}
	if s.inFlightMax > 0 {
		configuration = configuration.WithRequestsInFlightMax(s.inFlightMax)
	}
	keys := make([]string, s.keySpace)
	for at := range keys {
		keys[at] = "bench:" + strconv.Itoa(at)
	}
	value := []byte(strings.Repeat("x", s.valueBytes))
	if err := fill(s, keys, value); err != nil {
		return err
	}
	own, err := open(s, configuration)
	if err != nil {
		return err
	}
	defer own.close()
	output := json.NewEncoder(os.Stdout)
	output.SetIndent("", "  ")
	library := &measurement{settings: s, calls: own}
	if !s.compare {
		library.run(keys, value, min(1, s.seconds/2), s.seconds)
		return output.Encode(library.result())
	}
	bare, err := openStub(s, 0)
	if err != nil {
		return err
	}
	defer bare.close()
	timed, err := openStub(s, configuration.Deadline())
	if err != nil {
		return err
	}
	defer timed.close()
	first, second := &measurement{settings: s, calls: bare}, &measurement{settings: s, calls: timed}
	const turn = 0.5
	for passed := 0.0; passed < s.seconds; passed += turn {
		for _, each := range []*measurement{first, library, second} {
			each.run(keys, value, 0, turn)
		}
	}
	all := comparison{Library: library.result(), Stub: first.result(), StubWithDeadline: second.result()}
	all.CPUOverStub = all.Library.CPUPerRequest / all.Stub.CPUPerRequest
	all.CPUOverStubWithDeadline = all.Library.CPUPerRequest / all.StubWithDeadline.CPUPerRequest
	return output.Encode(all)
}

func open(s settings, configuration gannet.Configuration) (library, error) {
	credentials := gannet.NoToken(s.address)
	if token := os.Getenv("GANNET_TOKEN"); token != "" {
		credentials = gannet.Token(s.address, token)
	}
	if s.tls {
		credentials = credentials.WithTLS()
	}
	if s.caFile != "" {
		credentials = credentials.WithCAFile(s.caFile)
	}
	client, err := gannet.NewClient(context.Background(), credentials, configuration, time.Hour)
	if err != nil {
		return library{}, err
	}
	if err := client.Connect(context.Background()); err != nil {
		return library{}, err
	}
	return library{client, s.cache}, nil
}

// library calls the client library.
type library struct {
	client *gannet.Client
	cache  string
}

func (l library) get(ctx context.Context, key string) error {
	_, err := l.client.Get(ctx, l.cache, key)
	return err
}

func (l library) set(ctx context.Context, key string, value []byte) error {
	return l.client.Set(ctx, l.cache, key, value)
}

func (l library) close() { l.client.Close() }

// stub calls the generated stub: the least that a program without the library does. If deadline is not 0, each call
// has this deadline.
type stub struct {
	channel  *grpc.ClientConn
	calls    pb.CacheClient
	pairs    metadata.MD
	deadline time.Duration
}

func openStub(s settings, deadline time.Duration) (caller, error) {
	channel, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return stub{channel, pb.NewCacheClient(channel), metadata.Pairs("cache", s.cache), deadline}, nil
}

func (s stub) get(ctx context.Context, key string) error {
	if s.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.deadline)
		defer cancel()
	}
	_, err := s.calls.Get(metadata.NewOutgoingContext(ctx, s.pairs), &pb.GetRequest{Key: []byte(key)})
	return err
}

func (s stub) set(ctx context.Context, key string, value []byte) error {
	if s.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.deadline)
		defer cancel()
	}
	request := &pb.SetRequest{Key: []byte(key), Value: value, TtlMs: 3_600_000}
	_, err := s.calls.Set(metadata.NewOutgoingContext(ctx, s.pairs), request)
	return err
}

func (s stub) close() { _ = s.channel.Close() }

// fill stores a value under every key. It has a client of its own, because a preset for low latency has a short
// deadline.
func fill(s settings, keys []string, value []byte) error {
	with, err := open(s, gannet.Laptop())
	if err != nil {
		return err
	}
	defer with.close()
	for batch := range slices.Chunk(keys, batchKeys) {
		items := make([]gannet.Item, len(batch))
		for at, key := range batch {
			items[at] = gannet.Item{Key: key, Value: value}
		}
		if err := with.client.SetBatch(context.Background(), with.cache, items); err != nil {
			return err
		}
	}
	return nil
}

// measurement has the calls of all turns of one caller.
type measurement struct {
	settings  settings
	calls     caller
	latencies []time.Duration
	errors    map[string]uint64
	elapsed   time.Duration
	cpu       time.Duration
}

// run executes requests, and measures those that end within a time of this length after the warm-up.
func (m *measurement) run(keys []string, value []byte, warmUp, seconds float64) {
	callersNumber := m.settings.concurrency
	latencies := make([][]time.Duration, callersNumber)
	failures := make([]map[string]uint64, callersNumber)
	ctx := context.Background()
	runtime.GC()
	begin := time.Now().Add(time.Duration(warmUp * float64(time.Second)))
	end := begin.Add(time.Duration(seconds * float64(time.Second)))
	var callers sync.WaitGroup
	for at := range callersNumber {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(at)))
			for started := time.Now(); ; {
				key := keys[random.IntN(len(keys))]
				var err error
				if random.Float64() < m.settings.getRatio {
					err = m.calls.get(ctx, key)
				} else {
					err = m.calls.set(ctx, key, value)
				}
				now := time.Now()
				took := now.Sub(started)
				started = now
				if !now.Before(end) {
					return
				}
				if now.Before(begin) {
					continue
				}
				latencies[at] = append(latencies[at], took)
				if err != nil {
					if failures[at] == nil {
						failures[at] = map[string]uint64{}
					}
					failures[at][codeOf(err)]++
				}
			}
		})
	}
	time.Sleep(time.Until(begin))
	cpu := cpuTime()
	time.Sleep(time.Until(end))
	m.cpu += cpuTime() - cpu
	m.elapsed += end.Sub(begin)
	callers.Wait()
	m.latencies = append(m.latencies, slices.Concat(latencies...)...)
	if m.errors == nil {
		m.errors = map[string]uint64{}
	}
	for _, each := range failures {
		for code, number := range each {
			m.errors[code] += number
		}
	}
}

func (m *measurement) result() result {
	slices.Sort(m.latencies)
	requests := uint64(len(m.latencies))
	for _, number := range m.errors {
		requests -= number
	}
	r := result{
		Preset: m.settings.preset, Concurrency: m.settings.concurrency, Seconds: m.elapsed.Seconds(),
		Requests: requests, RequestsPerSecond: float64(requests) / m.elapsed.Seconds(),
		P50: quantile(m.latencies, 0.5), P99: quantile(m.latencies, 0.99), P999: quantile(m.latencies, 0.999),
		Errors: m.errors, Connections: 1,
		CPUSeconds: m.cpu.Seconds(), CPUPerRequest: m.cpu.Seconds() * 1e6 / float64(max(requests, 1)),
	}
	if own, isLibrary := m.calls.(library); isLibrary {
		metrics := own.client.Metrics()
		r.Connections, r.Retries = metrics.Connections, metrics.Retries
	} else {
		r.Preset = ""
	}
	return r
}

// codeOf returns the code of an error of the library, or that of gRPC for an error of the stub.
func codeOf(err error) string {
	if code, isOwn := gannet.CodeOf(err); isOwn {
		return code.String()
	}
	return status.Code(err).String()
}

// quantile returns the microseconds that this share of the sorted latencies does not exceed.
func quantile(ordered []time.Duration, share float64) float64 {
	if len(ordered) == 0 {
		return 0
	}
	at := min(int(share*float64(len(ordered))), len(ordered)-1)
	return float64(ordered[at].Nanoseconds()) / 1e3
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
