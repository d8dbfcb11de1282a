package gannet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gannet "gannet.dev/client"
)

// oneConnection has one connection, so that the first one of a proxy is that of the client.
var oneConnection = gannet.LaptopV1().WithRequestsInFlightMax(100)

// lateReplies returns a proxy of the shared server that delays replies on one connection after late was set.
func lateReplies(t *testing.T, connection int, delay time.Duration) (p *proxy, late *atomic.Bool) {
	late = &atomic.Bool{}
	p = newProxy(t, shared.address(), nil, func(number int) time.Duration {
		if late.Load() && number == connection {
			return delay
		}
		return 0
	})
	return p, late
}

func TestRequestIsRetriedOnlyIfItsRepetitionChangesNothing(t *testing.T) {
	ctx := testContext(t)
	sharedClient(t)
	for _, each := range []struct {
		name    string
		call    func(*gannet.Client) error
		retries uint64
	}{
		{"Get", func(c *gannet.Client) error { _, err := c.Get(ctx, "default", "k"); return err }, 1},
		{"GetBatch", func(c *gannet.Client) error { _, err := c.GetBatch(ctx, "default", "k", "l"); return err }, 1},
		{"Set", func(c *gannet.Client) error { return c.Set(ctx, "default", "k", []byte("v")) }, 1},
		{"Increment", func(c *gannet.Client) error { _, err := c.Increment(ctx, "default", "n", 1); return err }, 0},
	} {
		t.Run(each.name, func(t *testing.T) {
			slow, late := lateReplies(t, 0, time.Second)
			client := newClient(t, gannet.NoToken(slow.address()), oneConnection)
			must(t, client.Connect(ctx))
			late.Store(true)
			time.AfterFunc(30*time.Millisecond, slow.cut) // while the request is in flight
			err := each.call(client)
			if each.retries > 0 {
				must(t, err)
			} else {
				wantMessage(t, wantCode(t, err, gannet.CodeUnavailable), "the server closed the connection")
			}
			equal(t, client.Metrics().Retries, each.retries)
		})
	}
}

func TestRetriesEndWithTheStrategyAndTheBudget(t *testing.T) {
	port, err := freePort()
	must(t, err)
	ctx, down := testContext(t), gannet.NoToken(fmt.Sprintf("127.0.0.1:%d", port))
	unlimited := gannet.RetryBudget{Percent: 100, Burst: 1000}
	for _, each := range []struct {
		strategy gannet.RetryStrategy
		budget   gannet.RetryBudget
		calls    int
		retries  uint64
	}{
		{gannet.NoRetry{}, unlimited, 3, 0},
		{gannet.FixedCount(3), unlimited, 3, 9},
		{gannet.FixedCount(3), gannet.RetryBudget{Percent: 0, Burst: 4}, 3, 4},
		{gannet.FixedCount(3), gannet.RetryBudget{Percent: 50, Burst: 1}, 3, 2},
	} {
		client := newClient(t, down, gannet.LaptopV1().WithRetryStrategy(each.strategy).WithRetryBudget(each.budget))
		for range each.calls {
			_, err := client.Get(ctx, "default", "k")
			wantCode(t, err, gannet.CodeUnavailable)
		}
		equal(t, client.Metrics().Retries, each.retries)
	}
}

func TestBackoffRetriesUntilTheDeadline(t *testing.T) {
	own, ctx := ownServer(t), testContext(t)
	configuration := gannet.LaptopV1().WithRetryStrategy(gannet.ExponentialBackoff{Max: 20 * time.Millisecond}).
		WithRetryBudget(gannet.RetryBudget{Percent: 100, Burst: 10_000}).
		WithReconnectDelay(time.Millisecond, 20*time.Millisecond)
	own.kill()
	client := newClient(t, gannet.NoToken(own.address()), configuration)
	begun := time.Now()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := client.Get(short, "default", "k")
	wantCode(t, err, gannet.CodeUnavailable)
	if took := time.Since(begun); took < 150*time.Millisecond || took > time.Second {
		t.Fatalf("the call took %v", took)
	}
	restarted := make(chan error, 1)
	go func() {
		time.Sleep(50 * time.Millisecond)
		restarted <- own.start()
	}()
	must(t, client.Set(ctx, "default", "k", []byte("v"))) // waits for the server
	must(t, <-restarted)
}

