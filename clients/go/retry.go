package gannet

import (
	"math/rand/v2"
	"time"
)

// RetryStrategy decides when a failed request is sent again. The client asks it only about calls whose repetition
// changes nothing, and only if the server was unavailable or failed. It is called from many goroutines at once.
type RetryStrategy interface {
	// Delay returns the time before the next retry, and false if there is none. Retries is the number of retries of this
	// call so far, and previous the delay before the latest of them.
	Delay(retries int, previous time.Duration) (time.Duration, bool)
	// ResponseTimeout returns the time that one attempt may take; 0 stands for the rest of the call's deadline.
	ResponseTimeout() time.Duration
}

// NoRetry never repeats a request.
type NoRetry struct{}

// Delay implements RetryStrategy.
func (NoRetry) Delay(int, time.Duration) (time.Duration, bool) { return 0, false }

// ResponseTimeout implements RetryStrategy.
func (NoRetry) ResponseTimeout() time.Duration { return 0 }

// FixedCount repeats a failed request at once, at most this number of times.
type FixedCount int

// Delay implements RetryStrategy.
func (f FixedCount) Delay(retries int, _ time.Duration) (time.Duration, bool) {
	return 0, retries < int(f)
}

// ResponseTimeout implements RetryStrategy.
func (FixedCount) ResponseTimeout() time.Duration { return 0 }

// FixedTimeout repeats a failed request after about RetryDelay, until the deadline of the call. The delay varies by
// 10 % in both directions. An attempt that has no reply after Response is given up and repeated, so that a server
// that hangs costs this time and not the whole deadline.
type FixedTimeout struct {
	// RetryDelay is 100 ms if it is 0.
	RetryDelay time.Duration
	// Response is 1 s if it is 0.
	Response time.Duration
}

// Delay implements RetryStrategy.
func (f FixedTimeout) Delay(int, time.Duration) (time.Duration, bool) {
	delay := orDefault(f.RetryDelay, 100*time.Millisecond)
	return time.Duration(float64(delay) * (0.9 + 0.2*rand.Float64())), true
}

// ResponseTimeout implements RetryStrategy.
func (f FixedTimeout) ResponseTimeout() time.Duration { return orDefault(f.Response, time.Second) }

// ExponentialBackoff repeats a failed request after delays that grow, until the deadline of the call. Each delay is a
// random time between Initial and three times the previous delay, at most Max (decorrelated jitter). Clients that
// failed at the same instant therefore do not return at the same instant.
type ExponentialBackoff struct {
	// Initial is 500 us if it is 0.
	Initial time.Duration
	// Max is 1 s if it is 0.
	Max time.Duration
}

// Delay implements RetryStrategy.
func (e ExponentialBackoff) Delay(_ int, previous time.Duration) (time.Duration, bool) {
	initial := orDefault(e.Initial, 500*time.Microsecond)
	longest := max(initial, 3*previous)
	return min(orDefault(e.Max, time.Second), initial+rand.N(longest-initial+1)), true
}

// ResponseTimeout implements RetryStrategy.
func (ExponentialBackoff) ResponseTimeout() time.Duration { return 0 }

func orDefault(value, otherwise time.Duration) time.Duration {
	if value == 0 {
		return otherwise
	}
	return value
}

// RetryBudget bounds retries and hedges together: Percent of the requests, plus Burst. It is a token bucket that
// holds at most Burst tokens. Each request adds Percent / 100 of a token, and each retry or hedge takes one. Without
// a token, a failed request is not repeated, and a slow one is not hedged.
type RetryBudget struct {
	Percent float64
	Burst   int
}

// tokenBucket is the state of a RetryBudget. Its caller holds the lock of the limiter.
type tokenBucket struct {
	tokens, share, burst float64
}

func newTokenBucket(budget RetryBudget) tokenBucket {
	burst := float64(budget.Burst)
	return tokenBucket{tokens: burst, share: budget.Percent / 100, burst: burst}
}

// add counts one request.
func (b *tokenBucket) add() {
	if b.tokens < b.burst {
		b.tokens = min(b.burst, b.tokens+b.share)
	}
}

// take takes a token, and returns false if there is none.
func (b *tokenBucket) take() bool {
	// The sum of many shares is inexact: ten of 0.1 are slightly less than 1.
	if b.tokens < 1-1e-9 {
		return false
	}
	b.tokens--
	return true
}
