package gannet

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// connection is a gRPC channel with one HTTP/2 connection, and the number of its requests in flight. The limiter's
// lock guards the number.
type connection struct {
	channel  *grpc.ClientConn
	inFlight int
}

// engine executes the calls of a client:
//
//	caller -> before (middleware) -> queue -> connection -> reply -> result
//	                                   ^                      |
//	                                   +---- delay <- retry <-+
type engine struct {
	target        Credentials
	configuration Configuration
	connections   []*connection
	limiter       *limiter
	streams       streamPool
	near          *nearCache
	silence       time.Duration
	metadata      atomic.Pointer[map[string]metadata.MD]
	recorder      *recorder
	observed      bool
	attempt       time.Duration
	retries       atomic.Uint64
	hedges        atomic.Uint64
	resumes       atomic.Uint64
	background    context.Context
	stop          context.CancelFunc
}

// cachesRememberedMax bounds the names of caches whose metadata the client retains.
const cachesRememberedMax = 64

func newEngine(target Credentials, configuration Configuration) (*engine, error) {
	e := &engine{
		target:        target,
		configuration: configuration,
		observed:      configuration.metrics || len(configuration.middleware) > 0,
		attempt:       configuration.retryStrategy.ResponseTimeout(),
		silence:       silenceMax,
	}
	e.metadata.Store(&map[string]metadata.MD{})
	e.background, e.stop = context.WithCancel(context.Background())
	if configuration.metrics {
		e.recorder = newRecorder()
	}
	for range configuration.ConnectionsMax() {
		channel, err := target.dial(configuration)
		if err != nil {
			e.close()
			var own *Error
			if errors.As(err, &own) {
				return nil, own
			}
			return nil, newError(CodeInvalidArgument, "cannot use address '"+target.address+"'", err.Error(),
				"pass one such as 127.0.0.1:7000", err)
		}
		e.connections = append(e.connections, &connection{channel: channel})
	}
	e.limiter = newLimiter(e.connections, configuration)
	if configuration.nearCache.EntriesMax > 0 {
		e.near = newNearCache(e, configuration.nearCache)
	}
	return e, nil
}

// close ends all calls and closes the connections.
func (e *engine) close() {
	e.stop()
	if e.limiter != nil {
		e.limiter.close()
	}
	for _, each := range e.connections {
		_ = each.channel.Close()
	}
	e.streams.close()
}

// keepOpen reconnects a connection whenever it was lost, until the client is closed, so that no request waits for a
// handshake.
func (e *engine) keepOpen(channel *grpc.ClientConn) {
	for state := channel.GetState(); state != connectivity.Shutdown; state = channel.GetState() {
		if state == connectivity.Idle {
			channel.Connect()
		}
		if !channel.WaitForStateChange(e.background, state) {
			return
		}
	}
}

// open opens one connection, and returns the reason if it cannot.
func (e *engine) open(ctx context.Context, channel *grpc.ClientConn) error {
	for {
		state := channel.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			channel.Connect()
		case connectivity.Shutdown:
			return refusalClosed.error("Connect")
		case connectivity.TransientFailure:
			if failure := e.reason(ctx, channel); failure != nil {
				return failure
			}
		}
		if !channel.WaitForStateChange(ctx, state) {
			cause := "the connection was not open before the deadline"
			return newError(CodeTimeout, "cannot connect to "+e.target.address, cause,
				"check the address, the network and the firewall", ctx.Err())
		}
	}
}

