/**
 * A cache of values in the process of the client: reads of present keys need no request.
 *
 *     get -> copy                                  a hit
 *         -> server -> reply -> copy               a miss; not copied if the key has changed meanwhile
 *     watch -> key has changed -> drop the copy
 *           -> broken, or silent for too long -> drop all copies, and read from the server until it is back
 *
 * Bounds: a copy is at most `stalenessMaxSeconds` behind the server, because the server sends an event at least every
 * 5 s, in the order of the changes. The copies have a maximum number, and a maximum of bytes; the ones that were not
 * read for the longest time are dropped first.
 */

import { listOf } from "./arguments.js";
import { stream, type Call } from "./calls.js";
import type { CacheClient } from "./client.js";
import type { CallOptions, ChangeListener, Engine, Scope } from "./engine.js";
import { CacheError, ErrorCode, errorOfClient } from "./errors.js";
import * as m from "./generated/messages.js";
import { Opaque } from "./opaque.js";
import { GetBatchSuccess, GetHit, type GetBatchResult, type GetResult, type Miss } from "./results.js";
import { EventStream, type EventSource } from "./streams.js";
import { byteLength, Reader, type Bytes } from "./wire.js";

/** Options of a near cache. */
export interface NearCacheOptions extends CallOptions {
  /** Maximum number of copies; 10,000 without it. */
  readonly entriesMax?: number | undefined;
  /** Maximum of memory in bytes for keys, values and 200 bytes for each copy; 64 MiB without it. */
  readonly bytesMax?: number | undefined;
  /** The prefixes of the keys that are copied, at most 256 of at most 256 bytes each; all keys without them. */
  readonly prefixes?: Iterable<Bytes> | undefined;
  /** The longest time without an event of the server, after which all copies are dropped; at least 6, 15 without it. */
  readonly stalenessMaxSeconds?: number | undefined;
}

/** A snapshot of a near cache. Counters are those since it was created. */
export interface NearCacheMetrics {
  /** Number of reads that needed no request. */
  readonly hits: number;
  /** Number of reads that were sent to the server. */
  readonly misses: number;
  /** Number of copies that were dropped because their keys have changed. */
  readonly invalidations: number;
  /** Number of copies that were dropped for the maxima. */
  readonly evictions: number;
  /** Number of times that all copies were dropped: the watch was lost, or the cache was flushed. */
  readonly drops: number;
  /** Number of copies. */
  readonly entries: number;
  /** Memory of the copies in bytes. */
  readonly bytes: number;
  /** True while the server reports changes, so that values are copied. */
  readonly watching: boolean;
}

export type NearCacheResult = NearCache | CacheError;

type WatchEvent = { readonly type: "keys"; readonly keys: readonly Buffer[] } | { readonly type: "all" | "heartbeat" };

const ALL = Object.freeze({ type: "all" } as const);
const HEARTBEAT = Object.freeze({ type: "heartbeat" } as const);

function eventOf({ keys, all }: m.WatchKeysEventRead): WatchEvent {
  if (keys !== undefined) return { type: "keys", keys: keys.keys };
  // An event of a later schema shows that the stream works, as a heartbeat does.
  return all === undefined ? HEARTBEAT : ALL;
}

const WATCH_KEYS = stream("Invalidations", "WatchKeys", eventOf);

/** The tag of the field 1 with bytes, which is the key in all requests that name one. */
const KEY_TAG = (1 << 3) | 2;
const ENTRY_BYTES = 200;
const ENTRIES_MAX = 10_000;
const BYTES_MAX = 64 * 2 ** 20;
const STALENESS_SECONDS = 15;
/** Milliseconds after which a watch that the server has refused or ended begins again. */
const REFUSED_DELAY_MS = 5000;
// One interval of the server's heartbeats, and a second for the way.
const STALENESS_SECONDS_LEAST = 6;

