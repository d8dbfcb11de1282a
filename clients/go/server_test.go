package gannet_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gannet "gannet.dev/client"
)

const timeout = 10 * time.Second

// startsMax bounds the attempts to start a server.
const startsMax = 3

// server is a real server, started through conformance/clients/serve. The process becomes the server, so that its id
// ends it.
type server struct {
	ports     []int    // for memcached, Redis and gRPC clients
	arguments []string // of serve, after the port
	settings  []string // of serve, in its environment
	process   *exec.Cmd
}

func (s *server) address() string { return fmt.Sprintf("127.0.0.1:%d", s.ports[2]) }

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func startServer(arguments []string, settings ...string) (*server, error) {
	for attempt := 1; ; attempt++ {
		s := &server{arguments: arguments, settings: settings}
		for range 3 {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			s.ports = append(s.ports, port)
		}
		err := s.start()
		// Another process may take a port between its choice and its use. The server waits 1 s for it, and ends.
		if err == nil || attempt == startsMax {
			return s, err
		}
	}
}

// hasEnded returns true if the process has ended, and waits to be collected.
func (s *server) hasEnded() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	return err != nil || strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

// start starts the server on its ports, and waits until it listens.
func (s *server) start() error {
	arguments := append([]string{strconv.Itoa(s.ports[0])}, s.arguments...)
	s.process = exec.Command("../../conformance/clients/serve", arguments...)
	s.process.Env = append(os.Environ(), fmt.Sprintf("RESP_PORT=%d", s.ports[1]), fmt.Sprintf("GRPC_PORT=%d", s.ports[2]))
	s.process.Env = append(append(s.process.Env, "TEST_FAULTS=1"), s.settings...)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(timeout); time.Now().Before(end) && !s.hasEnded(); time.Sleep(10 * time.Millisecond) {
		if open, err := net.DialTimeout("tcp", s.address(), time.Second); err == nil {
			return open.Close()
		}
	}
	s.kill()
	return errors.New("the server does not listen")
}

func (s *server) signal(signal os.Signal) { _ = s.process.Process.Signal(signal) }

func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	_ = s.process.Wait()
}

// stop ends the server as its operator does, after its calls in flight.
func (s *server) stop() {
	s.signal(syscall.SIGTERM)
	_ = s.process.Wait()
}

// pause stops all threads of the server.
func (s *server) pause(t *testing.T) {
	t.Helper()
	s.signal(syscall.SIGSTOP)
	eventually(t, "the server is stopped", func() bool {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.process.Process.Pid))
		for _, path := range stats {
			text, err := os.ReadFile(path)
			if err != nil || !strings.HasPrefix(string(text[strings.LastIndexByte(string(text), ')')+2:]), "T") {
				return false
			}
		}
		return len(stats) > 0
	})
}

func (s *server) resume() { s.signal(syscall.SIGCONT) }

// shared is the server of all tests that neither pause nor end it.
var shared *server

func TestMain(m *testing.M) {
	var err error
	if shared, err = startServer(nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	shared.kill()
	os.Exit(status)
}

// ownServer returns a server that the test may pause or end.
func ownServer(t *testing.T, settings ...string) *server {
	t.Helper()
	return ownServerWith(t, nil, settings...)
}

// ownServerWith returns a server with more arguments of serve.
func ownServerWith(t *testing.T, arguments []string, settings ...string) *server {
	t.Helper()
	own, err := startServer(arguments, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.kill)
	return own
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not true after %v: %s", timeout, what)
		}
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newClient(t *testing.T, credentials gannet.Credentials, configuration gannet.Configuration) *gannet.Client {
	t.Helper()
	client, err := gannet.NewClient(testContext(t), credentials, configuration, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// executed has the clients of the tests of calls.
var executed []*gannet.Client

// sharedClient returns a client of the shared server whose default cache is empty.
func sharedClient(t *testing.T) *gannet.Client {
	t.Helper()
	client := newClient(t, gannet.NoToken(shared.address()), gannet.LaptopV1().WithMetrics(true))
	executed = append(executed, client)
	must(t, client.FlushCache(testContext(t), "default"))
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode fails the test unless err is a *gannet.Error with this code, whose message ends with its remedy.
func wantCode(t *testing.T, err error, code gannet.Code) *gannet.Error {
	t.Helper()
	var failure *gannet.Error
	if !errors.As(err, &failure) || failure.Code != code {
		t.Fatalf("error is %v, want %v", err, code)
	}
	if failure.Remedy == "" || !strings.HasSuffix(failure.Message, "; "+failure.Remedy) {
		t.Fatalf("message %q does not end with the remedy %q", failure.Message, failure.Remedy)
	}
	return failure
}
