package conformance

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// Starts a server for gRPC clients, and returns its port.
func startGrpc(t *testing.T, environment ...string) int {
	t.Helper()
	port, _ := startGrpcAndRedis(t, environment...)
	return port
}

// Starts a server for gRPC clients, and returns its port and the address for Redis clients.
func startGrpcAndRedis(t *testing.T, environment ...string) (int, string) {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	running := startFree(t, append(environment, fmt.Sprintf("GRPC_PORT=%d", port))...)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			_ = conn.Close()
			return port, running.address
		}
	}
	t.Fatal("the server does not listen for gRPC clients")
	return 0, ""
}

// All cases of h2spec: RFC 9113's predecessor RFC 7540, and RFC 7541.
func TestHTTP2IsThatOfH2spec(t *testing.T) {
	folder, _ := certificates(t)
	for name, environment := range map[string][]string{"plain": nil, "tls": {"TLS=" + folder}} {
		t.Run(name, func(t *testing.T) {
			c := &config.Config{
				Host:         "localhost",
				Port:         startGrpc(t, environment...),
				Path:         "/gannet.v1.Cache/Get",
				Timeout:      5 * time.Second,
				MaxHeaderLen: 4000,
				TLS:          name == "tls",
				Insecure:     true,
			}
			passed := 0
			for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
				group.Test(c)
				passed += group.PassedCount
				if group.FailedCount > 0 || group.SkippedCount > 0 {
					t.Errorf("%s: %d failed, %d skipped", group.Name, group.FailedCount, group.SkippedCount)
				}
			}
			if passed < 140 {
				t.Errorf("only %d cases passed", passed)
			}
		})
	}
}