func TestAttemptWithoutReplyIsGivenUp(t *testing.T) {
	ctx := testContext(t)
	slow, late := lateReplies(t, 0, 3*time.Second)
	strategy := gannet.FixedTimeout{RetryDelay: 10 * time.Millisecond, Response: 100 * time.Millisecond}
	client := newClient(t, gannet.NoToken(slow.address()), oneConnection.WithRetryStrategy(strategy))
	must(t, client.Connect(ctx))
	late.Store(true)
	time.AfterFunc(250*time.Millisecond, slow.cut)
	must(t, client.Set(ctx, "default", "k", []byte("v")))
	if retries := client.Metrics().Retries; retries < 2 {
		t.Fatalf("%d retries", retries)
	}
}

func TestStrategies(t *testing.T) {
	for range 1000 {
		delay, again := gannet.FixedTimeout{}.Delay(7, 0)
		if !again || delay < 90*time.Millisecond || delay > 110*time.Millisecond {
			t.Fatalf("delay is %v", delay)
		}
		previous, backoff := time.Duration(0), gannet.ExponentialBackoff{Max: 8 * time.Millisecond}
		for retry := range 10 {
			delay, again := backoff.Delay(retry, previous)
			most := min(8*time.Millisecond, max(500*time.Microsecond, 3*previous))
			if !again || delay < 500*time.Microsecond || delay > most {
				t.Fatalf("delay is %v after %v", delay, previous)
			}
			previous = delay
		}
	}
	_, again := gannet.FixedCount(2).Delay(2, 0)
	equal(t, again, false)
}

func TestHedgeReplacesASlowReply(t *testing.T) {
	ctx := testContext(t)
	must(t, sharedClient(t).Set(ctx, "default", "k", []byte("v")))
	slow, late := lateReplies(t, 0, 2*time.Second)
	configuration := gannet.LaptopV1().WithEagerConnect(true).WithHedging(20 * time.Millisecond).WithMetrics(true)
	seen := &recording{}
	// The first connection of the proxy need not be the first one of the client: hedges go to both.
	client := newClient(t, gannet.NoToken(slow.address()), configuration.WithMiddleware(seen))
	late.Store(true)
	begun := time.Now()
	for range 5 {
		equal(t, got[gannet.GetResult](t)(client.Get(ctx, "default", "k")), &gannet.GetHit{Value: []byte("v")})
	}
	if took := time.Since(begun); took > time.Second {
		t.Fatalf("five calls took %v", took)
	}
	metrics := client.Metrics()
	equal(t, metrics.Methods["Get"].Calls, uint64(5))
	hedged := 0
	for _, end := range seen.ends {
		if end.Hedged {
			hedged++
		}
	}
	equal(t, uint64(hedged), metrics.Hedges)
	eventually(t, "the slower requests free their places", func() bool { return client.Metrics().InFlight == 0 })
	// Without budget, there is no hedge.
	none := configuration.WithRetryBudget(gannet.RetryBudget{}).WithRequestsInFlightMax(1)
	late.Store(false)
	all := newProxy(t, shared.address(), nil, func(int) time.Duration { return 50 * time.Millisecond })
	client = newClient(t, gannet.NoToken(all.address()), none)
	got[gannet.GetResult](t)(client.Get(ctx, "default", "k"))
	equal(t, client.Metrics().Hedges, uint64(0))
	client = newClient(t, gannet.NoToken(all.address()), configuration)
	got[gannet.GetResult](t)(client.Get(ctx, "default", "k"))
	equal(t, client.Metrics().Hedges, uint64(1))
}

