package gannet_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gannet "gannet.dev/client"
)

// proxy forwards connections to a server. It stands for the network between a client and the server.
type proxy struct {
	listener net.Listener
	// delay returns the time by which the bytes from the server are late on the connection with this number.
	delay func(connection int) time.Duration
	mutex sync.Mutex
	open  []net.Conn
	count int
	// swallowed is the number of the first connections whose bytes are read and not sent on.
	swallowed int
	// held is true while the bytes of all connections wait, until changed.
	held    bool
	changed *sync.Cond
}

// newProxy starts a proxy. With a certificate, it ends TLS.
func newProxy(t *testing.T, target string, settings *tls.Config, delay func(int) time.Duration) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if settings != nil {
		listener = tls.NewListener(listener, settings)
	}
	p := &proxy{listener: listener, delay: delay}
	p.changed = sync.NewCond(&p.mutex)
	t.Cleanup(func() {
		listener.Close()
		must(t, p.network("forward"))
		p.cut()
	})
	go p.accept(target)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept(target string) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			continue
		}
		p.mutex.Lock()
		number := p.count
		p.count++
		p.open = append(p.open, client, server)
		p.mutex.Unlock()
		passes := func() bool { return p.passes(number) }
		go forward(client, server, passes, func() time.Duration { return 0 })
		go forward(server, client, passes, func() time.Duration {
			if p.delay == nil {
				return 0
			}
			return p.delay(number)
		})
	}
}

// passes waits while bytes are held. It returns false if those of a connection are swallowed.
func (p *proxy) passes(number int) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for p.held {
		p.changed.Wait()
	}
	return number >= p.swallowed
}

func forward(from, to net.Conn, passes func() bool, delay func() time.Duration) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		size, err := from.Read(buffer)
		if size > 0 && passes() {
			time.Sleep(delay())
			if _, err := to.Write(buffer[:size]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// swallow discards all further bytes of the present connections, which stay open.
func (p *proxy) swallow() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.swallowed = p.count
}

// network changes the network as a step of a scenario does.
func (p *proxy) network(action string) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case action == "swallow":
		p.swallowed = math.MaxInt
	case action != "hold" && action != "forward":
		return fmt.Errorf("unknown action of the network: %s", action)
	case p.swallowed == math.MaxInt:
		p.swallowed = p.count
	}
	p.held = action == "hold"
	p.changed.Broadcast()
	return nil
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, each := range p.open {
		each.Close()
	}
	p.open = nil
}

func (p *proxy) accepted() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.count
}

// certificate returns the settings of a TLS server with a certificate of its own CA, and the path of the CA.
func certificate(t *testing.T, protocols ...string) (*tls.Config, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "gannet test"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	path := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   protocols,
	}, path
}

// failureOf returns the error of a Get with these credentials.
func failureOf(t *testing.T, credentials gannet.Credentials, code gannet.Code) *gannet.Error {
	t.Helper()
	client := newClient(t, credentials, gannet.LaptopV1().WithDeadline(3*time.Second).WithConnectTimeout(time.Second))
	_, err := client.Get(testContext(t), "default", "k")
	failure := wantCode(t, err, code)
	t.Log(failure.Message)
	return failure
}

func wantMessage(t *testing.T, failure *gannet.Error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(failure.Message, part) {
			t.Fatalf("message %q does not contain %q", failure.Message, part)
		}
	}
}

func TestServerThatIsDown(t *testing.T) {
	port, err := freePort()
	must(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	failure := failureOf(t, gannet.NoToken(address), gannet.CodeUnavailable)
	wantMessage(t, failure, "no server listens there", "gannet serve --grpc "+address)
	equal(t, failure.Retryable, true)
	client := newClient(t, gannet.NoToken(address), gannet.InRegionDefaultV1())
	wantMessage(t, wantCode(t, client.Connect(testContext(t)), gannet.CodeUnavailable), "no server listens there")
}

func TestPortsOfOtherProtocols(t *testing.T) {
	for _, port := range shared.ports[:2] {
		failure := failureOf(t, gannet.NoToken(fmt.Sprintf("127.0.0.1:%d", port)), gannet.CodeUnavailable)
		wantMessage(t, failure, "does not speak gRPC", "gannet serve --grpc", "WithTLS")
	}
}

func TestPortOfAWebServer(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	failure := failureOf(t, gannet.NoToken(web.Listener.Addr().String()), gannet.CodeUnavailable)
	wantMessage(t, failure, "does not speak gRPC", "gannet serve --grpc")
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	own := ownServer(t)
	own.pause(t)
	failure := failureOf(t, gannet.NoToken(own.address()), gannet.CodeUnavailable)
	wantMessage(t, failure, "does not answer", "firewall")
}

func TestHostThatDoesNotExist(t *testing.T) {
	failure := failureOf(t, gannet.NoToken("gannet.invalid:7000").WithPlaintext(), gannet.CodeUnavailable)
	wantMessage(t, failure, "the host name is unknown", "DNS")
}

func TestCacheThatDoesNotExist(t *testing.T) {
	client := sharedClient(t)
	_, err := client.Get(testContext(t), "absent", "k")
	failure := wantCode(t, err, gannet.CodeNotFoundCache)
	wantMessage(t, failure, "absent", "CreateCache")
	equal(t, failure.Retryable, false)
}

// redis executes commands of Redis, and fails the test unless each replies +OK.
func redis(t *testing.T, s *server, commands ...string) {
	t.Helper()
	open, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.ports[1]))
	must(t, err)
	defer open.Close()
	replies := bufio.NewReader(open)
	for _, command := range commands {
		fmt.Fprintf(open, "%s\r\n", command)
		reply, err := replies.ReadString('\n')
		if err != nil || reply != "+OK\r\n" {
			t.Fatalf("%s: %q %v", command, reply, err)
		}
	}
}

