package gannet

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// waiter is a request in the queue. Exactly one message arrives on ended: after the request was executed on the
// connection that a place was granted on, or after the client was closed.
type waiter struct {
	ended      chan struct{}
	next, prev *waiter
	queued     bool

	ctx     context.Context
	request outgoing
	entered time.Time

	reply   proto.Message
	err     error
	refused *refusal
}

var waiters = sync.Pool{New: func() any { return &waiter{ended: make(chan struct{}, 1)} }}

// recycle returns a waiter to the pool. Its message has arrived, or never will.
func (w *waiter) recycle() {
	*w = waiter{ended: w.ended}
	waiters.Put(w)
}

// limiter bounds the requests in flight. Further ones wait in order of their arrival:
//
//	enter --place free--> in flight --release, queue empty--> place free
//	   |                     ^
//	   +--no place--> queue -+--release passes its place to the first one
//
// Requests wait only while inFlight is at its maximum, because a released place passes to the first waiter.
type limiter struct {
	mutex         sync.Mutex
	connections   []*connection
	inFlight      int
	inFlightMax   int
	queued        int
	queuedMax     int
	streams       int
	budget        tokenBucket
	closed        bool
	first, newest *waiter
}

func newLimiter(connections []*connection, configuration Configuration) *limiter {
	return &limiter{
		connections: connections,
		inFlightMax: configuration.requestsInFlightMax,
		queuedMax:   configuration.requestsQueuedMax,
		streams:     configuration.streamsPerConnection,
		budget:      newTokenBucket(configuration.retryBudget),
	}
}

// enter returns a connection with a free stream, which the caller releases, or nil if no place is free. Retries add
// nothing to the budget: isFirst is false for them.
func (l *limiter) enter(isFirst bool) (*connection, *refusal) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if isFirst && !l.closed {
		l.budget.add()
	}
	return l.place()
}

// place returns a connection with a free stream, nil if the request has to wait, or the reason why it cannot.
func (l *limiter) place() (*connection, *refusal) {
	switch {
	case l.closed:
		return nil, &refusalClosed
	case l.inFlight < l.inFlightMax:
		return l.take(nil), nil
	case l.queued >= l.queuedMax:
		return nil, refusalQueueFull(l.queuedMax)
	}
	return nil, nil
}

// enqueue adds a request to the queue, unless a place has become free, which it returns.
func (l *limiter) enqueue(own *waiter) (*connection, *refusal) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	used, refused := l.place()
	if used == nil && refused == nil {
		l.append(own)
	}
	return used, refused
}

// leave removes a request from the queue, and returns false if a place was granted to it before.
func (l *limiter) leave(own *waiter) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	wasQueued := own.queued
	if wasQueued {
		l.remove(own)
	}
	return wasQueued
}

// take occupies a free place, on the first connection with a free stream. If other is not nil, a connection that is
// not other is preferred.
func (l *limiter) take(other *connection) *connection {
	l.inFlight++
	for _, each := range l.connections {
		if each.inFlight < l.streams && each != other {
			each.inFlight++
			return each
		}
	}
	if other == nil || other.inFlight >= l.streams {
		panic("gannet: a free place without a free stream")
	}
	other.inFlight++
	return other
}

// release passes a place to the first request in the queue, which it returns and which the caller executes. It frees
// the place and returns nil if no request waits.
func (l *limiter) release(used *connection) *waiter {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	next := l.first
	if next != nil {
		l.remove(next)
	} else {
		l.inFlight--
		used.inFlight--
	}
	return next
}

// takeRetryToken takes a token of the budget, and returns false if there is none.
func (l *limiter) takeRetryToken() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.budget.take()
}

// acquireForHedge returns a connection for a second request, or nil unless a place is free and the budget allows it.
// It is not first if another one has a free stream.
func (l *limiter) acquireForHedge(first *connection) *connection {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed || l.inFlight >= l.inFlightMax || !l.budget.take() {
		return nil
	}
	return l.take(first)
}

// close refuses all waiters and later requests.
func (l *limiter) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
	for l.first != nil {
		next := l.first
		l.remove(next)
		next.refused = &refusalClosed
		next.ended <- struct{}{}
	}
}

func (l *limiter) isClosed() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.closed
}

func (l *limiter) counts() (inFlight, queued int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.inFlight, l.queued
}

func (l *limiter) append(own *waiter) {
	own.queued, own.next, own.prev = true, nil, l.newest
	if l.newest == nil {
		l.first = own
	} else {
		l.newest.next = own
	}
	l.newest = own
	l.queued++
}

func (l *limiter) remove(own *waiter) {
	if own.prev == nil {
		l.first = own.next
	} else {
		own.prev.next = own.next
	}
	if own.next == nil {
		l.newest = own.prev
	} else {
		own.next.prev = own.prev
	}
	own.queued, own.next, own.prev = false, nil, nil
	l.queued--
}