// reason returns the error of a connection whose latest attempt to open failed: a call on it ends with this error at
// once. If the connection has opened in the meantime, the call is a health check, and reason returns nil.
func (e *engine) reason(ctx context.Context, channel *grpc.ClientConn) error {
	err := channel.Invoke(ctx, "/grpc.health.v1.Health/Check", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Unavailable {
		return nil
	}
	cause, remedy := e.target.unavailable(status.Convert(err).Message())
	return newError(CodeUnavailable, "cannot connect to "+e.target.address, cause, remedy, err)
}

// metadataOf returns the metadata of the calls on a cache. It is never changed.
func (e *engine) metadataOf(cache string) metadata.MD {
	known := *e.metadata.Load()
	if pairs, found := known[cache]; found {
		return pairs
	}
	pairs := metadata.MD{}
	if cache != "" {
		pairs.Set("cache", cache)
	}
	if e.target.token != "" {
		pairs.Set("authorization", e.target.token)
	}
	if len(known) < cachesRememberedMax {
		more := maps.Clone(known)
		more[cache] = pairs
		e.metadata.Store(&more)
	}
	return pairs
}

// withMetadata returns a context with the metadata of the calls on a cache. The metadata that the context has already,
// such as that of a tracing library, is sent too.
func (e *engine) withMetadata(ctx context.Context, cache string) context.Context {
	own := e.metadataOf(cache)
	if given, has := metadata.FromOutgoingContext(ctx); has {
		maps.Copy(given, own)
		own = given
	}
	return metadata.NewOutgoingContext(ctx, own)
}

// trace records the course of one call, for middleware and metrics.
type trace struct {
	queued  time.Duration
	retries int
	hedged  bool
}

// exchange sends one request over a channel and reads the whole reply.
type exchange func(ctx context.Context, channel *grpc.ClientConn) error

// call executes a call. It returns reply, or another message of its type if a hedge was faster. If stream is not nil,
// it is used in place of a unary request.
func (e *engine) call(
	ctx context.Context, m *method, cache string, request, reply proto.Message, stream exchange,
) (proto.Message, error) {
	if e.near != nil {
		defer e.near.ended(m, cache, request)
	}
	if !e.observed {
		got, failure := e.execute(ctx, m, cache, request, reply, stream, nil)
		if failure != nil {
			return nil, failure
		}
		return got, nil
	}
	middleware := e.configuration.middleware
	if len(middleware) > 0 {
		start := CallStart{m.name, cache, proto.Size(request)}
		for _, each := range middleware {
			ctx = each.Before(ctx, start)
		}
	}
	var seen trace
	begun := time.Now()
	got, failure := e.execute(ctx, m, cache, request, reply, stream, &seen)
	duration := time.Since(begun)
	if e.recorder != nil {
		e.recorder.record(m, duration, failure)
	}
	// A nil *Error must not become an error that is not nil.
	var err error
	if failure != nil {
		got, err = nil, failure
	}
	if len(middleware) > 0 {
		end := CallEnd{m.name, cache, duration, seen.queued, seen.retries, seen.hedged, err}
		for at := len(middleware) - 1; at >= 0; at-- {
			middleware[at].After(ctx, end)
		}
	}
	return got, err
}

// execute sends a request until it succeeds or is not repeated. If a place is free at once, gRPC ends the request at
// the deadline, which is the timeout of its service configuration. Only a request that waits, or is repeated, needs a
// timer of its own.
func (e *engine) execute(
	caller context.Context, m *method, cache string, request, reply proto.Message, stream exchange, seen *trace,
) (proto.Message, *Error) {
	if !isPrintableASCII(cache) {
		return nil, refusalCacheName.error(m.name)
	}
	begun := time.Now()
	ctx := e.withMetadata(caller, cache)
	var cancel context.CancelFunc
	defer func() {
		if cancel != nil {
			cancel()
		}
	}()
	if stream != nil {
		ctx, cancel = e.withTimer(ctx, cancel, begun)
	}
	sent := outgoing{m, request, reply, stream, seen}
	var previous time.Duration
	var failed error // of the attempt before this one
	entered := begun
	for retries := 0; ; retries++ {
		used, refused := e.limiter.enter(retries == 0)
		var got proto.Message
		var err error
		switch {
		case refused != nil:
		case used != nil:
			got, err = e.send(ctx, sent, used)
		default:
			ctx, cancel = e.withTimer(ctx, cancel, begun)
			got, refused, err = e.sendQueued(ctx, sent, entered)
		}
		if refused != nil {
			return nil, refused.error(m.name)
		}
		if err == nil {
			return got, nil
		}
		if e.limiter.isClosed() {
			return nil, refusalClosed.error(m.name)
		}
		delay, repeat := e.retryDelay(ctx, m, err, retries, previous, begun)
		if !repeat || !e.limiter.takeRetryToken() {
			if status.Code(err) == codes.DeadlineExceeded && status.Code(failed) == codes.Unavailable {
				// The deadline ended an attempt to reach a server that was unreachable.
				err = failed
			}
			return nil, e.errorOf(ctx, m, request, err)
		}
		e.retries.Add(1)
		if seen != nil {
			seen.retries++
		}
		ctx, cancel = e.withTimer(ctx, cancel, begun)
		if delay > 0 && !sleep(ctx, delay) {
			return nil, e.errorOf(ctx, m, request, err)
		}
		previous, entered, failed = delay, time.Now(), err
	}
}

// withTimer returns a context that ends at the deadline of a call that began at this time. A context that has a timer
// already, and with it a cancel function, is returned as it is.
func (e *engine) withTimer(
	ctx context.Context, cancel context.CancelFunc, begun time.Time,
) (context.Context, context.CancelFunc) {
	if cancel != nil {
		return ctx, cancel
	}
	return context.WithDeadline(ctx, begun.Add(e.configuration.deadline))
}

// errorOf returns the error of a call that was sent. If the caller cancelled it, that is the reason.
func (e *engine) errorOf(ctx context.Context, m *method, request proto.Message, err error) *Error {
	if contradiction, isOwn := err.(*Error); isOwn {
		return contradiction
	}
	if ctx.Err() == context.Canceled {
		return refusalCancelled.error(m.name)
	}
	return e.errorOfStatus(m, request, err)
}

// retryDelay returns the time after which a failed request is repeated, and false if it is not. The budget is not
// asked.
func (e *engine) retryDelay(
	ctx context.Context, m *method, err error, retries int, previous time.Duration, begun time.Time,
) (time.Duration, bool) {
	if !m.idempotent || ctx.Err() != nil {
		return 0, false
	}
	if _, isOwn := err.(*Error); isOwn {
		return 0, false
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal:
		if isNotEncoded(err) {
			return 0, false
		}
	case codes.DeadlineExceeded:
		// The attempt was given up, and the call has time left.
		if e.attempt == 0 {
			return 0, false
		}
	default:
		return 0, false
	}
	delay, repeat := e.configuration.retryStrategy.Delay(retries, previous)
	end := begun.Add(e.configuration.deadline)
	if deadline, has := ctx.Deadline(); has && deadline.Before(end) {
		end = deadline
	}
	return delay, repeat && time.Until(end) > delay
}

// sleep waits, and returns false if the context ended.
func sleep(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// outgoing is a request with all that its execution needs.
type outgoing struct {
	method  *method
	request proto.Message
	reply   proto.Message
	stream  exchange
	seen    *trace
}

func (e *engine) isHedged(sent outgoing) bool {
	return sent.method.hedged && e.configuration.hedgeDelay > 0
}

// send sends a request on a connection, and releases the connection.
func (e *engine) send(ctx context.Context, sent outgoing, used *connection) (proto.Message, error) {
	if e.isHedged(sent) {
		return e.sendHedged(ctx, sent, used)
	}
	defer e.release(used)
	return e.exchange(ctx, sent, used)
}

// exchange sends a request on a connection and returns its reply.
func (e *engine) exchange(ctx context.Context, sent outgoing, used *connection) (proto.Message, error) {
	if e.attempt > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.attempt)
		defer cancel()
	}
	if sent.stream != nil {
		return sent.reply, sent.stream(ctx, used.channel)
	}
	return sent.reply, used.channel.Invoke(ctx, sent.method.path, sent.request, sent.reply)
}

