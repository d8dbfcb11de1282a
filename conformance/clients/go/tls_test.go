package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Returns the folder of new certificates, and a client's configuration that trusts their CA.
func certificates(t *testing.T) (string, *tls.Config) {
	t.Helper()
	folder := t.TempDir()
	script, err := filepath.Abs("../certificates")
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command(script, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	ca, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("no CA")
	}
	return folder, &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

func TestGoRedisOverTLS(t *testing.T) {
	folder, trusted := certificates(t)
	running := startFree(t, "TLS="+folder)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := trusted.Clone()
		config.MinVersion, config.MaxVersion = version, version
		client := redis.NewClient(&redis.Options{Addr: running.address, TLSConfig: config})
		long := bytes.Repeat([]byte("0123456789"), 50_000)
		if err := client.Set(ctx, "go:tls", long, 0).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := client.Get(ctx, "go:tls").Bytes()
		if err != nil || !bytes.Equal(got, long) {
			t.Fatalf("version %x: %v, %d bytes", version, err, len(got))
		}
		pipeline := client.Pipeline()
		for number := 0; number < 3000; number++ {
			pipeline.Set(ctx, fmt.Sprintf("go:tls:%d", number), number, 0)
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
