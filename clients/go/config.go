package gannet

import (
	"fmt"
	"strings"
	"time"
)

// Configuration has all settings of a client. It is an immutable value: each With method returns a changed copy, so
// that a configuration of one's own is a preset with other values:
//
//	configuration := gannet.InRegionDefault().WithDeadline(300 * time.Millisecond).WithRequestsInFlightMax(50)
//
// The comments of clients/presets.toml explain the values of the presets. The zero value is not usable.
type Configuration struct {
	deadline              time.Duration
	requestsInFlightMax   int
	requestsQueuedMax     int
	streamsPerConnection  int
	eagerConnect          bool
	keepaliveTime         time.Duration
	keepaliveTimeout      time.Duration
	keepaliveWithoutCalls bool
	connectTimeout        time.Duration
	reconnectDelayMin     time.Duration
	reconnectDelayMax     time.Duration
	retryStrategy         RetryStrategy
	retryBudget           RetryBudget
	hedgeDelay            time.Duration
	messageBytesMax       int
	middleware            []Middleware
	metrics               bool
	nearCache             NearCache
}

// presetValues are the values of one version of a preset, in the units of clients/presets.toml.
type presetValues struct {
	connectTimeoutMs      int64
	connectionsMax        int64
	deadlineMs            int64
	eagerConnect          bool
	keepaliveTimeMs       int64
	keepaliveTimeoutMs    int64
	keepaliveWithoutCalls bool
	messageBytesMax       int64
	reconnectDelayMaxMs   int64
	reconnectDelayMinMs   int64
	requestsInFlightMax   int64
	requestsQueuedMax     int64
	retryBudgetBurst      int64
	retryBudgetPercent    int64
	retryCount            int64
	retryStrategy         string
	streamsPerConnection  int64
}

// Laptop returns the newest configuration for development on one machine, and for clients far from the server. A
// later release may return other values.
func Laptop() Configuration { return latest("Laptop") }

// LaptopV1 returns version 1 of Laptop, which never changes.
func LaptopV1() Configuration { return presetOf("Laptop.v1") }

// InRegionDefault returns the newest configuration for services in the same region as the server that need
// throughput. A later release may return other values.
func InRegionDefault() Configuration { return latest("InRegion.Default") }

// InRegionDefaultV1 returns version 1 of InRegionDefault, which never changes.
func InRegionDefaultV1() Configuration { return presetOf("InRegion.Default.v1") }

// InRegionLowLatency returns the newest configuration for services in the same region that need a low p999: few
// requests are in flight, and a slow one is given up early. A later release may return other values.
func InRegionLowLatency() Configuration { return latest("InRegion.LowLatency") }

// InRegionLowLatencyV1 returns version 1 of InRegionLowLatency, which never changes.
func InRegionLowLatencyV1() Configuration { return presetOf("InRegion.LowLatency.v1") }

// Lambda returns the newest configuration for functions that the platform freezes between two invocations. A later
// release may return other values.
func Lambda() Configuration { return latest("Lambda") }

// LambdaV1 returns version 1 of Lambda, which never changes.
func LambdaV1() Configuration { return presetOf("Lambda.v1") }

// Preset returns the preset with this name, such as "InRegion.LowLatency" (the newest) or "Laptop.v1".
func Preset(name string) (Configuration, error) {
	if version, found := presetLatest[name]; found {
		name += "." + version
	}
	values, found := presetVersions[name]
	if !found {
		names := make([]string, 0, len(presetLatest))
		for each := range presetLatest {
			names = append(names, each)
		}
		return Configuration{}, newError(CodeInvalidArgument, fmt.Sprintf("cannot find preset '%s'", name),
			"it does not exist", "use one of "+strings.Join(sorted(names), ", "), nil)
	}
	return values.configuration(), nil
}

func latest(name string) Configuration { return presetOf(name + "." + presetLatest[name]) }

func presetOf(version string) Configuration { return presetVersions[version].configuration() }

func (v presetValues) configuration() Configuration {
	ms := func(value int64) time.Duration { return time.Duration(value) * time.Millisecond }
	return Configuration{
		deadline:              ms(v.deadlineMs),
		requestsInFlightMax:   int(v.requestsInFlightMax),
		requestsQueuedMax:     int(v.requestsQueuedMax),
		streamsPerConnection:  int(v.streamsPerConnection),
		eagerConnect:          v.eagerConnect,
		keepaliveTime:         ms(v.keepaliveTimeMs),
		keepaliveTimeout:      ms(v.keepaliveTimeoutMs),
		keepaliveWithoutCalls: v.keepaliveWithoutCalls,
		connectTimeout:        ms(v.connectTimeoutMs),
		reconnectDelayMin:     ms(v.reconnectDelayMinMs),
		reconnectDelayMax:     ms(v.reconnectDelayMaxMs),
		retryStrategy:         v.strategy(),
		retryBudget:           RetryBudget{Percent: float64(v.retryBudgetPercent), Burst: int(v.retryBudgetBurst)},
		messageBytesMax:       int(v.messageBytesMax),
	}
}

