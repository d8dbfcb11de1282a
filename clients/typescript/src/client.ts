/** The client. */

import {
  listOf,
  milliseconds,
  orderOf,
  pairsOf,
  unsigned32,
  whole,
  whole32,
  whole64,
  type OrderOption,
  type Pairs,
  type StoreOptions,
} from "./arguments.js";
import * as c from "./calls.js";
import { Configurations, type Configuration } from "./configuration.js";
import { CredentialProvider } from "./credentials.js";
import { Engine, type CallOptions, type Scope } from "./engine.js";
import type { CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import { Graph, storeStats } from "./graph.js";
import type { GraphStoreStatsResult } from "./graphs.js";
import { Leaderboard } from "./leaderboards.js";
import { Leases } from "./leases.js";
import type { Metrics } from "./metrics.js";
import { NearCache, type NearCacheOptions, type NearCacheResult } from "./near.js";
import { Records } from "./records.js";
import type * as r from "./results.js";
import { metadataOf, targetOf } from "./target.js";
import { Tokens } from "./tokens.js";
import { Topics } from "./topics.js";
import type { Bytes, Integer } from "./wire.js";

/** Options of a client. */
export interface ClientOptions {
  /** `HOST:PORT` of `gannet serve --grpc`. */
  readonly address: string;
  /** The token of the calls; without it, none. */
  readonly credentials?: CredentialProvider | undefined;
  /** A preset of `Configurations`, or one's own; without it, the latest `Laptop`. */
  readonly configuration?: Configuration | undefined;
  /** The time to live of items whose call names none; 1 hour without it. */
  readonly defaultTtlSeconds?: number | undefined;
  /** The cache that all calls of this object use; `default` without it. */
  readonly cache?: string | undefined;
  /** Turns TLS on or off; without it, TLS is on unless the address is local. */
  readonly tls?: boolean | undefined;
  /** A PEM file with the CA of the server's certificate; without it, those of Node. */
  readonly caFile?: string | undefined;
}

/** Options of calls that change a collection. */
export interface CollectionOptions extends StoreOptions {
  /**
   * A change that creates the collection always sets its time to live. If this is true (the default), the other changes
   * set it too, so that the collection lives as long as it is written to.
   */
  readonly refreshTtl?: boolean | undefined;
}

/** Options of calls that add to a list. */
export interface ListPushOptions extends CollectionOptions {
  /** Maximum length of the list, above which it is cut at the other end; without it, or with 0, there is none. */
  readonly lengthMax?: number | undefined;
}

/** The part of a list or sorted set from index `first` to before `end`. A negative index counts from the end. */
export interface IndexRange {
  readonly first?: number | undefined;
  readonly end?: number | undefined;
}

/** The elements of a sorted set with scores from `least` to `greatest`. */
export interface ScoreRange {
  readonly least?: number | undefined;
  readonly greatest?: number | undefined;
  /** True to leave out elements whose score is `least`. */
  readonly leastExclusive?: boolean | undefined;
  /** True to leave out elements whose score is `greatest`. */
  readonly greatestExclusive?: boolean | undefined;
  /** Number of elements that are passed over. */
  readonly offset?: number | undefined;
  /** Maximum number of elements; all of them without it, or with 0. */
  readonly count?: number | undefined;
}

/** Returns the fields of a range; undefined stands for the start or the end. */
function rangeOf({ first, end }: IndexRange): m.SortedSetFetchRequestByIndex {
  return {
    ...(first === undefined ? { unboundedStart: {} } : { first: whole32("first", first) }),
    ...(end === undefined ? { unboundedEnd: {} } : { end: whole32("end", end) }),
  };
}

function counted(key: Bytes, count: number): Buffer {
  return m.encodeCountRequest({ key, count: whole("count", count, 0, Number.MAX_SAFE_INTEGER) });
}

/**
 * Calls on one cache of one server.
 *
 * Keys, values, fields and elements are strings (stored as UTF-8) or Uint8Arrays. Every call resolves to a result, and
 * rejects only if an argument has a wrong type or range (TypeError, RangeError), or if middleware or a retry strategy
 * of the user throws. A string with a lone surrogate is out of range, because UTF-8 does not express it.
 */
export class CacheClient {
  /** Topics: messages to all subscribers of a name. */
  readonly topics: Topics;
  /** Leases: one client computes a value that several miss. */
  readonly leases: Leases;
  /** Records: named bins with types. */
  readonly records: Records;
  /** Signed tokens. They belong to the server, and not to the cache. */
  readonly tokens: Tokens;

  private constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
    private readonly cachesScope: Scope,
    private readonly defaultTtlMs: number,
  ) {
    this.topics = new Topics(engine, scope);
    this.leases = new Leases(engine, scope, defaultTtlMs);
    this.records = new Records(engine, scope);
    this.tokens = new Tokens(engine, cachesScope);
  }

  /**
   * Creates a client. If its configuration connects eagerly, the promise waits for the connections, at most
   * `connectTimeoutMs`. A server that is not there is no error: calls report it, and the client connects later.
   *
   * Rejects with RangeError if an option is out of range, and with an error of the file system if `caFile` cannot be
   * read.
   */
  static async create(options: ClientOptions): Promise<CacheClient> {
    const { address, tls, caFile, cache = "default", defaultTtlSeconds = 3600 } = options;
    const configuration = options.configuration ?? Configurations.Laptop.latest();
    const ttlMs = milliseconds(defaultTtlSeconds);
    if (ttlMs < 1) {
      throw new RangeError(`cannot use defaultTtlSeconds ${defaultTtlSeconds}: it is below 1 ms; give at least 0.001`);
    }
    const { eagerConnect, connectTimeoutMs } = configuration.settings;
    const credentials = options.credentials ?? CredentialProvider.none();
    const target = targetOf(address, tls, caFile, credentials, connectTimeoutMs);
    const scope = { cache, metadata: metadataOf(target, cache) };
    const cachesScope = { cache: "", metadata: metadataOf(target, "") };
    const engine = new Engine(target, configuration);
    if (eagerConnect) await engine.connect(connectTimeoutMs, true);
    return new CacheClient(engine, scope, cachesScope, ttlMs);
  }

  // The client itself.

  /** Returns the object as a log shows it, without the token. */
  toJSON(): { address: string; cache: string } {
    return { address: this.engine.target.address, cache: this.scope.cache };
  }

  /** @internal */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `CacheClient ${JSON.stringify(this)}`;
  }

  /** Returns an object whose calls use another cache, on the same connections and within the same limits. */
  withCache(cache: string): CacheClient {
    const scope = { cache, metadata: metadataOf(this.engine.target, cache) };
    return new CacheClient(this.engine, scope, this.cachesScope, this.defaultTtlMs);
  }

  /** Returns the leaderboard with this name, which its first elements create. */
  leaderboard(name: string): Leaderboard {
    return new Leaderboard(this.engine, this.scope, name);
  }

  /** Returns the graph with this name, which its first edge type creates. Throws RangeError if the name is empty. */
  graph(name: string): Graph {
    return new Graph(this.engine, this.scope, name);
  }

  /** Returns the figures of all graphs together, and their names. It needs the right to all graphs. */
  async graphStoreStats(options?: CallOptions): Promise<GraphStoreStatsResult> {
    return storeStats(this.engine, this.scope, options);
  }

  /**
   * Creates a cache of values in this process, which the server keeps up to date.
   *
   * Resolves when the server has begun to report changes, or at the deadline: then all reads go to the server until it
   * does. Resolves to an error if the server refuses to report them. Close the object when it is no longer needed.
   */
  nearCache(options: NearCacheOptions = {}): Promise<NearCacheResult> {
    return NearCache.create(this, this.engine, this.scope, options);
  }

  /** Opens all connections, and resolves to whether they are open before the time has passed. */
  connect(timeoutMs: number): Promise<boolean> {
    return this.engine.connect(timeoutMs, false);
  }

  /** Ends all calls with the error CANCELLED, and closes the connections. */
  close(): void {
    this.engine.close();
  }

  /** Returns a snapshot of the metrics. Those by method need `Configuration.withMetrics`. */
  metrics(): Metrics {
    return this.engine.metrics();
  }

  private call<R>(call: c.Call<R>, request: Buffer, options?: CallOptions, replies = 1): Promise<R | CacheError> {
    return this.engine.call(call, request, this.scope, options, replies);
  }

  private callCaches<R>(call: c.Call<R>, request: Buffer, options?: CallOptions): Promise<R | CacheError> {
    return this.engine.call(call, request, this.cachesScope, options);
  }

  private ttlMs(options: StoreOptions | undefined): number {
    const seconds = options?.ttlSeconds;
    return seconds === undefined ? this.defaultTtlMs : milliseconds(seconds);
  }

  private collectionTtl(options: CollectionOptions | undefined): { ttlMs: number; refreshTtl: boolean } {
    return { ttlMs: this.ttlMs(options), refreshTtl: options?.refreshTtl ?? true };
  }

  // Items.

  /** Returns the value of a key. */
  async get(key: Bytes, options?: CallOptions): Promise<r.GetResult> {
    return this.call(c.GET, m.encodeGetRequest({ key }), options);
  }

  /** Stores a value. */
  async set(key: Bytes, value: Bytes, options?: StoreOptions): Promise<r.DoneResult> {
    return this.call(c.SET, m.encodeSetRequest({ key, value, ttlMs: this.ttlMs(options) }), options);
  }

  /** Returns the values of several keys in one request. Its place in flight is one. */
  async getBatch(keys: Iterable<Bytes>, options?: CallOptions): Promise<r.GetBatchResult> {
    const items = listOf(keys).map((key) => ({ key }));
    return this.call(c.GET_BATCH, m.encodeGetBatchRequest({ items }), options, items.length);
  }

  /** Stores several values in one request. Its place in flight is one. */
  async setBatch(pairs: Pairs<Bytes>, options?: StoreOptions): Promise<r.DoneResult> {
    const ttlMs = this.ttlMs(options);
    const items = pairsOf(pairs).map(([key, value]) => ({ key, value, ttlMs }));
    return this.call(c.SET_BATCH, m.encodeSetBatchRequest({ items }), options, items.length);
  }

  /** Deletes an item of any type. A key that does not exist is no error. */
  async delete(key: Bytes, options?: CallOptions): Promise<r.DoneResult> {
    return this.call(c.DELETE, m.encodeKeyRequest({ key }), options);
  }

  /** Returns which of the keys exist. */
  async keysExist(keys: Iterable<Bytes>, options?: CallOptions): Promise<r.KeysExistResult> {
    return this.call(c.KEYS_EXIST, m.encodeKeysExistRequest({ keys: listOf(keys) }), options);
  }

  /** Adds to a decimal number, and returns the sum. A key that does not exist counts as 0. */
  async increment(key: Bytes, amount: Integer = 1, options?: StoreOptions): Promise<r.IncrementResult> {
    const request = { key, amount: whole64("amount", amount), ttlMs: this.ttlMs(options) };
    return this.call(c.INCREMENT, m.encodeIncrementRequest(request), options);
  }

  /** Returns the time to live of an item. */
  async getTtl(key: Bytes, options?: CallOptions): Promise<r.TtlResult> {
    return this.call(c.GET_TTL, m.encodeKeyRequest({ key }), options);
  }

  /** Returns the type of an item. */
  async getType(key: Bytes, options?: CallOptions): Promise<r.TypeResult> {
    return this.call(c.GET_TYPE, m.encodeKeyRequest({ key }), options);
  }

  /** Sets the time to live of an item. */
  async updateTtl(key: Bytes, ttlSeconds: number, options?: CallOptions): Promise<r.UpdateTtlResult> {
    const request = { key, overwriteToMs: milliseconds(ttlSeconds) };
    return this.call(c.UPDATE_TTL, m.encodeUpdateTtlRequest(request), options);
  }

  /** Sets the time to live of an item if it is below `ttlSeconds`; NotStored otherwise. */
  async increaseTtl(key: Bytes, ttlSeconds: number, options?: CallOptions): Promise<r.UpdateTtlResult> {
    const request = { key, increaseToMs: milliseconds(ttlSeconds) };
    return this.call(c.UPDATE_TTL, m.encodeUpdateTtlRequest(request), options);
  }

  /** Sets the time to live of an item if it is above `ttlSeconds`; NotStored otherwise. */
  async decreaseTtl(key: Bytes, ttlSeconds: number, options?: CallOptions): Promise<r.UpdateTtlResult> {
    const request = { key, decreaseToMs: milliseconds(ttlSeconds) };
    return this.call(c.UPDATE_TTL, m.encodeUpdateTtlRequest(request), options);
  }

  // Conditional sets.

  private setIf(
    key: Bytes,
    value: Bytes,
    condition: Omit<m.SetIfRequest, "key" | "value" | "ttlMs">,
    options: StoreOptions | undefined,
  ): Promise<r.ConditionalSetResult> {
    const request = m.encodeSetIfRequest({ key, value, ttlMs: this.ttlMs(options), ...condition });
    return this.call(c.SET_IF, request, options);
  }

  /** Stores a value if the key does not exist. */
  async setIfAbsent(key: Bytes, value: Bytes, options?: StoreOptions): Promise<r.ConditionalSetResult> {
    return this.setIf(key, value, { absent: {} }, options);
  }

  /** Stores a value if the key exists. */
  async setIfPresent(key: Bytes, value: Bytes, options?: StoreOptions): Promise<r.ConditionalSetResult> {
    return this.setIf(key, value, { present: {} }, options);
  }

  /** Stores a value if the present one is `equal`. */
  async setIfEqual(
    key: Bytes,
    value: Bytes,
    equal: Bytes,
    options?: StoreOptions,
  ): Promise<r.ConditionalSetResult> {
    return this.setIf(key, value, { equal: { value: equal } }, options);
  }

  /** Stores a value if the present one is not `notEqual`, or the key does not exist. */
  async setIfNotEqual(
    key: Bytes,
    value: Bytes,
    notEqual: Bytes,
    options?: StoreOptions,
  ): Promise<r.ConditionalSetResult> {
    return this.setIf(key, value, { notEqual: { value: notEqual } }, options);
  }

  /** Stores a value if the key does not exist, or the present value is `equal`. */
  async setIfAbsentOrEqual(
    key: Bytes,
    value: Bytes,
    equal: Bytes,
    options?: StoreOptions,
  ): Promise<r.ConditionalSetResult> {
    return this.setIf(key, value, { absentOrEqual: { value: equal } }, options);
  }

  /** Stores a value if the key exists, and the present value is not `notEqual`. */
  async setIfPresentAndNotEqual(
    key: Bytes,
    value: Bytes,
    notEqual: Bytes,
    options?: StoreOptions,
  ): Promise<r.ConditionalSetResult> {
    return this.setIf(key, value, { presentAndNotEqual: { value: notEqual } }, options);
  }

  // Conditional sets by hash.

  /** Returns the value of a key and its hash, for a later conditional set. */
  async getWithHash(key: Bytes, options?: CallOptions): Promise<r.GetWithHashResult> {
    return this.call(c.GET_WITH_HASH, m.encodeKeyRequest({ key }), options);
  }

  private setIfHash(
    key: Bytes,
    value: Bytes,
    condition: Omit<m.SetIfHashRequest, "key" | "value" | "ttlMs">,
    options: StoreOptions | undefined,
  ): Promise<r.HashSetResult> {
    const request = m.encodeSetIfHashRequest({ key, value, ttlMs: this.ttlMs(options), ...condition });
    return this.call(c.SET_IF_HASH, request, options);
  }

  /** Stores a value and returns its hash. */
  async setWithHash(key: Bytes, value: Bytes, options?: StoreOptions): Promise<r.HashSetResult> {
    return this.setIfHash(key, value, { unconditional: {} }, options);
  }

  /** Stores a value if the key exists, and the hash of the present value is `hashEqual`. */
  async setIfPresentAndHashEqual(
    key: Bytes,
    value: Bytes,
    hashEqual: Uint8Array,
    options?: StoreOptions,
  ): Promise<r.HashSetResult> {
    return this.setIfHash(key, value, { presentAndHashEqual: { hash: hashEqual } }, options);
  }

  /** Stores a value if the key exists, and the hash of the present value is not `hashNotEqual`. */
  async setIfPresentAndHashNotEqual(
    key: Bytes,
    value: Bytes,
    hashNotEqual: Uint8Array,
    options?: StoreOptions,
  ): Promise<r.HashSetResult> {
    return this.setIfHash(key, value, { presentAndNotHashEqual: { hash: hashNotEqual } }, options);
  }

  /** Stores a value if the key does not exist, or the hash of the present value is `hashEqual`. */
  async setIfAbsentOrHashEqual(
    key: Bytes,
    value: Bytes,
    hashEqual: Uint8Array,
    options?: StoreOptions,
  ): Promise<r.HashSetResult> {
    return this.setIfHash(key, value, { absentOrHashEqual: { hash: hashEqual } }, options);
  }

  /** Stores a value if the key does not exist, or the hash of the present value is not `hashNotEqual`. */
  async setIfAbsentOrHashNotEqual(
    key: Bytes,
    value: Bytes,
    hashNotEqual: Uint8Array,
    options?: StoreOptions,
  ): Promise<r.HashSetResult> {
    return this.setIfHash(key, value, { absentOrNotHashEqual: { hash: hashNotEqual } }, options);
  }

  // Dictionaries.

  /** Returns the value of one field. */
  async dictionaryGetField(key: Bytes, field: Bytes, options?: CallOptions): Promise<r.GetResult> {
    return this.call(c.DICTIONARY_GET_ONE, m.encodeFieldsRequest({ key, fields: [field] }), options);
  }

  /** Returns the values of several fields, in their order. */
  async dictionaryGetFields(
    key: Bytes,
    fields: Iterable<Bytes>,
    options?: CallOptions,
  ): Promise<r.DictionaryFieldsResult> {
    return this.call(c.DICTIONARY_GET, m.encodeFieldsRequest({ key, fields: listOf(fields) }), options);
  }

  /** Returns all fields with their values. */
  async dictionaryFetch(key: Bytes, options?: CallOptions): Promise<r.DictionaryResult> {
    return this.call(c.DICTIONARY_FETCH, m.encodeKeyRequest({ key }), options);
  }

  /** Sets one field. */
  async dictionarySetField(
    key: Bytes,
    field: Bytes,
    value: Bytes,
    options?: CollectionOptions,
  ): Promise<r.DoneResult> {
    return this.dictionarySetFields(key, [[field, value]], options);
  }

  /** Sets several fields. */
  async dictionarySetFields(key: Bytes, fields: Pairs<Bytes>, options?: CollectionOptions): Promise<r.DoneResult> {
    const items = pairsOf(fields).map(([field, value]) => ({ field, value }));
    const request = m.encodeDictionarySetRequest({ key, items, ...this.collectionTtl(options) });
    return this.call(c.DICTIONARY_SET, request, options);
  }

  /** Adds to the decimal number in a field, and returns the sum. A field that does not exist counts as 0. */
  async dictionaryIncrement(
    key: Bytes,
    field: Bytes,
    amount: Integer = 1,
    options?: CollectionOptions,
  ): Promise<r.IncrementResult> {
    const request = { key, field, amount: whole64("amount", amount), ...this.collectionTtl(options) };
    return this.call(c.DICTIONARY_INCREMENT, m.encodeDictionaryIncrementRequest(request), options);
  }

  /** Removes several fields. A field that does not exist is no error. */
  async dictionaryRemoveFields(key: Bytes, fields: Iterable<Bytes>, options?: CallOptions): Promise<r.DoneResult> {
    const request = m.encodeDictionaryDeleteRequest({ key, some: { fields: listOf(fields) } });
    return this.call(c.DICTIONARY_DELETE, request, options);
  }

  /** Removes all fields, and with them the dictionary. An item of another type is an error. */
  async dictionaryDelete(key: Bytes, options?: CallOptions): Promise<r.DoneResult> {
    return this.call(c.DICTIONARY_DELETE, m.encodeDictionaryDeleteRequest({ key, all: {} }), options);
  }

  /** Returns the number of fields. */
  async dictionaryLength(key: Bytes, options?: CallOptions): Promise<r.LengthResult> {
    return this.call(c.DICTIONARY_LENGTH, m.encodeKeyRequest({ key }), options);
  }

  // Sets.

  /** Returns all elements. */
  async setFetch(key: Bytes, options?: CallOptions): Promise<r.SetResult> {
    return this.call(c.SET_FETCH, m.encodeKeyRequest({ key }), options);
  }

  /** Returns at most `count` random elements. */
  async setSample(key: Bytes, count: number, options?: CallOptions): Promise<r.SetResult> {
    return this.call(c.SET_SAMPLE, counted(key, count), options);
  }

  /** Adds elements. */
  async setAddElements(key: Bytes, elements: Iterable<Bytes>, options?: CollectionOptions): Promise<r.DoneResult> {
    const request = { key, elements: listOf(elements), ...this.collectionTtl(options) };
    return this.call(c.SET_UNION, m.encodeSetUnionRequest(request), options);
  }

  /** Removes elements. An element that does not exist is no error; Miss if the set does not exist. */
  async setRemoveElements(key: Bytes, elements: Iterable<Bytes>, options?: CallOptions): Promise<r.FoundResult> {
    const subtrahend = { elements: { elements: listOf(elements) } };
    return this.call(c.SET_REMOVE, m.encodeSetDifferenceRequest({ key, subtrahend }), options);
  }

  /** Removes all elements, and with them the set. An item of another type is an error. */
  async setDelete(key: Bytes, options?: CallOptions): Promise<r.FoundResult> {
    return this.call(c.SET_REMOVE, m.encodeSetDifferenceRequest({ key, subtrahend: { all: {} } }), options);
  }

  /** Replaces the set by the elements of `minuend` that it does not contain. */
  async setSubtractFrom(key: Bytes, minuend: Iterable<Bytes>, options?: CallOptions): Promise<r.FoundResult> {
    const request = m.encodeSetDifferenceRequest({ key, minuend: { elements: listOf(minuend) } });
    return this.call(c.SET_SUBTRACT_FROM, request, options);
  }

  /** Returns which of the elements the set contains, in their order. */
  async setContains(key: Bytes, elements: Iterable<Bytes>, options?: CallOptions): Promise<r.ContainsResult> {
    return this.call(c.SET_CONTAINS, m.encodeFieldsRequest({ key, fields: listOf(elements) }), options);
  }

  /** Returns the number of elements. */
  async setLength(key: Bytes, options?: CallOptions): Promise<r.LengthResult> {
    return this.call(c.SET_LENGTH, m.encodeKeyRequest({ key }), options);
  }

  /** Removes at most `count` random elements, and returns them. */
  async setPop(key: Bytes, count = 1, options?: CallOptions): Promise<r.SetResult> {
    return this.call(c.SET_POP, counted(key, count), options);
  }

  // Lists.

  private pushed(key: Bytes, value: Bytes, options: ListPushOptions | undefined): Buffer {
    const lengthMax = unsigned32("lengthMax", options?.lengthMax ?? 0);
    return m.encodeListPushRequest({ key, value, ...this.collectionTtl(options), lengthMax });
  }

  /** Adds an element at the front, and returns the length. A list above `lengthMax` is cut at the back. */
  async listPushFront(key: Bytes, value: Bytes, options?: ListPushOptions): Promise<r.LengthAfterResult> {
    return this.call(c.LIST_PUSH_FRONT, this.pushed(key, value, options), options);
  }

  /** Adds an element at the back, and returns the length. A list above `lengthMax` is cut at the front. */
  async listPushBack(key: Bytes, value: Bytes, options?: ListPushOptions): Promise<r.LengthAfterResult> {
    return this.call(c.LIST_PUSH_BACK, this.pushed(key, value, options), options);
  }

  private concatenated(key: Bytes, elements: Iterable<Bytes>, options: ListPushOptions | undefined): Buffer {
    const lengthMax = unsigned32("lengthMax", options?.lengthMax ?? 0);
    const values = listOf(elements);
    return m.encodeListConcatenateRequest({ key, values, ...this.collectionTtl(options), lengthMax });
  }

  /** Adds elements at the front, in their order. A list above `lengthMax` is cut at the back. */
  async listConcatenateFront(
    key: Bytes,
    values: Iterable<Bytes>,
    options?: ListPushOptions,
  ): Promise<r.LengthAfterResult> {
    return this.call(c.LIST_CONCATENATE_FRONT, this.concatenated(key, values, options), options);
  }

  /** Adds elements at the back, in their order. A list above `lengthMax` is cut at the front. */
  async listConcatenateBack(
    key: Bytes,
    values: Iterable<Bytes>,
    options?: ListPushOptions,
  ): Promise<r.LengthAfterResult> {
    return this.call(c.LIST_CONCATENATE_BACK, this.concatenated(key, values, options), options);
  }

  /** Removes the first element and returns it. */
  async listPopFront(key: Bytes, options?: CallOptions): Promise<r.PopResult> {
    return this.call(c.LIST_POP_FRONT, m.encodeKeyRequest({ key }), options);
  }

  /** Removes the last element and returns it. */
  async listPopBack(key: Bytes, options?: CallOptions): Promise<r.PopResult> {
    return this.call(c.LIST_POP_BACK, m.encodeKeyRequest({ key }), options);
  }

  /** Removes all elements that are equal to `value`, and returns the length of the rest. */
  async listRemoveValue(key: Bytes, value: Bytes, options?: CallOptions): Promise<r.LengthResult> {
    return this.call(c.LIST_REMOVE, m.encodeListRemoveRequest({ key, value }), options);
  }

  /** Returns the elements of a range; all of them without one. */
  async listFetch(key: Bytes, range: IndexRange = {}, options?: CallOptions): Promise<r.ListResult> {
    return this.call(c.LIST_FETCH, m.encodeListFetchRequest({ key, ...rangeOf(range) }), options);
  }

  /** Removes all elements outside of a range, and returns the length of the rest. */
  async listRetain(key: Bytes, range: IndexRange, options?: CollectionOptions): Promise<r.LengthResult> {
    const request = { key, ...rangeOf(range), ...this.collectionTtl(options) };
    return this.call(c.LIST_RETAIN, m.encodeListRetainRequest(request), options);
  }

  /** Returns the number of elements. */
  async listLength(key: Bytes, options?: CallOptions): Promise<r.LengthResult> {
    return this.call(c.LIST_LENGTH, m.encodeKeyRequest({ key }), options);
  }

  // Sorted sets.

  /** Adds elements with their scores, or sets the scores of present ones. */
  async sortedSetPutElements(
    key: Bytes,
    elements: Pairs<number>,
    options?: CollectionOptions,
  ): Promise<r.DoneResult> {
    const scored = pairsOf(elements).map(([value, score]) => ({ value, score }));
    const request = { key, elements: scored, ...this.collectionTtl(options) };
    return this.call(c.SORTED_SET_PUT, m.encodeSortedSetPutRequest(request), options);
  }

  /** Returns the elements of a range of ranks, with their scores; all of them without one. */
  async sortedSetFetchByIndex(
    key: Bytes,
    range: IndexRange & OrderOption = {},
    options?: CallOptions,
  ): Promise<r.SortedSetResult> {
    const request = { key, order: orderOf(range), withScores: true, byIndex: rangeOf(range) };
    return this.call(c.SORTED_SET_FETCH, m.encodeSortedSetFetchRequest(request), options);
  }

  /** Returns the elements of a range of scores, with their scores. */
  async sortedSetFetchByScore(
    key: Bytes,
    range: ScoreRange & OrderOption = {},
    options?: CallOptions,
  ): Promise<r.SortedSetResult> {
    const { least, greatest, leastExclusive = false, greatestExclusive = false, offset = 0, count = -1 } = range;
    const byScore = {
      ...(least === undefined ? { unboundedLeast: {} } : { from: { score: least, exclusive: leastExclusive } }),
      ...(greatest === undefined
        ? { unboundedGreatest: {} }
        : { to: { score: greatest, exclusive: greatestExclusive } }),
      offset: unsigned32("offset", offset),
      count: whole32("count", count),
    };
    const request = { key, order: orderOf(range), withScores: true, byScore };
    return this.call(c.SORTED_SET_FETCH, m.encodeSortedSetFetchRequest(request), options);
  }

  /** Returns the score of one element. */
  async sortedSetGetScore(key: Bytes, element: Bytes, options?: CallOptions): Promise<r.ScoreResult> {
    return this.call(c.SORTED_SET_GET_ONE_SCORE, m.encodeFieldsRequest({ key, fields: [element] }), options);
  }

  /** Returns the scores of several elements, in their order. */
  async sortedSetGetScores(key: Bytes, elements: Iterable<Bytes>, options?: CallOptions): Promise<r.ScoresResult> {
    return this.call(c.SORTED_SET_GET_SCORE, m.encodeFieldsRequest({ key, fields: listOf(elements) }), options);
  }

  /** Removes elements. An element that does not exist is no error. */
  async sortedSetRemoveElements(
    key: Bytes,
    elements: Iterable<Bytes>,
    options?: CallOptions,
  ): Promise<r.DoneResult> {
    const request = m.encodeSortedSetRemoveRequest({ key, some: { values: listOf(elements) } });
    return this.call(c.SORTED_SET_REMOVE, request, options);
  }

  /** Removes all elements, and with them the sorted set. An item of another type is an error. */
  async sortedSetDelete(key: Bytes, options?: CallOptions): Promise<r.DoneResult> {
    return this.call(c.SORTED_SET_REMOVE, m.encodeSortedSetRemoveRequest({ key, all: {} }), options);
  }

  /** Adds to the score of an element, and returns the sum. An element that does not exist has score 0. */
  async sortedSetIncrement(
    key: Bytes,
    element: Bytes,
    amount = 1,
    options?: CollectionOptions,
  ): Promise<r.ScoreAfterResult> {
    const request = { key, value: element, amount, ...this.collectionTtl(options) };
    return this.call(c.SORTED_SET_INCREMENT, m.encodeSortedSetIncrementRequest(request), options);
  }

  /** Returns the rank of an element; the first one has rank 0. */
  async sortedSetGetRank(
    key: Bytes,
    element: Bytes,
    order: OrderOption = {},
    options?: CallOptions,
  ): Promise<r.RankResult> {
    const request = m.encodeSortedSetGetRankRequest({ key, value: element, order: orderOf(order) });
    return this.call(c.SORTED_SET_GET_RANK, request, options);
  }

  /** Returns the number of elements. */
  async sortedSetLength(key: Bytes, options?: CallOptions): Promise<r.LengthResult> {
    return this.call(c.SORTED_SET_LENGTH, m.encodeKeyRequest({ key }), options);
  }

  // Caches.

  /** Creates a cache. The error ALREADY_EXISTS shows that it exists. */
  async createCache(name: string, options?: CallOptions): Promise<r.DoneResult> {
    return this.callCaches(c.CREATE_CACHE, m.encodeCacheName({ name }), options);
  }

  /** Deletes a cache and its items. */
  async deleteCache(name: string, options?: CallOptions): Promise<r.DoneResult> {
    return this.callCaches(c.DELETE_CACHE, m.encodeCacheName({ name }), options);
  }

  /** Returns the names of all caches. */
  async listCaches(options?: CallOptions): Promise<r.ListCachesResult> {
    return this.callCaches(c.LIST_CACHES, m.encodeListCachesRequest({}), options);
  }

  /** Deletes all items of a cache. */
  async flushCache(name: string, options?: CallOptions): Promise<r.DoneResult> {
    return this.callCaches(c.FLUSH_CACHE, m.encodeCacheName({ name }), options);
  }
}
