// Package conformance tests a memcached server with the published, unmodified gomemcache.
package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const itemMax = 1024 * 1024

var shared *server

type server struct {
	address string
	process *exec.Cmd
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func start(port int) (*server, error) {
	return startAt(port, port)
}

// Starts a server that also serves Redis clients, on another port.
func startResp(port, respPort int) (*server, error) {
	return startAt(port, respPort, fmt.Sprintf("RESP_PORT=%d", respPort))
}

// Starts a server for both protocols at free ports. The test ends it.
func startFree(t *testing.T, environment ...string) *server {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	respPort, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	running, err := startAt(port, respPort, append(environment, fmt.Sprintf("RESP_PORT=%d", respPort))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.stop)
	return running
}

func startAt(port, waited int, environment ...string) (*server, error) {
	script, err := filepath.Abs("../serve")
	if err != nil {
		return nil, err
	}
	process := exec.Command(script, strconv.Itoa(port))
	process.Env = append(os.Environ(), environment...)
	return launch(process, waited)
}

// Starts a server and waits until it listens on a port.
func launch(process *exec.Cmd, waited int) (*server, error) {
	process.Stdout, process.Stderr = os.Stderr, os.Stderr
	if err := process.Start(); err != nil {
		return nil, err
	}
	running := &server{address: fmt.Sprintf("127.0.0.1:%d", waited), process: process}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.DialTimeout("tcp", running.address, time.Second); err == nil {
			return running, conn.Close()
		}
	}
	running.stop()
	return nil, errors.New("the server does not listen")
}

func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = s.process.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = s.process.Process.Kill()
		<-done
	}
}

