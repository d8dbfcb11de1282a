package gannet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Version is the version of this library.
const Version = "0.1.0"

// Credentials are the address of a server with the token and the TLS settings of its connections. A connection to a
// loopback address is plaintext by default, and one to another address uses TLS with the CAs of the system.
type Credentials struct {
	address string
	token   string
	tls     tlsMode
	caFile  string
}

type tlsMode int

const (
	tlsByAddress tlsMode = iota
	tlsOn
	tlsOff
)

// NoToken returns credentials without a token, for servers whose users need no password. The address is HOST:PORT of
// `gannet serve --grpc`.
func NoToken(address string) Credentials { return Credentials{address: address} }

// Token returns credentials with a token: a password of the user default, USER:PASSWORD, or a signed token of
// GenerateAPIToken or GenerateDisposableToken. NewClient checks that it is printable ASCII.
func Token(address, token string) Credentials { return Credentials{address: address, token: token} }

// TokenFromEnvironment returns credentials with the token in this environment variable.
func TokenFromEnvironment(address, variable string) (Credentials, error) {
	token := strings.TrimSpace(os.Getenv(variable))
	if token == "" {
		return Credentials{}, newError(CodeInvalidArgument, "cannot read token",
			"environment variable "+variable+" is not set", "export "+variable+"=TOKEN", nil)
	}
	return Token(address, token), nil
}

// WithTLS returns a copy whose connections use TLS, with the CAs of the system.
func (c Credentials) WithTLS() Credentials {
	c.tls = tlsOn
	return c
}

// WithCAFile returns a copy whose connections use TLS, with the CAs in this PEM file instead of those of the system.
func (c Credentials) WithCAFile(path string) Credentials {
	c.tls, c.caFile = tlsOn, path
	return c
}

// WithPlaintext returns a copy whose connections do not use TLS. The network can read the token and all values.
func (c Credentials) WithPlaintext() Credentials {
	c.tls, c.caFile = tlsOff, ""
	return c
}

// Address returns HOST:PORT.
func (c Credentials) Address() string { return c.address }

// String returns the address. The token is secret.
func (c Credentials) String() string { return "gannet.Credentials(" + c.address + ")" }

// GoString returns the same text as String, so that no format prints the token.
func (c Credentials) GoString() string { return c.String() }

// check returns an error unless the address is HOST:PORT and the token can be sent.
func (c Credentials) check() error {
	host, port, err := net.SplitHostPort(c.address)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil || number == 0 || host == "" || strings.Contains(host, "/") {
		return newError(CodeInvalidArgument, "cannot use address '"+c.address+"'", "it is not HOST:PORT",
			"pass one such as 127.0.0.1:7000", err)
	}
	for _, each := range []byte(c.token) {
		if each < ' ' || each > '~' {
			return newError(CodeInvalidArgument, "cannot use token", "it is not printable ASCII",
				"pass a token without other characters", nil)
		}
	}
	return nil
}

func (c Credentials) usesTLS() bool {
	if c.tls != tlsByAddress {
		return c.tls == tlsOn
	}
	host, _, _ := net.SplitHostPort(c.address)
	if host == "localhost" {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err != nil || !address.IsLoopback()
}

func (c Credentials) transport() (credentials.TransportCredentials, error) {
	if !c.usesTLS() {
		return insecure.NewCredentials(), nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.caFile != "" {
		text, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, newError(CodeInvalidArgument, "cannot read CA file '"+c.caFile+"'", err.Error(),
				"pass the path of a PEM file", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(text) {
			return nil, newError(CodeInvalidArgument, "cannot use CA file '"+c.caFile+"'", "it has no certificate",
				"pass the path of a PEM file", nil)
		}
	}
	return credentials.NewTLS(settings), nil
}

// Windows of HTTP/2 in bytes. Fixed windows avoid the pings by which gRPC otherwise estimates them. The receiver reads
// every reply at once into memory, so that the windows bound nothing else.
const (
	streamWindowBytes     = 1 << 20
	connectionWindowBytes = 8 << 20
)

// dial returns a gRPC channel with one connection of its own, which is not open yet.
func (c Credentials) dial(configuration Configuration) (*grpc.ClientConn, error) {
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{KeepAlive: -1}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("gannet-go/" + Version),
		grpc.WithDisableServiceConfig(),
		// Every call ends at the deadline, also without a timer of its own. Subscriptions and watches have none.
		grpc.WithDefaultServiceConfig(fmt.Sprintf(
			`{"methodConfig":[{"name":[{}],"timeout":"%.9fs"},{"name":[`+
				`{"service":"gannet.v1.Topics","method":"Subscribe"},{"service":"gannet.v1.Invalidations"}]}]}`,
			configuration.deadline.Seconds(),
		)),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindowBytes),
		grpc.WithInitialConnWindowSize(connectionWindowBytes),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  configuration.reconnectDelayMin,
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   configuration.reconnectDelayMax,
			},
			MinConnectTimeout: configuration.connectTimeout,
		}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(configuration.messageBytesMax),
			grpc.MaxCallSendMsgSize(configuration.messageBytesMax),
		),
	}
	if period := configuration.keepaliveTime; period > 0 {
		// gRPC sends no pings more often than every 10 s. The kernel's probes find a broken path within the period.
		dialer.KeepAliveConfig = net.KeepAliveConfig{
			Enable: true, Idle: period, Interval: orDefault(configuration.keepaliveTimeout, time.Second), Count: 1,
		}
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:                max(period, 10*time.Second),
			Timeout:             configuration.keepaliveTimeout,
			PermitWithoutStream: configuration.keepaliveWithoutCalls,
		}))
	}
	// A proxy for web traffic does not lead to the server: the dialer ignores its environment variables.
	options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}))
	return grpc.NewClient("passthrough:///"+c.address, options...)
}