// release passes a place on. The goroutine that frees it is that of a caller, which returns: another one executes the
// requests of the queue.
func (e *engine) release(used *connection) {
	if next := e.limiter.release(used); next != nil {
		go e.serve(next, used)
	}
}

// serve executes requests of the queue one after another, as long as there are any. A request is not executed by its
// own goroutine: the stacks of many goroutines that wait would grow by that of gRPC, and the memory of all of them
// would pass through the CPU caches.
func (e *engine) serve(next *waiter, used *connection) {
	for next != nil {
		if seen := next.request.seen; seen != nil {
			seen.queued += time.Since(next.entered)
		}
		switch {
		case next.ctx.Err() != nil:
			next.refused = refusalOf(next.ctx)
		case e.isHedged(next.request):
			// The requests of a hedge release their connections themselves.
			next.reply, next.err = e.sendHedged(next.ctx, next.request, used)
			next.ended <- struct{}{}
			return
		default:
			next.reply, next.err = e.exchange(next.ctx, next.request, used)
		}
		next.ended <- struct{}{}
		next = e.limiter.release(used)
	}
}

// sendQueued waits in the queue for a place, and for the reply. The context has a deadline.
func (e *engine) sendQueued(
	ctx context.Context, sent outgoing, entered time.Time,
) (proto.Message, *refusal, error) {
	own := waiters.Get().(*waiter)
	defer own.recycle()
	own.ctx, own.request, own.entered = ctx, sent, entered
	used, refused := e.limiter.enqueue(own)
	if refused != nil {
		return nil, refused, nil
	}
	if used != nil {
		got, err := e.send(ctx, sent, used)
		return got, nil, err
	}
	select {
	case <-own.ended:
	case <-ctx.Done():
		if e.limiter.leave(own) {
			if sent.seen != nil {
				sent.seen.queued += time.Since(entered)
			}
			return nil, refusalOf(ctx), nil
		}
		// The request was sent, or the client was closed. gRPC ends it at once, because its context has ended.
		<-own.ended
	}
	return own.reply, own.refused, own.err
}

// sendHedged sends a request, and a second one if the reply is slow. It returns the first good reply, and ends the
// other request. Each request has a goroutine, which releases its connection.
func (e *engine) sendHedged(ctx context.Context, sent outgoing, used *connection) (proto.Message, error) {
	if e.attempt > 0 {
		var cancelAttempt context.CancelFunc
		ctx, cancelAttempt = context.WithTimeout(ctx, e.attempt)
		defer cancelAttempt()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type ended struct {
		reply proto.Message
		err   error
	}
	results := make(chan ended, 2)
	send := func(on *connection, into proto.Message) {
		err := on.channel.Invoke(ctx, sent.method.path, sent.request, into)
		e.release(on)
		results <- ended{into, err}
	}
	go send(used, sent.reply)
	timer := time.NewTimer(e.configuration.hedgeDelay)
	defer timer.Stop()
	select {
	case first := <-results:
		return first.reply, first.err
	case <-timer.C:
	}
	second := e.limiter.acquireForHedge(used)
	if second != nil {
		e.hedges.Add(1)
		if sent.seen != nil {
			sent.seen.hedged = true
		}
		go send(second, sent.reply.ProtoReflect().New().Interface())
	}
	best := <-results
	if second != nil && best.err != nil {
		best = <-results
	}
	return best.reply, best.err
}
