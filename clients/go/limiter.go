package gannet

import (
	"context"
	"sync"
)

// waiter is a request in the queue. The limiter sends exactly one grant to it: a connection, or nil if the client was
// closed.
type waiter struct {
	granted    chan *connection
	next, prev *waiter
	queued     bool
}

var waiters = sync.Pool{New: func() any { return &waiter{granted: make(chan *connection, 1)} }}

// limiter bounds the requests in flight. Further ones wait in order of their arrival:
//
//	enter --place free--> in flight --release, queue empty--> place free
//	   |                     ^
//	   +--no place--> wait --+--release passes its place to the first one
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

// enter returns a connection with a free stream, which the caller releases. If no place is free, it returns the
// request's waiter in the queue, with which the caller has to call wait. Retries add nothing to the budget: isFirst
// is false for them.
func (l *limiter) enter(isFirst bool) (*connection, *waiter, *refusal) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return nil, nil, &refusalClosed
	}
	if isFirst {
		l.budget.add()
	}
	if l.inFlight < l.inFlightMax {
		return l.take(nil), nil, nil
	}
	if l.queued >= l.queuedMax {
		return nil, nil, refusalQueueFull(l.queuedMax)
	}
	own := waiters.Get().(*waiter)
	l.append(own)
	return nil, own, nil
}

// wait returns the connection that a waiter is granted. If the context ends before, the waiter leaves the queue.
func (l *limiter) wait(ctx context.Context, own *waiter) (*connection, *refusal) {
	var granted *connection
	select {
	case granted = <-own.granted:
	case <-ctx.Done():
		l.mutex.Lock()
		wasQueued := own.queued
		if wasQueued {
			l.remove(own)
		}
		l.mutex.Unlock()
		if wasQueued {
			waiters.Put(own)
			return nil, refusalOf(ctx)
		}
		// The limiter granted a place at the same time. The request is not sent, and passes the place on.
		if granted = <-own.granted; granted != nil {
			l.release(granted)
		}
		waiters.Put(own)
		return nil, refusalOf(ctx)
	}
	waiters.Put(own)
	if granted == nil {
		return nil, &refusalClosed
	}
	return granted, nil
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

// release passes a place to the first waiter, or frees it.
func (l *limiter) release(used *connection) {
	l.mutex.Lock()
	if next := l.first; next != nil {
		l.remove(next)
		next.granted <- used
	} else {
		l.inFlight--
		used.inFlight--
	}
	l.mutex.Unlock()
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
		next.granted <- nil
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
