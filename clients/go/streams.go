package gannet

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// streamsMax bounds the subscriptions and watches of a client.
	streamsMax = 10_000
	// silenceMax is the time after which a stream is given up. The server sends a heartbeat every 5 s.
	silenceMax = 15 * time.Second
)

// streamPool has the connections of subscriptions and watches. They are not those of requests: a long stream takes no
// place of a request, and the places of requests are exactly the streams of their connections. A connection is opened
// with its first stream, and closed with its last one.
type streamPool struct {
	mutex       sync.Mutex
	connections []*connection
	open        int
	closed      bool
}

// acquire returns a connection with a free stream, and creates one if there is none.
func (p *streamPool) acquire(e *engine) (*connection, *Error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case p.closed:
		return nil, refusalClosed.error("Subscribe")
	case p.open >= streamsMax:
		return nil, newError(CodeLimitExceeded, "cannot open stream", "the client has 10000 subscriptions and watches",
			"close some of them, or create another client", nil)
	}
	for _, each := range p.connections {
		if each.inFlight < e.configuration.streamsPerConnection {
			each.inFlight++
			p.open++
			return each, nil
		}
	}
	channel, err := e.target.dial(e.configuration)
	if err != nil {
		return nil, newError(CodeInvalidArgument, "cannot use address '"+e.target.address+"'", err.Error(),
			"pass one such as 127.0.0.1:7000", err)
	}
	created := &connection{channel: channel, inFlight: 1}
	p.connections = append(p.connections, created)
	p.open++
	return created, nil
}

// release closes a connection that has no further stream: the next stream opens another one.
func (p *streamPool) release(used *connection) {
	p.mutex.Lock()
	used.inFlight--
	p.open--
	isUnused := used.inFlight == 0
	if isUnused {
		p.remove(used)
	}
	p.mutex.Unlock()
	if isUnused {
		_ = used.channel.Close()
	}
}

func (p *streamPool) remove(used *connection) {
	p.connections = slices.DeleteFunc(p.connections, func(each *connection) bool { return each == used })
}

// retire gives no further streams to a connection that is silent, and closes it after its last one. Its other streams
// may notice the silence later.
func (p *streamPool) retire(used *connection) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.remove(used)
}

func (p *streamPool) close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	for _, each := range p.connections {
		_ = each.channel.Close()
	}
}

func (p *streamPool) count() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.connections)
}

// follower reads a stream of the server that is opened again after each failure that passes. One goroutine uses it.
//
//	opened --message--> opened
//	   |                  ^
//	failure --passes--> delay (grows) --> open again
//	   +--does not pass--> ended
type follower[M any] struct {
	engine *engine
	method *method
	cache  string
	ctx    context.Context
	begin  func(ctx context.Context, channel *grpc.ClientConn) (grpc.ServerStreamingClient[M], error)

	stream   grpc.ServerStreamingClient[M]
	end      func(error)
	received bool // a message of this stream
	followed bool // a message of any stream
	begun    time.Time
	previous time.Duration
}

// receive returns the next message of the stream, which it opens if there is none. After a failure there is none.
func (f *follower[M]) receive() (*M, *Error) {
	if f.stream == nil {
		if failure := f.open(); failure != nil {
			return nil, failure
		}
	}
	message, err := f.stream.Recv()
	if err != nil {
		failure := f.failureOf(err)
		f.close(failure)
		return nil, failure
	}
	if !f.received {
		if f.followed {
			f.engine.resumes.Add(1)
		}
		f.received, f.followed, f.previous = true, true, 0
		f.record(nil)
	}
	return message, nil
}

func (f *follower[M]) record(failure *Error) {
	if f.engine.recorder != nil {
		f.engine.recorder.record(f.method, time.Since(f.begun), failure)
	}
}

func (f *follower[M]) failureOf(err error) *Error {
	switch {
	case f.engine.background.Err() != nil:
		return refusalClosed.error(f.method.name)
	case f.ctx.Err() == context.DeadlineExceeded:
		return lateError(f.method)
	case f.ctx.Err() != nil:
		return refusalCancelled.error(f.method.name)
	}
	return f.engine.errorOfStatus(f.method, nil, err)
}