/** A hit of a near cache. The caller may change the bytes that it gets. */
class CopiedHit extends GetHit {
  override valueBytes(): Uint8Array {
    return new Uint8Array(this.value);
  }
}

/** The reads of one key whose replies have not arrived. */
interface Reads {
  count: number;
  /** False once the key has changed: the replies may be older than the change. */
  current: boolean;
}

interface Copy {
  readonly value: Uint8Array;
  readonly bytes: number;
}

/** Returns a key as a string with one character for each byte, so that a text and its bytes are the same key. */
function nameOf(key: Bytes): string {
  if (typeof key !== "string") return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1");
  return byteLength(key) === key.length ? key : Buffer.from(key, "utf8").toString("latin1");
}

function positive(name: keyof NearCacheOptions, value: number, least: number): number {
  if (value >= least && Number.isFinite(value)) return value;
  throw new RangeError(`cannot use ${name} ${value}: it is out of range; give at least ${least}`);
}

/** Returns the keys of a request: its first field, or that of each of its items. */
function keysOf(request: Buffer, isBatch: boolean): Buffer[] {
  const input = new Reader(request);
  const keys: Buffer[] = [];
  while (input.at < input.end && input.varint() === KEY_TAG) {
    const bytes = input.bytes();
    if (!isBatch) return [bytes];
    keys.push(...keysOf(bytes, false));
  }
  return keys;
}

/** The copies, with their maxima. */
class Copies {
  bytes = 0;
  evictions = 0;
  /** The copies; those that were read last are at the end. */
  private readonly byName = new Map<string, Copy>();

  constructor(
    private readonly entriesMax: number,
    private readonly bytesMax: number,
  ) {}

  get entries(): number {
    return this.byName.size;
  }

  get(name: string): Uint8Array | undefined {
    const copy = this.byName.get(name);
    if (copy === undefined) return undefined;
    this.byName.delete(name);
    this.byName.set(name, copy);
    return copy.value;
  }

  set(name: string, value: Uint8Array): void {
    this.delete(name);
    const bytes = name.length + value.length + ENTRY_BYTES;
    if (bytes > this.bytesMax) return;
    // The value of a reply shares the memory of the whole reply.
    this.byName.set(name, { value: new Uint8Array(value), bytes });
    this.bytes += bytes;
    for (const [oldest] of this.byName) {
      if (this.byName.size <= this.entriesMax && this.bytes <= this.bytesMax) return;
      this.delete(oldest);
      this.evictions++;
    }
  }

  /** Removes a copy, and returns whether there was one. */
  delete(name: string): boolean {
    const copy = this.byName.get(name);
    if (copy === undefined) return false;
    this.bytes -= copy.bytes;
    return this.byName.delete(name);
  }

  clear(): void {
    this.byName.clear();
    this.bytes = 0;
  }
}

/** The watch of a near cache, with the copies that it keeps up to date. */
class WatchedCopies implements EventSource<WatchEvent>, ChangeListener {
  readonly call = WATCH_KEYS;
  readonly keepsAlive = false;
  readonly failsAtFirst = false;
  readonly silenceMsMax: number;
  readonly copies: Copies;
  watching = false;
  /** The error because of which the server reports no changes now. */
  failure: CacheError | undefined;
  /** True once the watch has ended. */
  ended = false;
  invalidations = 0;
  drops = 0;
  private readonly prefixes: readonly string[];
  private readonly reads = new Map<string, Reads>();
  private events: EventStream<WatchEvent>;
  /** The next beginning of a watch that the server has refused. */
  private again: NodeJS.Timeout | undefined;
  private closed = false;
  /** The instant of the latest event. */
  private heardAt = 0;

  constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
    private readonly watched: readonly Bytes[],
    options: NearCacheOptions,
  ) {
    const { entriesMax = ENTRIES_MAX, bytesMax = BYTES_MAX, stalenessMaxSeconds = STALENESS_SECONDS } = options;
    this.copies = new Copies(positive("entriesMax", entriesMax, 1), positive("bytesMax", bytesMax, 1));
    this.silenceMsMax = 1000 * positive("stalenessMaxSeconds", stalenessMaxSeconds, STALENESS_SECONDS_LEAST);
    this.prefixes = watched.map(nameOf);
    this.events = new EventStream(engine, this, scope, undefined);
  }

  /**
   * Begins the watch, and calls `begun` after each event, and at the end of the watch. After its first event, a watch
   * that the server refuses begins again after a delay.
   */
  async open(begun: () => void): Promise<void> {
    this.engine.listeners.add(this);
    let hasBegun = false;
    for (;;) {
      this.events.open();
      let event = await this.events.read();
      while (event !== undefined && event.type !== "error") {
        hasBegun = true;
        begun();
        event = await this.events.read();
      }
      if (event === undefined || !hasBegun || this.engine.closed) {
        this.close();
        this.failure = event;
        this.ended = true;
        return begun();
      }
      this.onBreak(event);
      await new Promise<void>((resolve) => (this.again = setTimeout(resolve, REFUSED_DELAY_MS).unref()));
      if (this.closed || this.engine.closed) return this.close();
      this.events = new EventStream(this.engine, this, this.scope, undefined);
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.again);
    this.engine.listeners.delete(this);
    this.events.close();
    this.onBreak(undefined);
  }

  request(): Buffer {
    return m.encodeWatchKeysRequest({ prefixes: this.watched });
  }

  isHeartbeat(event: WatchEvent): boolean {
    return event.type === "heartbeat";
  }

  onArrival(event: WatchEvent): void {
    this.watching = true;
    this.failure = undefined;
    this.heardAt = performance.now();
    if (event.type === "all") this.dropAll();
    if (event.type !== "keys") return;
    for (const key of event.keys) if (this.forget(key.toString("latin1"))) this.invalidations++;
  }

  onBreak(error: CacheError | undefined): void {
    this.failure = error;
    if (this.watching) this.dropAll();
    this.watching = false;
  }

  onChange({ method }: Call<unknown>, request: Buffer): void {
    if (method === "FlushCache" || method === "DeleteCache") return this.dropAll();
    for (const key of keysOf(request, method === "SetBatch")) this.forget(key.toString("latin1"));
  }

  private dropAll(): void {
    this.drops++;
    this.copies.clear();
    for (const each of this.reads.values()) each.current = false;
    this.reads.clear();
  }

  /** Drops the copy of a key, and returns whether there was one. Replies on their way are not copied. */
  private forget(name: string): boolean {
    const reads = this.reads.get(name);
    if (reads !== undefined) {
      reads.current = false;
      this.reads.delete(name);
    }
    return this.copies.delete(name);
  }

  private isCopied(name: string): boolean {
    return this.prefixes.length === 0 || this.prefixes.some((prefix) => name.startsWith(prefix));
  }

  /** Returns the copy of a key, unless the latest event is too old. */
  find(key: Bytes): GetHit | undefined {
    const name = nameOf(key);
    if (!this.watching || performance.now() - this.heardAt > this.silenceMsMax) return undefined;
    const value = this.copies.get(name);
    return value && new CopiedHit(value);
  }

  /** Returns a function that copies the value of a reply to a read that begins now; undefined if it has failed. */
  beginRead(key: Bytes): (result: GetHit | Miss | CacheError | undefined) => void {
    const name = nameOf(key);
    if (!this.watching || !this.isCopied(name)) return () => {};
    let reads = this.reads.get(name);
    if (reads === undefined) this.reads.set(name, (reads = { count: 0, current: true }));
    reads.count++;
    const of = reads;
    return (result) => {
      of.count--;
      if (!of.current) return;
      if (of.count === 0) this.reads.delete(name);
      if (result?.type === "hit") this.copies.set(name, result.valueBytes());
      else this.copies.delete(name);
    };
  }
}