func (v presetValues) strategy() RetryStrategy {
	switch v.retryStrategy {
	case "fixed_count":
		return FixedCount(int(v.retryCount))
	case "fixed_timeout":
		return FixedTimeout{}
	case "exponential_backoff":
		return ExponentialBackoff{}
	default:
		return NoRetry{}
	}
}

// Deadline returns the time for one call, from its start to its result, with the wait in the client's queue and all
// retries. The context of a call may end it earlier.
func (c Configuration) Deadline() time.Duration { return c.deadline }

// RequestsInFlightMax returns the maximum number of requests that were sent and whose replies are awaited. Further
// ones wait in the client.
func (c Configuration) RequestsInFlightMax() int { return c.requestsInFlightMax }

// RequestsQueuedMax returns the maximum number of requests that wait in the client. Further ones fail at once.
func (c Configuration) RequestsQueuedMax() int { return c.requestsQueuedMax }

// StreamsPerConnection returns the maximum number of requests at once on one connection.
func (c Configuration) StreamsPerConnection() int { return c.streamsPerConnection }

// connectionsMax is the maximum number of connections of one client. Each has memory of its own.
const connectionsMax = 1000

// ConnectionsMax returns the maximum number of connections: as many as RequestsInFlightMax needs.
func (c Configuration) ConnectionsMax() int {
	if c.streamsPerConnection < 1 {
		return 0
	}
	return (c.requestsInFlightMax-1)/c.streamsPerConnection + 1
}

// EagerConnect returns true if NewClient opens all connections.
func (c Configuration) EagerConnect() bool { return c.eagerConnect }

// KeepaliveTime returns the time between two probes of a connection; 0 turns them off.
func (c Configuration) KeepaliveTime() time.Duration { return c.keepaliveTime }

// KeepaliveTimeout returns the time without an answer to a probe after which a connection is closed.
func (c Configuration) KeepaliveTimeout() time.Duration { return c.keepaliveTimeout }

// KeepaliveWithoutCalls returns true if connections without requests are probed too.
func (c Configuration) KeepaliveWithoutCalls() bool { return c.keepaliveWithoutCalls }

// ConnectTimeout returns the time for opening a connection.
func (c Configuration) ConnectTimeout() time.Duration { return c.connectTimeout }

// ReconnectDelayMin returns the delay before the first attempt to reconnect.
func (c Configuration) ReconnectDelayMin() time.Duration { return c.reconnectDelayMin }

// ReconnectDelayMax returns the longest delay between two attempts to reconnect.
func (c Configuration) ReconnectDelayMax() time.Duration { return c.reconnectDelayMax }

// RetryStrategy returns the strategy by which calls are repeated whose repetition changes nothing.
func (c Configuration) RetryStrategy() RetryStrategy { return c.retryStrategy }

// RetryBudget returns the bound of retries and hedges together.
func (c Configuration) RetryBudget() RetryBudget { return c.retryBudget }

// HedgeDelay returns the time after which a Get without a reply is sent a second time; 0 if it never is.
func (c Configuration) HedgeDelay() time.Duration { return c.hedgeDelay }

// MessageBytesMax returns the maximum size in bytes of a request and of a reply.
func (c Configuration) MessageBytesMax() int { return c.messageBytesMax }

// Metrics returns true if the client counts and times its calls by method.
func (c Configuration) Metrics() bool { return c.metrics }

// WithDeadline returns a copy with another time for one call.
func (c Configuration) WithDeadline(deadline time.Duration) Configuration {
	c.deadline = deadline
	return c
}

// WithRequestsInFlightMax returns a copy with another maximum of requests in flight, and as many connections as it
// needs.
func (c Configuration) WithRequestsInFlightMax(requests int) Configuration {
	c.requestsInFlightMax = requests
	return c
}

// WithRequestsQueuedMax returns a copy with another maximum of requests that wait in the client.
func (c Configuration) WithRequestsQueuedMax(requests int) Configuration {
	c.requestsQueuedMax = requests
	return c
}

// WithStreamsPerConnection returns a copy with another maximum of requests at once on one connection. The server
// refuses more than 100.
func (c Configuration) WithStreamsPerConnection(streams int) Configuration {
	c.streamsPerConnection = streams
	return c
}

// WithEagerConnect returns a copy whose client opens its connections at once, or with the first requests.
func (c Configuration) WithEagerConnect(eager bool) Configuration {
	c.eagerConnect = eager
	return c
}