// lateError returns the error of a stream whose time has passed.
func lateError(m *method) *Error {
	return newError(CodeTimeout, "cannot execute "+m.name, "no reply arrived before the deadline", remedies[CodeTimeout],
		context.DeadlineExceeded)
}

func (f *follower[M]) open() *Error {
	e := f.engine
	if !isPrintableASCII(f.cache) {
		return refusalCacheName.error(f.method.name)
	}
	used, failure := e.streams.acquire(e)
	if failure != nil {
		return failure
	}
	ctx, cancel := context.WithCancel(f.ctx)
	start := CallStart{Method: f.method.name, Cache: f.cache}
	for _, each := range e.configuration.middleware {
		ctx = each.Before(ctx, start)
	}
	f.received, f.begun = false, time.Now()
	giveUp := func() {
		e.streams.retire(used)
		cancel()
	}
	stream := &silent[M]{giveUp: giveUp, limit: e.silence}
	err := stream.within(func() (err error) {
		stream.ServerStreamingClient, err = f.begin(e.withMetadata(ctx, f.cache), used.channel)
		return err
	})
	observed, begun := ctx, f.begun
	var once sync.Once
	end := func(err error) {
		once.Do(func() {
			cancel()
			e.streams.release(used)
			end := CallEnd{Method: f.method.name, Cache: f.cache, Duration: time.Since(begun), Err: err}
			for at := len(e.configuration.middleware) - 1; at >= 0; at-- {
				e.configuration.middleware[at].After(observed, end)
			}
		})
	}
	// The reader of a subscription that is closed need not ask for another event.
	stop := context.AfterFunc(f.ctx, func() { end(refusalCancelled.error(f.method.name)) })
	f.end = func(err error) {
		stop()
		end(err)
	}
	if err != nil {
		failure := f.failureOf(err)
		f.close(failure)
		return failure
	}
	f.stream = stream
	return nil
}

// close ends the stream, because of a failure or at the wish of the caller.
func (f *follower[M]) close(failure *Error) {
	if f.end == nil {
		return
	}
	var err error
	if failure != nil {
		err = failure
		if !f.received {
			f.record(failure)
		}
	}
	f.end(err)
	f.stream, f.end = nil, nil
}

// pause waits before the stream is opened again, longer after each attempt that failed. It returns false if the
// follower has ended.
func (f *follower[M]) pause() bool {
	backoff := ExponentialBackoff{f.engine.configuration.reconnectDelayMin, f.engine.configuration.reconnectDelayMax}
	f.previous, _ = backoff.Delay(0, f.previous)
	return sleep(f.ctx, f.previous)
}

// lasting are the statuses after which the same stream would end in the same way, as in clients/streams.toml.
var lasting = []codes.Code{
	codes.AlreadyExists, codes.FailedPrecondition, codes.InvalidArgument, codes.NotFound, codes.OutOfRange,
	codes.PermissionDenied, codes.ResourceExhausted, codes.Unauthenticated, codes.Unimplemented,
}

// passes returns true for a failure after which a stream is opened again. A failure of the client itself, such as a
// cancellation by the caller, has no status.
func passes(failure *Error) bool {
	if failure.status == codes.OK {
		return failure.Code == CodeTimeout
	}
	return !slices.Contains(lasting, failure.status)
}

// silent is a stream that ends with a failure that passes if no message arrives within a time. One goroutine uses it.
type silent[M any] struct {
	grpc.ServerStreamingClient[M]
	giveUp func()
	limit  time.Duration
	late   bool
}

var errSilent = status.Error(codes.DeadlineExceeded, "the server sent no heartbeat")

// Recv returns the next message. It implements grpc.ServerStreamingClient.
func (s *silent[M]) Recv() (message *M, err error) {
	err = s.within(func() error {
		message, err = s.ServerStreamingClient.Recv()
		return err
	})
	return message, err
}

// within executes a step of the stream, and gives the stream up if the step takes too long. A message may arrive at
// that instant: the step then succeeds, and the next one fails.
func (s *silent[M]) within(step func() error) error {
	if s.late {
		return errSilent
	}
	timer := time.AfterFunc(s.limit, s.giveUp)
	err := step()
	if s.late = !timer.Stop(); s.late && err != nil {
		err = errSilent
	}
	return err
}
