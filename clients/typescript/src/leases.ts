/**
 * Leases: of all clients that miss a value, or find an old one, one computes it again.
 *
 *     get -> hit                        the value is current
 *         -> won  -> set(token, value)  this client computes the value
 *         -> wait                       another client computes it: use the old value, or ask again
 */

import { setTimeout as sleep } from "node:timers/promises";

import { milliseconds, millisecondsOr0, UNSIGNED_64_MAX, whole, type StoreOptions } from "./arguments.js";
import { MISS, NOT_STORED, STORED, SUCCESS, unary } from "./calls.js";
import type { CallOptions, Engine, Scope } from "./engine.js";
import { ErrorCode, errorOfClient, type CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import { Opaque } from "./opaque.js";
import { GetHit, type ConditionalSetResult, type FoundResult, type GetResult, type Miss } from "./results.js";
import { BadReply, type Bytes } from "./wire.js";

/** The old value that a client may use while it is computed again, if there is one. */
class OldValue {
  constructor(private readonly old: Uint8Array | undefined) {}

  /** Returns the old value, or undefined if there is none. */
  oldBytes(): Uint8Array | undefined {
    return this.old;
  }

  /** Returns the old value as text (UTF-8), or undefined if there is none. */
  oldString(): string | undefined {
    return this.old && Buffer.from(this.old).toString("utf8");
  }
}

/** This client computes the value, and passes `token` to `set`. */
export class LeaseWon extends OldValue {
  readonly type = "won";
  constructor(
    readonly token: bigint,
    old: Uint8Array | undefined,
  ) {
    super(old);
  }
}

/** Another client computes the value. */
export class LeaseWait extends OldValue {
  readonly type = "wait";
}

export type LeaseResult = GetHit | LeaseWon | LeaseWait | CacheError;

/** Options of `Leases.get`. */
export interface LeaseOptions extends CallOptions {
  /** A value that expires within this time is computed again by one client; without it, none is before it expires. */
  readonly recacheSeconds?: number | undefined;
  /** The time for which the lease lasts, after which another client gets it; 10 s without it. */
  readonly leaseSeconds?: number | undefined;
}

/** Options of `Leases.getOrFill`. */
export interface FillOptions extends LeaseOptions, StoreOptions {
  /** False to wait for the new value although there is an old one. */
  readonly acceptOld?: boolean | undefined;
}

const { LEASE_HIT, LEASE_WON, LEASE_WAIT } = m.LeaseState;

function leaseOf({ state, value, token }: m.LeaseGetReplyRead): GetHit | LeaseWon | LeaseWait {
  if (state === LEASE_HIT && value !== undefined) return new GetHit(value);
  if (state === LEASE_WON) return new LeaseWon(token, value);
  if (state === LEASE_WAIT) return new LeaseWait(value);
  throw new BadReply(`the state of LeaseGet is ${state}`);
}

// A repeated LeaseGet would wait for the lease that the first one has won, and a repeated LeaseSet finds no lease.
const LEASE_GET = unary("Leases", "LeaseGet", leaseOf, false);
const LEASE_SET = unary("Leases", "LeaseSet", (reply) => (reply.stored ? STORED : NOT_STORED), false);
const LEASE_STALE = unary("Leases", "LeaseStale", (reply) => (reply.found ? SUCCESS : (MISS as Miss)), true);

/** Milliseconds between two questions for a value that another client computes. */
const WAIT_MS_MIN = 5;
const WAIT_MS_MAX = 100;

/** The codes of a call whose deadline has passed. */
const LATE: ReadonlySet<ErrorCode> = new Set([ErrorCode.TIMEOUT, ErrorCode.CLIENT_QUEUE_TIMEOUT]);

function notStoredInTime(): CacheError {
  const cause = "the client that has the lease did not store the value before the deadline";
  return errorOfClient(ErrorCode.TIMEOUT, LEASE_GET.method, cause, "raise the deadline, or lower leaseSeconds");
}

/** The leases of one cache. */
export class Leases extends Opaque {
  /** @internal */
  constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
    private readonly defaultTtlMs: number,
  ) {
    super();
  }

  /** Returns the value, or the lease to compute it, or that another client has the lease. */
  async get(key: Bytes, options: LeaseOptions = {}): Promise<LeaseResult> {
    const { recacheSeconds, leaseSeconds } = options;
    const recacheMs = millisecondsOr0("recacheSeconds", recacheSeconds);
    const request = { key, recacheMs, leaseMs: millisecondsOr0("leaseSeconds", leaseSeconds) };
    return this.engine.call(LEASE_GET, m.encodeLeaseGetRequest(request), this.scope, options);
  }

  /**
   * Stores the value of a lease. If the value was changed or marked stale after the lease was won, the new value is
   * stale too, so that one client computes it again. NotStored if the item was deleted, or the lease has ended.
   */
  async set(key: Bytes, token: bigint, value: Bytes, options?: StoreOptions): Promise<ConditionalSetResult> {
    const seconds = options?.ttlSeconds;
    const ttlMs = seconds === undefined ? this.defaultTtlMs : milliseconds(seconds);
    const request = { key, token: whole("token", token, 0, UNSIGNED_64_MAX), value, ttlMs };
    return this.engine.call(LEASE_SET, m.encodeLeaseSetRequest(request), this.scope, options);
  }

  /**
   * Marks a value stale: clients get it as the old value until one of them has computed it again, for at most
   * `ttlSeconds`, or its own time to live without them. Miss if there is none.
   */
  async markStale(key: Bytes, options?: StoreOptions): Promise<FoundResult> {
    const request = { key, ttlMs: millisecondsOr0("ttlSeconds", options?.ttlSeconds) };
    return this.engine.call(LEASE_STALE, m.encodeLeaseStaleRequest(request), this.scope, options);
  }

  /**
   * Returns the value of a key. If it is missing or old, one of all clients calls `fill` and stores its result; the
   * others get the old value, or wait for the new one, at most until the deadline. It bounds all calls and waits
   * together; the time of `fill` does not count.
   *
   * An exception of `fill` rejects the promise; another client gets the lease when it ends. If the value that `fill`
   * returned cannot be stored, the caller gets it nevertheless.
   */
  async getOrFill(key: Bytes, fill: () => Bytes | Promise<Bytes>, options: FillOptions = {}): Promise<GetResult> {
    const { acceptOld = true, signal } = options;
    const end = performance.now() + (options.deadlineMs ?? this.engine.settings.deadlineMs);
    const remaining = (): FillOptions => ({ ...options, deadlineMs: Math.max(0, end - performance.now()) });
    let current = options;
    for (let waitMs = WAIT_MS_MIN; ; waitMs = Math.min(WAIT_MS_MAX, 2 * waitMs)) {
      const found = await this.get(key, current);
      if (found.type === "hit") return found;
      if (found.type === "error") return current !== options && LATE.has(found.code) ? notStoredInTime() : found;
      if (found.type === "won") {
        current = remaining();
        const value = await fill();
        await this.set(key, found.token, value, current);
        return new GetHit(typeof value === "string" ? Buffer.from(value, "utf8") : value);
      }
      const old = found.oldBytes();
      if (acceptOld && old !== undefined) return new GetHit(old);
      if (performance.now() + waitMs >= end) return notStoredInTime();
      try {
        await sleep(waitMs, undefined, { signal: signal as AbortSignal });
      } catch {
        return errorOfClient(ErrorCode.CANCELLED, LEASE_GET.method, "the caller cancelled it");
      }
      current = remaining();
    }
  }
}