func TestMain(m *testing.M) {
	limit := syscall.Rlimit{}
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < 4096 && limit.Max >= 4096 {
		limit.Cur = 4096
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	port, err := freePort()
	if err == nil {
		shared, err = start(port)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	shared.stop()
	if redisServer.server != nil {
		redisServer.stop()
	}
	os.Exit(status)
}

func connect(t *testing.T) *memcache.Client {
	t.Helper()
	client := memcache.New(shared.address)
	client.Timeout = 20 * time.Second
	must(t, client.FlushAll())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Fatalf("got %v, want %v", err, wanted)
	}
}

func reads(t *testing.T, client *memcache.Client, key string, value []byte) *memcache.Item {
	t.Helper()
	item, err := client.Get(key)
	must(t, err)
	if !bytes.Equal(item.Value, value) {
		t.Fatalf("%s: %d bytes read, %d bytes stored, or their content differs", key, len(item.Value), len(value))
	}
	return item
}

func everyByte(length int) []byte {
	value := make([]byte, length)
	for i := range value {
		value[i] = byte(i)
	}
	return value
}

func TestAValueIsReadBackWithItsFlags(t *testing.T) {
	client := connect(t)
	must(t, client.Set(&memcache.Item{Key: "key", Value: []byte("value"), Flags: 4000000000}))
	if item := reads(t, client, "key", []byte("value")); item.Flags != 4000000000 {
		t.Fatalf("flags %d", item.Flags)
	}
	_, err := client.Get("missing")
	wants(t, err, memcache.ErrCacheMiss)
	must(t, client.Set(&memcache.Item{Key: "empty"}))
	reads(t, client, "empty", nil)
	must(t, client.Ping())
}

func TestAMultiGetReturnsWhatIsThereAndNothingElse(t *testing.T) {
	client := connect(t)
	var keys []string
	for i := 0; i < 500; i++ {
		key := fmt.Sprintf("key-%d", i)
		keys = append(keys, key, fmt.Sprintf("missing-%d", i))
		must(t, client.Set(&memcache.Item{Key: key, Value: []byte(key)}))
	}
	items, err := client.GetMulti(keys)
	must(t, err)
	if len(items) != 500 {
		t.Fatalf("%d items", len(items))
	}
	for key, item := range items {
		if string(item.Value) != key {
			t.Fatalf("%s holds %q", key, item.Value)
		}
	}
}

func TestConditionalWritesLookAtWhatIsThere(t *testing.T) {
	client := connect(t)
	one, two := []byte("1"), []byte("2")
	wants(t, client.Replace(&memcache.Item{Key: "key", Value: one}), memcache.ErrNotStored)
	wants(t, client.Append(&memcache.Item{Key: "key", Value: one}), memcache.ErrNotStored)
	must(t, client.Add(&memcache.Item{Key: "key", Value: one}))
	wants(t, client.Add(&memcache.Item{Key: "key", Value: two}), memcache.ErrNotStored)
	must(t, client.Replace(&memcache.Item{Key: "key", Value: two}))
	must(t, client.Append(&memcache.Item{Key: "key", Value: []byte(">")}))
	must(t, client.Prepend(&memcache.Item{Key: "key", Value: []byte("<")}))
	reads(t, client, "key", []byte("<2>"))
	must(t, client.Delete("key"))
	wants(t, client.Delete("key"), memcache.ErrCacheMiss)
}

func TestCasStoresOnceForOneToken(t *testing.T) {
	client := connect(t)
	must(t, client.Set(&memcache.Item{Key: "key", Value: []byte("1")}))
	first, second := reads(t, client, "key", []byte("1")), reads(t, client, "key", []byte("1"))
	first.Value = []byte("2")
	must(t, client.CompareAndSwap(first))
	second.Value = []byte("3")
	wants(t, client.CompareAndSwap(second), memcache.ErrCASConflict)
	third := reads(t, client, "key", []byte("2"))
	must(t, client.Delete("key"))
	wants(t, client.CompareAndSwap(third), memcache.ErrCacheMiss)
}

func TestConcurrentCasLosesNoUpdate(t *testing.T) {
	client := connect(t)
	client.MaxIdleConns = 8
	must(t, client.Set(&memcache.Item{Key: "sum", Value: []byte("0")}))
	var group sync.WaitGroup
	var conflicts [8]int
	for worker := range conflicts {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for done := 0; done < 50; {
				item, err := client.Get("sum")
				if err != nil {
					t.Error(err)
					return
				}
				number, _ := strconv.Atoi(string(item.Value))
				item.Value = []byte(strconv.Itoa(number + 1))
				switch err := client.CompareAndSwap(item); {
				case err == nil:
					done++
				case errors.Is(err, memcache.ErrCASConflict):
					conflicts[worker]++
				default:
					t.Error(err)
					return
				}
			}
		}(worker)
	}
	group.Wait()
	reads(t, client, "sum", []byte("400"))
	t.Logf("conflicts: %v", conflicts)
}

func TestCountersWrapUpwardsAndStopAtZero(t *testing.T) {
	client := connect(t)
	_, err := client.Increment("key", 1)
	wants(t, err, memcache.ErrCacheMiss)
	must(t, client.Set(&memcache.Item{Key: "key", Value: []byte("18446744073709551615")}))
	for _, step := range []struct {
		delta, want uint64
		change      func(string, uint64) (uint64, error)
	}{{1, 0, client.Increment}, {41, 41, client.Increment}, {100, 0, client.Decrement}} {
		number, err := step.change("key", step.delta)
		must(t, err)
		if number != step.want {
			t.Fatalf("%d instead of %d", number, step.want)
		}
	}
	must(t, client.Set(&memcache.Item{Key: "key", Value: []byte("words")}))
	if _, err := client.Increment("key", 1); err == nil || !strings.Contains(err.Error(), "non-numeric") {
		t.Fatalf("got %v", err)
	}
}