func TestTokens(t *testing.T) {
	own := ownServer(t)
	redis(t, own, "ACL SETUSER reader on >pass ~* +get", "CONFIG SET requirepass secret")
	wantMessage(t, failureOf(t, gannet.NoToken(own.address()), gannet.CodeUnauthenticated),
		"none was passed", "gannet.Token(ADDRESS, TOKEN)")
	wantMessage(t, failureOf(t, gannet.Token(own.address(), "wrong"), gannet.CodeUnauthenticated),
		"does not accept the token", "gannet.Token(ADDRESS, TOKEN)")
	ctx := testContext(t)
	client := newClient(t, gannet.Token(own.address(), "secret"), gannet.Laptop())
	must(t, client.Set(ctx, "default", "k", []byte("v")))
	t.Setenv("GANNET_TOKEN_OF_TEST", "reader:pass")
	credentials := got[gannet.Credentials](t)(gannet.TokenFromEnvironment(own.address(), "GANNET_TOKEN_OF_TEST"))
	reader := newClient(t, credentials, gannet.Laptop())
	equal(t, got[gannet.GetResult](t)(reader.Get(ctx, "default", "k")), &gannet.GetHit{Value: []byte("v")})
	failure := wantCode(t, reader.Set(ctx, "default", "k", []byte("w")), gannet.CodePermissionDenied)
	t.Log(failure.Message)
	wantMessage(t, failure, "gannet user token", "GenerateDisposableToken", "ACL SETUSER")
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, credentials); strings.Contains(text, "pass") {
			t.Fatalf("the token is printed: %s", text)
		}
	}
	_, err := gannet.TokenFromEnvironment(own.address(), "GANNET_TOKEN_THAT_IS_NOT_SET")
	wantMessage(t, wantCode(t, err, gannet.CodeInvalidArgument), "export GANNET_TOKEN_THAT_IS_NOT_SET=TOKEN")
}

func TestTLS(t *testing.T) {
	settings, ca := certificate(t, "h2")
	secure := newProxy(t, shared.address(), settings, nil)
	client := newClient(t, gannet.NoToken(secure.address()).WithCAFile(ca), gannet.InRegionDefault())
	must(t, client.Set(testContext(t), "default", "k", []byte("v")))
	wantMessage(t, failureOf(t, gannet.NoToken(secure.address()).WithTLS(), gannet.CodeUnavailable),
		"not signed by a known CA", "WithCAFile")
	wantMessage(t, failureOf(t, gannet.NoToken(secure.address()), gannet.CodeUnavailable), "WithTLS()")
	wantMessage(t, failureOf(t, gannet.NoToken(shared.address()).WithTLS(), gannet.CodeUnavailable),
		"does not use TLS", "WithPlaintext()")
	redisPort := fmt.Sprintf("127.0.0.1:%d", shared.ports[1])
	wantMessage(t, failureOf(t, gannet.NoToken(redisPort).WithTLS(), gannet.CodeUnavailable),
		"does not use TLS", "WithPlaintext()")
	other, otherCA := certificate(t)
	web := newProxy(t, shared.address(), other, nil)
	wantMessage(t, failureOf(t, gannet.NoToken(web.address()).WithCAFile(otherCA), gannet.CodeUnavailable),
		"does not speak gRPC", "gannet serve --grpc")
}

func TestWrongArgumentsOfNewClient(t *testing.T) {
	ctx, good := context.Background(), gannet.NoToken(shared.address())
	noCertificate := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(noCertificate, nil, 0o600))
	for _, each := range []struct {
		credentials   gannet.Credentials
		configuration gannet.Configuration
		ttl           time.Duration
		part          string
	}{
		{gannet.NoToken("localhost"), gannet.Laptop(), time.Minute, "HOST:PORT"},
		{gannet.NoToken("http://localhost:7000"), gannet.Laptop(), time.Minute, "HOST:PORT"},
		{gannet.NoToken("localhost:70000"), gannet.Laptop(), time.Minute, "HOST:PORT"},
		{gannet.Token(shared.address(), "a\nb"), gannet.Laptop(), time.Minute, "printable ASCII"},
		{good.WithCAFile("/nonexistent/ca.pem"), gannet.Laptop(), time.Minute, "PEM"},
		{good.WithCAFile(noCertificate), gannet.Laptop(), time.Minute, "no certificate"},
		{good, gannet.Laptop(), time.Microsecond, "1 ms"},
		{good, gannet.Configuration{}, time.Minute, "gannet.Laptop()"},
		{good, gannet.Laptop().WithRequestsInFlightMax(0), time.Minute, "RequestsInFlightMax is 0"},
		{good, gannet.Laptop().WithRetryStrategy(nil), time.Minute, "NoRetry"},
	} {
		_, err := gannet.NewClient(ctx, each.credentials, each.configuration, each.ttl)
		wantMessage(t, wantCode(t, err, gannet.CodeInvalidArgument), each.part)
	}
}