// WithKeepalive returns a copy with other probes of connections; period 0 turns them off. The kernel probes a silent
// connection after this period. HTTP/2 pings follow the same period, but gRPC sends none more often than every 10 s.
func (c Configuration) WithKeepalive(period, timeout time.Duration, withoutCalls bool) Configuration {
	c.keepaliveTime, c.keepaliveTimeout, c.keepaliveWithoutCalls = period, timeout, withoutCalls
	return c
}

// WithConnectTimeout returns a copy with another time for opening a connection.
func (c Configuration) WithConnectTimeout(timeout time.Duration) Configuration {
	c.connectTimeout = timeout
	return c
}

// WithReconnectDelay returns a copy with other delays between attempts to reconnect, which grow from the first value
// to the second one.
func (c Configuration) WithReconnectDelay(least, greatest time.Duration) Configuration {
	c.reconnectDelayMin, c.reconnectDelayMax = least, greatest
	return c
}

// WithRetryStrategy returns a copy with another retry strategy.
func (c Configuration) WithRetryStrategy(strategy RetryStrategy) Configuration {
	c.retryStrategy = strategy
	return c
}

// WithRetryBudget returns a copy with another bound of retries and hedges.
func (c Configuration) WithRetryBudget(budget RetryBudget) Configuration {
	c.retryBudget = budget
	return c
}

// WithHedging returns a copy that sends a Get again if its reply takes longer than delay, and uses the reply that
// comes first; 0 turns hedging off. A good delay is the p99 of Get: then 1 % of the requests are sent twice. The
// second request uses another connection if there is one, never waits in the client's queue, and takes a token of the
// retry budget.
func (c Configuration) WithHedging(delay time.Duration) Configuration {
	c.hedgeDelay = delay
	return c
}

// WithMessageBytesMax returns a copy with another maximum size of a request and of a reply.
func (c Configuration) WithMessageBytesMax(size int) Configuration {
	c.messageBytesMax = size
	return c
}

// WithMiddleware returns a copy with these objects after the present middleware.
func (c Configuration) WithMiddleware(middleware ...Middleware) Configuration {
	all := make([]Middleware, 0, len(c.middleware)+len(middleware))
	c.middleware = append(append(all, c.middleware...), middleware...)
	return c
}

// WithMetrics returns a copy whose client counts and times its calls by method, or does not.
func (c Configuration) WithMetrics(metrics bool) Configuration {
	c.metrics = metrics
	return c
}

// NearCache returns the bounds of the near cache; EntriesMax is 0 if there is none.
func (c Configuration) NearCache() NearCache { return c.nearCache }

// WithNearCache returns a copy whose client keeps copies of the values that Get returns, within these bounds. The zero
// value turns it off.
func (c Configuration) WithNearCache(bounds NearCache) Configuration {
	c.nearCache = bounds
	return c
}

// check returns an error that names the first unusable setting.
func (c Configuration) check() error {
	minimums := []struct {
		name         string
		value, least int64
	}{
		{"Deadline", int64(c.deadline), 1},
		{"RequestsInFlightMax", int64(c.requestsInFlightMax), 1},
		{"RequestsQueuedMax", int64(c.requestsQueuedMax), 0},
		{"StreamsPerConnection", int64(c.streamsPerConnection), 1},
		{"MessageBytesMax", int64(c.messageBytesMax), 1},
		{"KeepaliveTime", int64(c.keepaliveTime), 0},
		{"KeepaliveTimeout", int64(c.keepaliveTimeout), 0},
		{"ConnectTimeout", int64(c.connectTimeout), 1},
		{"ReconnectDelayMin", int64(c.reconnectDelayMin), 1},
		{"ReconnectDelayMax", int64(c.reconnectDelayMax), int64(c.reconnectDelayMin)},
		{"HedgeDelay", int64(c.hedgeDelay), 0},
		{"NearCache.EntriesMax", int64(c.nearCache.EntriesMax), 0},
		{"NearCache.BytesMax", int64(c.nearCache.BytesMax), min(1, int64(c.nearCache.EntriesMax))},
		{"RetryBudget.Burst", int64(c.retryBudget.Burst), 0},
	}
	for _, each := range minimums {
		if each.value < each.least {
			return newError(CodeInvalidArgument, "cannot use configuration",
				fmt.Sprintf("%s is %d, below %d", each.name, each.value, each.least),
				"begin with a preset such as gannet.Laptop(), and change it by its With methods", nil)
		}
	}
	if connections := c.ConnectionsMax(); connections > connectionsMax {
		return newError(CodeInvalidArgument, "cannot use configuration",
			fmt.Sprintf("RequestsInFlightMax is %d, which needs %d connections", c.requestsInFlightMax, connections),
			fmt.Sprintf("pass less: a client has at most %d connections", connectionsMax), nil)
	}
	if c.retryStrategy == nil {
		return newError(CodeInvalidArgument, "cannot use configuration", "RetryStrategy is nil",
			"use gannet.NoRetry{} for no retries", nil)
	}
	return nil
}