func TestConnectionsAreAsManyAsTheRequestsInFlightNeed(t *testing.T) {
	ctx := testContext(t)
	counted := newProxy(t, shared.address(), nil, nil)
	client := newClient(t, gannet.NoToken(counted.address()), gannet.InRegionDefaultV1())
	equal(t, counted.accepted(), 4) // all of them, before the first call
	var calls sync.WaitGroup
	for range 2000 {
		calls.Go(func() {
			if err := client.Set(ctx, "default", "k", []byte("v")); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	equal(t, counted.accepted(), 4)
	equal(t, client.Metrics().Connections, 4)
	lazy := newProxy(t, shared.address(), nil, nil)
	client = newClient(t, gannet.NoToken(lazy.address()), gannet.LaptopV1())
	equal(t, lazy.accepted(), 0)
	for range 20 {
		must(t, client.Set(ctx, "default", "k", []byte("v")))
	}
	equal(t, lazy.accepted(), 1) // few requests share the first connection
}

func TestEagerClientReconnectsBeforeTheNextCall(t *testing.T) {
	between := newProxy(t, shared.address(), nil, nil)
	client := newClient(t, gannet.NoToken(between.address()), gannet.InRegionLowLatencyV1())
	equal(t, between.accepted(), 1)
	between.cut()
	eventually(t, "the client has reconnected", func() bool { return between.accepted() == 2 })
	must(t, client.Connect(testContext(t)))
}

func TestClientStartsWithoutItsServer(t *testing.T) {
	own, ctx := ownServer(t), testContext(t)
	own.kill()
	client := newClient(t, gannet.NoToken(own.address()), gannet.InRegionDefaultV1())
	wantCode(t, client.Connect(ctx), gannet.CodeUnavailable)
	must(t, own.start())
	eventually(t, "the client connects by itself", func() bool { return client.Connect(ctx) == nil })
	must(t, client.Set(ctx, "default", "k", []byte("v")))
}

func TestCancelledCallEndsAtOnce(t *testing.T) {
	slow, late := lateReplies(t, 0, 2*time.Second)
	client := newClient(t, gannet.NoToken(slow.address()), oneConnection)
	must(t, client.Connect(testContext(t)))
	late.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	begun := time.Now()
	_, err := client.Get(ctx, "default", "k")
	wantCode(t, err, gannet.CodeCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v does not wrap context.Canceled", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Fatalf("the call took %v", took)
	}
	short, cancelShort := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancelShort()
	_, err = client.Get(short, "default", "k")
	wantCode(t, err, gannet.CodeTimeout)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v does not wrap context.DeadlineExceeded", err)
	}
	equal(t, client.Metrics().InFlight, 0)
}

func TestCallWithoutContextDeadlineEndsAtTheConfiguredOne(t *testing.T) {
	slow, late := lateReplies(t, 0, 2*time.Second)
	configuration := oneConnection.WithEagerConnect(true).WithDeadline(400 * time.Millisecond).WithRequestsInFlightMax(1)
	client := newClient(t, gannet.NoToken(slow.address()), configuration)
	late.Store(true)
	errs := make(chan error, 2)
	begun := time.Now()
	for range 2 {
		go func() { _, err := client.Get(context.Background(), "default", "k"); errs <- err }()
	}
	// The first one was sent. The second one has waited, and has no time left or is sent for the rest of it.
	for range 2 {
		if code, _ := gannet.CodeOf(<-errs); code != gannet.CodeTimeout && code != gannet.CodeClientQueueTimeout {
			t.Fatalf("code is %v", code)
		}
	}
	if took := time.Since(begun); took < 400*time.Millisecond || took > 750*time.Millisecond {
		t.Fatalf("the calls took %v", took)
	}
	_, err := client.GetBatch(context.Background(), "default", "k", "l")
	wantCode(t, err, gannet.CodeTimeout)
	eventually(t, "all places are free", func() bool { return client.Metrics().InFlight == 0 })
}

func TestCloseEndsCallsInFlightAndInTheQueue(t *testing.T) {
	slow, late := lateReplies(t, 0, 2*time.Second)
	client := newClient(t, gannet.NoToken(slow.address()), gannet.LaptopV1().WithRequestsInFlightMax(1))
	ctx := testContext(t)
	must(t, client.Connect(ctx))
	late.Store(true)
	errs := make(chan error, 3)
	for range 3 {
		go func() { _, err := client.Get(ctx, "default", "k"); errs <- err }()
	}
	eventually(t, "two calls wait", func() bool { return client.Metrics().Queued == 2 })
	client.Close()
	for range 3 {
		wantMessage(t, wantCode(t, <-errs, gannet.CodeCancelled), "the client is closed; create a new client")
	}
	_, err := client.Get(ctx, "default", "k")
	wantCode(t, err, gannet.CodeCancelled)
	client.Close()
}

type contextKey struct{}

// recording is middleware that keeps what it gets.
type recording struct {
	mutex  sync.Mutex
	starts []gannet.CallStart
	ends   []gannet.CallEnd
	values []any
}

func (r *recording) Before(ctx context.Context, start gannet.CallStart) context.Context {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.starts = append(r.starts, start)
	return context.WithValue(ctx, contextKey{}, start.Method)
}

func (r *recording) After(ctx context.Context, end gannet.CallEnd) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.ends = append(r.ends, end)
	r.values = append(r.values, ctx.Value(contextKey{}))
}

func TestMiddlewareSeesEachCall(t *testing.T) {
	ctx, first, second := testContext(t), &recording{}, &recording{}
	configuration := gannet.LaptopV1().WithMiddleware(first).WithMiddleware(second)
	client := newClient(t, gannet.NoToken(shared.address()), configuration)
	must(t, client.Set(ctx, "default", "key", []byte("value")))
	_, err := client.Get(ctx, "absent", "key")
	wantCode(t, err, gannet.CodeNotFoundCache)
	for _, each := range []*recording{first, second} {
		equal(t, len(each.starts), 2)
		equal(t, each.starts[1], gannet.CallStart{Method: "Get", Cache: "absent", RequestBytes: 5})
		equal(t, each.values, []any{"Set", "Get"})
		equal(t, each.ends[0].Err, nil)
		equal(t, each.ends[1].Err, err)
		if each.ends[0].Duration <= 0 || each.ends[0].Duration > timeout {
			t.Fatalf("duration is %v", each.ends[0].Duration)
		}
	}
}

func TestMetricsCountAndTimeCalls(t *testing.T) {
	ctx := testContext(t)
	late := newProxy(t, shared.address(), nil, func(int) time.Duration { return 20 * time.Millisecond })
	client := newClient(t, gannet.NoToken(late.address()), gannet.LaptopV1().WithMetrics(true))
	for range 3 {
		got[gannet.GetResult](t)(client.Get(ctx, "default", "k"))
	}
	_, err := client.Get(ctx, "absent", "k")
	wantCode(t, err, gannet.CodeNotFoundCache)
	get := client.Metrics().Methods["Get"]
	equal(t, get.Calls, uint64(4))
	equal(t, get.Errors, map[gannet.Code]uint64{gannet.CodeNotFoundCache: 1})
	if get.P50 < 20*time.Millisecond || get.P50 > get.P99 || get.P99 > get.P999 || get.P999 > timeout {
		t.Fatalf("latencies are %+v", get)
	}
}

func TestMessageAboveTheMaximumIsAnError(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	err := client.Set(ctx, "default", "k", make([]byte, 11<<20))
	failure := wantCode(t, err, gannet.CodeLimitExceeded)
	wantMessage(t, failure, "the request has 115343", "above the maximum of 10485760 bytes")
	// The maximum of the server is fixed.
	equal(t, failure.Remedy, "send less in one call")
	small := newClient(t, gannet.NoToken(shared.address()), gannet.LaptopV1().WithMessageBytesMax(100_000))
	err = small.Set(ctx, "default", "k", make([]byte, 200_000))
	wantMessage(t, wantCode(t, err, gannet.CodeLimitExceeded), "raise MessageBytesMax to at most 10485760 bytes")
	must(t, client.Set(ctx, "default", "k", make([]byte, 200_000)))
	_, err = small.Get(ctx, "default", "k")
	wantMessage(t, wantCode(t, err, gannet.CodeLimitExceeded),
		"the reply is longer than the maximum of 100000 bytes; read less in one call, or raise MessageBytesMax")
	must(t, client.Set(ctx, "default", "k", make([]byte, 900<<10)))
	hit := got[gannet.GetResult](t)(client.Get(ctx, "default", "k")).(*gannet.GetHit)
	equal(t, len(hit.Value), 900<<10)
}

func TestItemAboveTheMaximumNamesItsSizeAndTheOption(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	failure := wantCode(t, client.Set(ctx, "default", "k", make([]byte, 2_000_000)), gannet.CodeLimitExceeded)
	wantMessage(t, failure, "item size limit exceeded", "the request has 20000", "by --item-max of the server")
	equal(t, failure.Retryable, false)
}
