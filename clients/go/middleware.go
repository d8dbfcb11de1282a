package gannet

import (
	"context"
	"time"
)

// Middleware runs code of the user before and after each call, on the goroutine of the caller.
type Middleware interface {
	// Before runs when a call begins, before it waits in the client's queue. The call and After get the context that it
	// returns, which is derived from ctx.
	Before(ctx context.Context, start CallStart) context.Context
	// After runs when a call has ended. Its place in flight is already free.
	After(ctx context.Context, end CallEnd)
}

// CallStart is a call that begins.
type CallStart struct {
	// Method is the name of the call in the schema, such as Get.
	Method string
	// Cache is the name of the cache, or empty for calls on no cache.
	Cache string
	// RequestBytes is the size of the request.
	RequestBytes int
}

// CallEnd is a call that has ended.
type CallEnd struct {
	Method string
	Cache  string
	// Duration is the time from the start of the call to its result, with the wait in the client's queue.
	Duration time.Duration
	// Queued is the time in the client's queue.
	Queued time.Duration
	// Retries is the number of times that the request was repeated after a failure.
	Retries int
	// Hedged is true if the request was sent a second time because its reply was slow.
	Hedged bool
	// Err is nil, or a *Error.
	Err error
}
