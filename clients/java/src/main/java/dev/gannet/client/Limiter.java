package dev.gannet.client;

import java.util.ArrayList;
import java.util.List;

/**
 * Bounds the requests in flight. Further ones wait in order of their arrival:
 *
 * <pre>
 * enter --place free--> in flight --release, queue empty--> place free
 *    |                     ^
 *    +--no place--> queue -+--release passes its place to the first one
 * </pre>
 *
 * Requests wait only while {@code inFlight} is at its maximum, because a released place passes to the first waiter.
 */
final class Limiter {
    /** A request that may wait. The lock of the limiter guards its links. */
    abstract static class Waiter {
        private Waiter next;
        private Waiter previous;
        private volatile boolean isQueued;

        boolean isQueued() {
            return isQueued;
        }
    }

    private final Connection[] connections;
    private final int inFlightMax;
    private final int queuedMax;
    private final int streams;
    private final RetryBudget.Bucket budget;
    private int inFlight;
    private int queued;
    private boolean isClosed;
    private Waiter first;
    private Waiter newest;

    Limiter(Connection[] connections, Configuration configuration) {
        this.connections = connections;
        inFlightMax = configuration.requestsInFlightMax();
        queuedMax = configuration.requestsQueuedMax();
        streams = configuration.streamsPerConnection();
        budget = new RetryBudget.Bucket(configuration.retryBudget());
    }

    /**
     * Returns a connection with a free stream, which the caller releases, or null after it has added the request to the
     * queue. Retries add nothing to the budget: {@code isFirst} is false for them.
     */
    synchronized Connection enter(Waiter own, boolean isFirst) throws Refusal {
        if (isClosed) {
            throw Refusal.CLOSED;
        }
        if (isFirst) {
            budget.add();
        }
        if (inFlight < inFlightMax) {
            return take(null);
        }
        if (queued >= queuedMax) {
            throw Refusal.queueFull(queuedMax);
        }
        append(own);
        return null;
    }

    /** Removes a request from the queue, and returns false if it was not in it, because a place was granted to it. */
    synchronized boolean leave(Waiter own) {
        boolean wasQueued = own.isQueued;
        if (wasQueued) {
            remove(own);
        }
        return wasQueued;
    }

    /**
     * Passes a place to the first request in the queue, which it returns and which the caller sends. It frees the place
     * and returns null if no request waits.
     */
    synchronized Waiter release(Connection used) {
        Waiter next = first;
        if (next != null) {
            remove(next);
        } else {
            inFlight--;
            used.inFlight--;
        }
        return next;
    }

    /** Takes a token of the budget, and returns false if there is none. */
    synchronized boolean takeRetryToken() {
        return budget.take();
    }

    /**
     * Returns a connection for a second request, or null unless a place is free and the budget allows it. It is not
     * {@code other} if another one has a free stream.
     */
    synchronized Connection acquireForHedge(Connection other) {
        if (isClosed || inFlight >= inFlightMax || !budget.take()) {
            return null;
        }
        return take(other);
    }

    /** Refuses later requests, and returns those that wait. */
    synchronized List<Waiter> close() {
        isClosed = true;
        List<Waiter> waiting = new ArrayList<>();
        while (first != null) {
            waiting.add(first);
            remove(first);
        }
        return waiting;
    }

    synchronized boolean isClosed() {
        return isClosed;
    }

    synchronized int inFlight() {
        return inFlight;
    }

    synchronized int queued() {
        return queued;
    }

    /** Occupies a free place, on the first connection with a free stream. {@code other} is used if no other has one. */
    private Connection take(Connection other) {
        inFlight++;
        for (Connection each : connections) {
            if (each.inFlight < streams && each != other) {
                each.inFlight++;
                return each;
            }
        }
        if (other == null || other.inFlight >= streams) {
            throw new IllegalStateException("a free place without a free stream");
        }
        other.inFlight++;
        return other;
    }

    private void append(Waiter own) {
        own.isQueued = true;
        own.previous = newest;
        if (newest == null) {
            first = own;
        } else {
            newest.next = own;
        }
        newest = own;
        queued++;
    }

    private void remove(Waiter own) {
        if (own.previous == null) {
            first = own.next;
        } else {
            own.previous.next = own.next;
        }
        if (own.next == null) {
            newest = own.previous;
        } else {
            own.next.previous = own.previous;
        }
        own.isQueued = false;
        own.next = null;
        own.previous = null;
        queued--;
    }
}