/**
 * A near cache. Its `get` and `getBatch` return copies, or read the server.
 *
 * A read after a change of another client may return the old value until the event of the change has arrived: usually
 * less than a millisecond longer than a request takes, and at most `stalenessMaxSeconds`. A read after a change by the
 * same client has ended returns the new value. An item that expires is returned until the server has removed it and
 * reported that.
 */
export class NearCache extends Opaque {
  readonly type = "near_cache";
  private hits = 0;
  private misses = 0;

  private constructor(
    private readonly client: CacheClient,
    private readonly watch: WatchedCopies,
  ) {
    super();
  }

  /** @internal */
  static async create(
    client: CacheClient,
    engine: Engine,
    scope: Scope,
    options: NearCacheOptions,
  ): Promise<NearCacheResult> {
    const watch = new WatchedCopies(engine, scope, listOf(options.prefixes ?? []), options);
    const { method } = WATCH_KEYS;
    if (engine.closed) {
      return errorOfClient(ErrorCode.CANCELLED, method, "the client is closed", "create a new client");
    }
    const deadlineMs = options.deadlineMs ?? engine.settings.deadlineMs;
    if (!(deadlineMs >= 0)) {
      throw new RangeError(`cannot use deadlineMs ${deadlineMs}: it is out of range; give a number of milliseconds`);
    }
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, Math.min(deadlineMs, 2 ** 31 - 1));
      const abort = (): void => watch.close();
      options.signal?.addEventListener("abort", abort, { once: true });
      void watch.open(() => {
        clearTimeout(late);
        options.signal?.removeEventListener("abort", abort);
        resolve();
      });
      if (options.signal?.aborted) abort();
    });
    if (options.signal?.aborted) return errorOfClient(ErrorCode.CANCELLED, method, "the caller cancelled it");
    return (watch.ended && watch.failure) || new NearCache(client, watch);
  }

  override toJSON(): NearCacheMetrics {
    return this.metrics();
  }

  /** Returns the value of a key: a copy, or that of the server. */
  async get(key: Bytes, options?: CallOptions): Promise<GetResult> {
    const copy = this.watch.find(key);
    if (copy !== undefined) {
      this.hits++;
      return copy;
    }
    this.misses++;
    const end = this.watch.beginRead(key);
    let result: GetResult | undefined;
    try {
      return (result = await this.client.get(key, options));
    } finally {
      end(result);
    }
  }

  /** Returns the values of several keys. Those without a copy are read in one request. */
  async getBatch(keys: Iterable<Bytes>, options?: CallOptions): Promise<GetBatchResult> {
    const all = listOf(keys);
    const results: (GetHit | Miss | undefined)[] = all.map((key) => this.watch.find(key));
    const missing = all.filter((_, at) => results[at] === undefined);
    this.hits += all.length - missing.length;
    this.misses += missing.length;
    let read: readonly (GetHit | Miss)[] = [];
    if (missing.length > 0) {
      const ends = missing.map((key) => this.watch.beginRead(key));
      try {
        const batch = await this.client.getBatch(missing, options);
        if (batch.type === "error") return batch;
        read = batch.results;
      } finally {
        ends.forEach((end, at) => end(read[at]));
      }
    }
    let at = 0;
    return new GetBatchSuccess(results.map((each) => each ?? (read[at++] as GetHit | Miss)));
  }

  /**
   * The error because of which the server reports no changes now, so that all reads go to it; undefined while it does,
   * and after `close`. The watch begins again by itself: after 5 s if the server has refused it.
   */
  get failure(): CacheError | undefined {
    return this.watch.failure;
  }

  /** Returns a snapshot of the metrics. */
  metrics(): NearCacheMetrics {
    const { hits, misses } = this;
    const { invalidations, drops, watching, copies } = this.watch;
    const { evictions, entries, bytes } = copies;
    return { hits, misses, invalidations, evictions, drops, entries, bytes, watching };
  }

  /** Ends the watch and drops all copies. Later reads go to the server. */
  close(): void {
    this.watch.close();
  }
}
