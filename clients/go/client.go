package gannet

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "gannet.dev/client/gannetv1"
)

// Client calls one server. Any number of goroutines may use it at once. A program creates one client for each server,
// and retains it: the bound of requests in flight holds for each client.
//
// Each call takes a context. A call ends at the deadline of its context or of the configuration, whichever is
// earlier, and when the context is cancelled. Keys, fields, elements of sets and names of bins are strings, which may
// hold any bytes. Names of topics and leaderboards, sets of records, filters and texts in bins are UTF-8, and names of
// caches are printable ASCII.
type Client struct {
	engine     *engine
	defaultTTL uint64
}

// NewClient creates a client. The items of calls without a TTL live for defaultTTL, which is at least 1 ms.
//
// If the configuration connects eagerly, NewClient waits until all connections are open, at most for the deadline of
// the configuration or until ctx ends. It returns a usable client even if the server cannot be reached, so that a
// service starts without its cache; Connect reports the reason. NewClient returns a *Error if an argument is wrong.
func NewClient(
	ctx context.Context, credentials Credentials, configuration Configuration, defaultTTL time.Duration,
) (*Client, error) {
	if err := credentials.check(); err != nil {
		return nil, err
	}
	if err := configuration.check(); err != nil {
		return nil, err
	}
	if defaultTTL < time.Millisecond {
		return nil, newError(CodeInvalidArgument, "cannot use defaultTTL "+defaultTTL.String(), "it is below 1 ms",
			"pass at least 1 ms", nil)
	}
	created, err := newEngine(credentials, configuration)
	if err != nil {
		return nil, err
	}
	client := &Client{created, milliseconds(defaultTTL)}
	if configuration.eagerConnect {
		// The error is not lost: the first calls report it, if it persists.
		_ = client.Connect(ctx)
		for _, each := range created.connections {
			go created.keepOpen(each.channel)
		}
	}
	return client, nil
}

// Connect opens all connections, and returns a *Error with the reason if one cannot be opened. It waits at most for
// the deadline of the configuration.
func (c *Client) Connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.engine.configuration.deadline)
	defer cancel()
	failures := make([]error, len(c.engine.connections))
	var opening sync.WaitGroup
	for at, each := range c.engine.connections {
		opening.Go(func() { failures[at] = c.engine.open(ctx, each.channel) })
	}
	opening.Wait()
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	return nil
}

// Close ends all calls with the error CodeCancelled, and closes the connections.
func (c *Client) Close() { c.engine.close() }

// Metrics returns a snapshot of the metrics. Those by method need Configuration.WithMetrics.
func (c *Client) Metrics() Metrics {
	inFlight, queued := c.engine.limiter.counts()
	metrics := Metrics{
		InFlight:    inFlight,
		Queued:      queued,
		Connections: len(c.engine.connections),
		Retries:     c.engine.retries.Load(),
		Hedges:      c.engine.hedges.Load(),
		Resumes:     c.engine.resumes.Load(),
		Methods:     map[string]MethodMetrics{},
	}
	if c.engine.recorder != nil {
		metrics.Methods = c.engine.recorder.snapshot()
	}
	if c.engine.near != nil {
		metrics.NearCache = c.engine.near.snapshot()
	}
	return metrics
}

// unary executes a call with one reply, of the type of reply.
func unary[R proto.Message](
	ctx context.Context, c *Client, m *method, cache string, request proto.Message, reply R,
) (R, error) {
	got, err := c.engine.call(ctx, m, cache, request, reply, nil)
	if err != nil {
		return reply, err
	}
	return got.(R), nil
}

// done executes a call whose reply has no content.
func (c *Client) done(ctx context.Context, m *method, cache string, request proto.Message) error {
	_, err := c.engine.call(ctx, m, cache, request, &pb.Done{}, nil)
	return err
}

// CodeOf returns the code of an error of this package, and false for nil and other errors.
func CodeOf(err error) (Code, bool) {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Code, true
	}
	return CodeUnknown, false
}
