// Command gannet-bench measures the client library against a server, and prints one JSON object:
//
//	gannet-bench -address 127.0.0.1:7000 -preset InRegion.LowLatency -concurrency 5000 -seconds 10
//
// Each of the concurrent callers begins its next call when its previous one has ended. Latencies are those that a
// caller sees, with the wait in the client's queue. TOKEN in the environment variable GANNET_TOKEN is optional.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	gannet "gannet.dev/client"
	pb "gannet.dev/client/gannetv1"
)

type settings struct {
	address     string
	cache       string
	preset      string
	concurrency int
	seconds     float64
	keySpace    int
	valueBytes  int
	getRatio    float64
	bare        bool
	caFile      string
	tls         bool
}

// result is the printed object. Latencies are microseconds.
type result struct {
	Preset            string            `json:"preset"`
	Concurrency       int               `json:"concurrency"`
	Seconds           float64           `json:"seconds"`
	Requests          uint64            `json:"requests"`
	RequestsPerSecond float64           `json:"requests_per_second"`
	P50               float64           `json:"p50_us"`
	P99               float64           `json:"p99_us"`
	P999              float64           `json:"p999_us"`
	Errors            map[string]uint64 `json:"errors"`
	Connections       int               `json:"connections"`
	Retries           uint64            `json:"retries"`
	CPUSeconds        float64           `json:"cpu_seconds"`
	CPUPerRequest     float64           `json:"cpu_us_per_request"`
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
	flag.IntVar(&s.concurrency, "concurrency", 100, "number of callers")
	flag.Float64Var(&s.seconds, "seconds", 10, "duration of the measurement")
	flag.IntVar(&s.keySpace, "key-space", 10_000, "number of keys")
	flag.IntVar(&s.valueBytes, "value-bytes", 100, "size of each value")
	flag.Float64Var(&s.getRatio, "get-ratio", 0.9, "share of gets; the other calls are sets")
	flag.BoolVar(&s.bare, "bare", false, "measure the generated stub on one connection, without the library")
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
	case s.bare && (s.tls || s.caFile != "" || os.Getenv("GANNET_TOKEN") != ""):
		return errors.New("cannot use -bare with TLS or a token: the stub has neither; drop -bare")
	}
	return nil
}

func run(s settings) error {
	if err := s.check(); err != nil {
		return err
	}
	calls, err := open(s)
	if err != nil {
		return err
	}
	defer calls.close()
	keys := make([]string, s.keySpace)
	for at := range keys {
		keys[at] = "bench:" + strconv.Itoa(at)
	}
	value := []byte(strings.Repeat("x", s.valueBytes))
	if err := fill(calls, keys, value); err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	output.SetIndent("", "  ")
	return output.Encode(measure(s, calls, keys, value))
}

func open(s settings) (caller, error) {
	if s.bare {
		return openBare(s)
	}
	configuration, err := gannet.Preset(s.preset)
	if err != nil {
		return nil, err
	}
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
		return nil, err
	}
	if err := client.Connect(context.Background()); err != nil {
		return nil, err
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

// bare calls the generated stub: the least that a program without the library does.
type bare struct {
	channel *grpc.ClientConn
	stub    pb.CacheClient
	pairs   metadata.MD
}

func openBare(s settings) (caller, error) {
	channel, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return bare{channel, pb.NewCacheClient(channel), metadata.Pairs("cache", s.cache)}, nil
}

func (b bare) get(ctx context.Context, key string) error {
	_, err := b.stub.Get(metadata.NewOutgoingContext(ctx, b.pairs), &pb.GetRequest{Key: []byte(key)})
	return err
}

func (b bare) set(ctx context.Context, key string, value []byte) error {
	request := &pb.SetRequest{Key: []byte(key), Value: value, TtlMs: 3_600_000}
	_, err := b.stub.Set(metadata.NewOutgoingContext(ctx, b.pairs), request)
	return err
}

func (b bare) close() { _ = b.channel.Close() }

// fill stores a value under every key, with 50 calls at once.
func fill(calls caller, keys []string, value []byte) error {
	var next atomic.Int64
	errs := make(chan error, 50)
	for range cap(errs) {
		go func() {
			for at := next.Add(1) - 1; int(at) < len(keys); at = next.Add(1) - 1 {
				if err := calls.set(context.Background(), keys[at], value); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range cap(errs) {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// measure executes the requests of all callers until the time has passed.
func measure(s settings, calls caller, keys []string, value []byte) result {
	latencies := make([][]time.Duration, s.concurrency)
	failures := make([]map[string]uint64, s.concurrency)
	for at := range s.concurrency {
		latencies[at] = make([]time.Duration, 0, 1<<10)
		failures[at] = map[string]uint64{}
	}
	ctx := context.Background()
	cpu, begun := cpuTime(), time.Now()
	end := begun.Add(time.Duration(s.seconds * float64(time.Second)))
	var callers sync.WaitGroup
	for at := range s.concurrency {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(at)))
			for started := time.Now(); started.Before(end); {
				key := keys[random.IntN(len(keys))]
				var err error
				if random.Float64() < s.getRatio {
					err = calls.get(ctx, key)
				} else {
					err = calls.set(ctx, key, value)
				}
				now := time.Now()
				latencies[at] = append(latencies[at], now.Sub(started))
				started = now
				if err != nil {
					failures[at][codeOf(err)]++
				}
			}
		})
	}
	callers.Wait()
	elapsed, used := time.Since(begun), cpuTime()-cpu
	all := slices.Concat(latencies...)
	slices.Sort(all)
	r := result{
		Preset: s.preset, Concurrency: s.concurrency, Seconds: elapsed.Seconds(), Requests: uint64(len(all)),
		RequestsPerSecond: float64(len(all)) / elapsed.Seconds(),
		P50:               quantile(all, 0.5), P99: quantile(all, 0.99), P999: quantile(all, 0.999),
		Errors: map[string]uint64{}, Connections: 1, CPUSeconds: used.Seconds(),
		CPUPerRequest: used.Seconds() * 1e6 / float64(len(all)),
	}
	for _, each := range failures {
		for code, number := range each {
			r.Errors[code] += number
		}
	}
	if own, isLibrary := calls.(library); isLibrary {
		metrics := own.client.Metrics()
		r.Connections, r.Retries = metrics.Connections, metrics.Retries
	} else {
		r.Preset = "bare stub"
	}
	return r
}

func codeOf(err error) string {
	code, _ := gannet.CodeOf(err)
	return code.String()
}

// quantile returns the microseconds that this share of the sorted latencies does not exceed.
func quantile(ordered []time.Duration, share float64) float64 {
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
