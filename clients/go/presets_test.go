package gannet_test

import (
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	gannet "gannet.dev/client"
)

var presets = map[string]struct{ latest, v1 func() gannet.Configuration }{
	"Laptop":              {gannet.Laptop, gannet.LaptopV1},
	"InRegion.Default":    {gannet.InRegionDefault, gannet.InRegionDefaultV1},
	"InRegion.LowLatency": {gannet.InRegionLowLatency, gannet.InRegionLowLatencyV1},
	"Lambda":              {gannet.Lambda, gannet.LambdaV1},
}

// valuesOf returns a configuration in the names and units of clients/presets.toml.
func valuesOf(c gannet.Configuration) map[string]any {
	ms := func(d time.Duration) int64 { return d.Milliseconds() }
	count, isFixed := c.RetryStrategy().(gannet.FixedCount)
	strategy := map[bool]string{true: "fixed_count", false: "other"}[isFixed]
	return map[string]any{
		"deadline_ms":             ms(c.Deadline()),
		"requests_in_flight_max":  int64(c.RequestsInFlightMax()),
		"requests_queued_max":     int64(c.RequestsQueuedMax()),
		"streams_per_connection":  int64(c.StreamsPerConnection()),
		"connections_max":         int64(c.ConnectionsMax()),
		"eager_connect":           c.EagerConnect(),
		"keepalive_time_ms":       ms(c.KeepaliveTime()),
		"keepalive_timeout_ms":    ms(c.KeepaliveTimeout()),
		"keepalive_without_calls": c.KeepaliveWithoutCalls(),
		"connect_timeout_ms":      ms(c.ConnectTimeout()),
		"reconnect_delay_min_ms":  ms(c.ReconnectDelayMin()),
		"reconnect_delay_max_ms":  ms(c.ReconnectDelayMax()),
		"retry_strategy":          strategy,
		"retry_count":             int64(count),
		"retry_budget_percent":    int64(c.RetryBudget().Percent),
		"retry_budget_burst":      int64(c.RetryBudget().Burst),
		"message_bytes_max":       int64(c.MessageBytesMax()),
	}
}

func TestPresetsEqualTheTableOfAllLanguages(t *testing.T) {
	var table map[string]any
	if _, err := toml.DecodeFile("../presets.toml", &table); err != nil {
		t.Fatal(err)
	}
	found := 0
	var walk func(name string, node map[string]any)
	walk = func(name string, node map[string]any) {
		newest, isPreset := node["latest"].(string)
		for key, child := range node {
			values, isTable := child.(map[string]any)
			switch {
			case !isTable:
			case !isPreset && name == "":
				walk(key, values)
			case !isPreset:
				walk(name+"."+key, values)
			default:
				found++
				equal(t, valuesOf(got[gannet.Configuration](t)(gannet.Preset(name+"."+key))), values)
				if key == "v1" {
					equal(t, valuesOf(presets[name].v1()), values)
				}
				if key == newest {
					equal(t, valuesOf(presets[name].latest()), values)
					equal(t, valuesOf(got[gannet.Configuration](t)(gannet.Preset(name))), values)
				}
			}
		}
	}
	walk("", table)
	equal(t, found, len(presets))
	_, err := gannet.Preset("Desktop")
	wantCode(t, err, gannet.CodeInvalidArgument)
}

func TestConfigurationIsImmutable(t *testing.T) {
	first := gannet.Laptop()
	second := first.WithDeadline(time.Second).WithRequestsInFlightMax(101).WithRequestsQueuedMax(7).
		WithHedging(time.Millisecond)
	equal(t, valuesOf(first), valuesOf(gannet.Laptop()))
	equal(t, second.Deadline(), time.Second)
	equal(t, second.ConnectionsMax(), 2)
	equal(t, second.RequestsQueuedMax(), 7)
	equal(t, second.HedgeDelay(), time.Millisecond)
	equal(t, second.WithStreamsPerConnection(10).ConnectionsMax(), 11)
}
