/** The cap on requests in flight, and its queue. */

/** A request that may wait in the queue. The links belong to the limiter. */
export abstract class Waiter<C> {
  /** @internal */
  previous: Waiter<C> | undefined;
  /** @internal */
  next: Waiter<C> | undefined;
  /** @internal */
  queued = false;

  /**
   * Passes a connection with a free stream to the request. Returns true if the request uses and releases it, and false
   * if the request has ended without it.
   */
  abstract grant(connection: C): boolean;
}

/** A connection as the limiter sees it. */
export interface Streams {
  /** Number of requests in flight on the connection. */
  inFlight: number;
}

/**
 * Bounds the requests in flight. Further ones wait in order of arrival.
 *
 * Invariant: requests wait only while `inFlight` is at its maximum, because a released place passes to the first one.
 * The queue is a doubly linked list, from which a cancelled request is removed in constant time.
 */
export class Limiter<C extends Streams> {
  inFlight = 0;
  queued = 0;
  private first: Waiter<C> | undefined;
  private last: Waiter<C> | undefined;

  constructor(
    private readonly connections: readonly C[],
    private readonly requestsMax: number,
    private readonly queuedMax: number,
    private readonly streams: number,
  ) {}

  /** Returns the first connection with a free stream, which the caller releases, or undefined without a free place. */
  acquire(): C | undefined {
    if (this.inFlight >= this.requestsMax) return undefined;
    for (const connection of this.connections) {
      if (connection.inFlight < this.streams) {
        this.inFlight++;
        connection.inFlight++;
        return connection;
      }
    }
    throw new Error("a free place without a free stream");
  }

  /** Returns a connection as `acquire` does: another one than `other` if another one has a free stream. */
  acquireBeside(other: C): C | undefined {
    if (this.inFlight >= this.requestsMax) return undefined;
    const free = this.connections.filter((each) => each.inFlight < this.streams);
    const connection = free.find((each) => each !== other) ?? free[0];
    if (connection === undefined) return undefined;
    this.inFlight++;
    connection.inFlight++;
    return connection;
  }

  /** Adds a request to the queue, and returns whether there was room. */
  enqueue(waiter: Waiter<C>): boolean {
    if (this.queued >= this.queuedMax) return false;
    waiter.queued = true;
    waiter.previous = this.last;
    if (this.last === undefined) this.first = waiter;
    else this.last.next = waiter;
    this.last = waiter;
    this.queued++;
    return true;
  }

  /** Removes a request from the queue if it waits. */
  remove(waiter: Waiter<C>): void {
    if (!waiter.queued) return;
    if (waiter.previous === undefined) this.first = waiter.next;
    else waiter.previous.next = waiter.next;
    if (waiter.next === undefined) this.last = waiter.previous;
    else waiter.next.previous = waiter.previous;
    waiter.previous = waiter.next = undefined;
    waiter.queued = false;
    this.queued--;
  }

  /** Passes a place to the first waiting request that uses it, or frees it. */
  release(connection: C): void {
    for (let waiter = this.first; waiter !== undefined; waiter = this.first) {
      this.remove(waiter);
      if (waiter.grant(connection)) return;
    }
    this.inFlight--;
    connection.inFlight--;
  }
}
