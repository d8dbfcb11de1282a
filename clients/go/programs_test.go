package gannet_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gannet "gannet.dev/client"
)

// TestFirstSessionOfTheReadme runs the commands of README.md in an empty folder, against the server of the tests.
func TestFirstSessionOfTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "gannet serve --grpc 127.0.0.1:7000 &\n")
	commands, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(commands, "127.0.0.1:7000") {
		t.Fatal("README.md has no first session")
	}
	root, err := filepath.Abs("../..")
	must(t, err)
	commands = strings.ReplaceAll(commands, "127.0.0.1:7000", shared.address())
	session := exec.Command("bash", "-euo", "pipefail", "-c", commands)
	session.Dir = t.TempDir()
	session.Env = append(os.Environ(), "GANNET="+root)
	var failure strings.Builder
	session.Stderr = &failure
	output, err := session.Output()
	if err != nil || string(output) != "hello\n" {
		t.Fatalf("the session printed %q: %v: %s", output, err, &failure)
	}
}

func TestBenchPrintsItsMeasurement(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "gannet-bench")
	if output, err := exec.Command("go", "build", "-o", program, "./cmd/gannet-bench").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	client := newClient(t, gannet.NoToken(shared.address()), gannet.Laptop())
	must(t, client.CreateCache(testContext(t), "bench"))
	t.Cleanup(func() { must(t, client.DeleteCache(context.Background(), "bench")) })
	output, err := exec.Command(program, "-address", shared.address(), "-cache", "bench",
		"-preset", "InRegion.LowLatency.v1", "-concurrency", "150", "-seconds", "0.3",
		"-key-space", "100", "-value-bytes", "10", "-get-ratio", "0.5").Output()
	must(t, err)
	var result struct {
		Requests    uint64            `json:"requests"`
		PerSecond   float64           `json:"requests_per_s"`
		P50         float64           `json:"p50_us"`
		P99         float64           `json:"p99_us"`
		P999        float64           `json:"p999_us"`
		Errors      map[string]uint64 `json:"errors"`
		Connections int               `json:"connections"`
		CPU         float64           `json:"cpu_seconds"`
	}
	must(t, json.Unmarshal(output, &result))
	ordered := 0 < result.P50 && result.P50 <= result.P99 && result.P99 <= result.P999
	if result.Requests < 150 || result.PerSecond <= 0 || !ordered || result.CPU <= 0 || result.Connections != 1 {
		t.Fatalf("the result is %s", output)
	}
	equal(t, len(result.Errors), 0)
	failed, err := exec.Command(program, "-preset", "Desktop").CombinedOutput()
	names := "use one of InRegion.Default, InRegion.LowLatency, Lambda, Laptop"
	if err == nil || !strings.Contains(string(failed), names) {
		t.Fatalf("an unknown preset: %v %s", err, failed)
	}
}