func TestAnItemIsGoneWhenItsTimeIsOverAndTouchMovesIt(t *testing.T) {
	client := connect(t)
	for key, seconds := range map[string]int32{"short": 1, "touched": 1, "read": 1, "long": 100, "past": -1} {
		must(t, client.Set(&memcache.Item{Key: key, Value: []byte(key), Expiration: seconds}))
	}
	must(t, client.Touch("touched", 100))
	wants(t, client.Touch("missing", 100), memcache.ErrCacheMiss)
	item, err := client.GetAndTouch("read", 100)
	must(t, err)
	if string(item.Value) != "read" {
		t.Fatalf("gat read %q", item.Value)
	}
	_, err = client.Get("past")
	wants(t, err, memcache.ErrCacheMiss)
	reads(t, client, "short", []byte("short"))
	time.Sleep(2200 * time.Millisecond)
	_, err = client.Get("short")
	wants(t, err, memcache.ErrCacheMiss)
	for _, key := range []string{"touched", "read", "long"} {
		reads(t, client, key, []byte(key))
	}
}

func TestAValueOfAnyLengthComesBackWhole(t *testing.T) {
	client := connect(t)
	for _, length := range []int{0, 1, 1000, 8191, 8192, 8193, 65536, 131072, 500000, itemMax - 512} {
		value := everyByte(length)
		must(t, client.Set(&memcache.Item{Key: "key", Value: value}))
		reads(t, client, "key", value)
	}
	if err := client.Set(&memcache.Item{Key: "key", Value: make([]byte, itemMax+1)}); err == nil {
		t.Fatal("a value above the maximum was stored")
	}
	must(t, client.Set(&memcache.Item{Key: "after", Value: []byte("1")}))
	reads(t, client, "after", []byte("1"))
}

func TestBytesThatLookLikeProtocolAreData(t *testing.T) {
	client := connect(t)
	for _, text := range []string{"\r\n", "END\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n", "\x00\x00", "STORED\r\n"} {
		must(t, client.Set(&memcache.Item{Key: "key", Value: []byte(text)}))
		reads(t, client, "key", []byte(text))
	}
}

func TestAThousandConnectionsAreServedAtOnce(t *testing.T) {
	client := connect(t)
	client.MaxIdleConns = 1000
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	conns := make([]net.Conn, 0, 900)
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	// The client's connections are in addition to the idle ones.
	for len(conns) < cap(conns) {
		conn, err := net.DialTimeout("tcp", shared.address, 5*time.Second)
		must(t, err)
		conns = append(conns, conn)
	}
	for worker := 0; worker < 100; worker++ {
		ready.Add(1)
		done.Add(1)
		go func(worker int) {
			defer done.Done()
			ready.Done()
			<-begin
			for round := 0; round < 50; round++ {
				key, value := fmt.Sprintf("w-%d", worker), []byte(fmt.Sprintf("%d-%d", worker, round))
				if err := client.Set(&memcache.Item{Key: key, Value: value}); err != nil {
					t.Error(err)
					return
				}
				if item, err := client.Get(key); err != nil || !bytes.Equal(item.Value, value) {
					t.Errorf("%s: %v %v", key, item, err)
					return
				}
			}
		}(worker)
	}
	ready.Wait()
	close(begin)
	done.Wait()
	for _, conn := range conns {
		_, err := conn.Write([]byte("get w-7\r\n"))
		must(t, err)
		want := "VALUE w-7 0 4\r\n7-49\r\nEND\r\n"
		reply := make([]byte, len(want))
		must(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
		if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != want {
			t.Fatalf("%q %v", reply, err)
		}
	}
}

func TestAClientComesBackAfterTheServerWent(t *testing.T) {
	port, err := freePort()
	must(t, err)
	first, err := start(port)
	must(t, err)
	client := memcache.New(first.address)
	defer client.Close()
	must(t, client.Set(&memcache.Item{Key: "key", Value: []byte("1")}))
	first.stop()
	if _, err := client.Get("key"); err == nil || errors.Is(err, memcache.ErrCacheMiss) {
		t.Fatalf("got %v from a server that is gone", err)
	}
	second, err := start(port)
	must(t, err)
	defer second.stop()
	_, err = client.Get("key")
	wants(t, err, memcache.ErrCacheMiss)
	must(t, client.Set(&memcache.Item{Key: "key", Value: []byte("2")}))
	reads(t, client, "key", []byte("2"))
}
