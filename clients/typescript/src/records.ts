/** Records: named bins with types, revisions, filters and sets. */

import { listOf, milliseconds, pairsOf, unsigned32, type Pairs } from "./arguments.js";
import { found, MISS, SUCCESS, unary } from "./calls.js";
import type { CallOptions, Engine, Scope } from "./engine.js";
import type { CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import { Opaque } from "./opaque.js";
import type { FoundResult, Miss } from "./results.js";
import { BadReply, type Bytes } from "./wire.js";

/**
 * A value of a bin. Its type in JavaScript decides its type in the record:
 *
 * | JavaScript | record |
 * |---|---|
 * | bigint | INT, of 64 bits |
 * | number | FLOAT, of 64 bits |
 * | boolean | BOOL |
 * | string | STR |
 * | Uint8Array | BYTES |
 * | array | LIST |
 * | Map, object | MAP; a record is read with Maps, whose keys are text |
 */
export type BinValue =
  | bigint
  | number
  | boolean
  | string
  | Uint8Array
  | readonly BinValue[]
  | ReadonlyMap<string, BinValue>
  | { readonly [key: string]: BinValue };

/** A value of a bin as it is read. */
export type BinValueFound =
  | bigint
  | number
  | boolean
  | string
  | Uint8Array
  | BinValueFound[]
  | Map<string, BinValueFound>;

// The server allows 8 levels. The bound of the client only ends the encoding of a value that contains itself.
const LEVELS_MAX = 32;

function encoded(value: BinValue, level = 0): m.BinValue {
  if (level > LEVELS_MAX) {
    const cause = `it has more than ${LEVELS_MAX} levels`;
    throw new RangeError(`cannot encode bin: ${cause}; nest lists and maps in at most 8 levels`);
  }
  switch (typeof value) {
    case "bigint":
      if (BigInt.asIntN(64, value) === value) return { integer: value };
      throw new RangeError(`cannot encode bin: ${value} is out of range; give an integer of 64 bits`);
    case "number":
      return { number: value };
    case "boolean":
      return { boolean: value };
    case "string":
      return { text: value };
  }
  if (value instanceof Uint8Array) return { binary: value };
  if (Array.isArray(value)) return { list: { values: value.map((each: BinValue) => encoded(each, level + 1)) } };
  if (value instanceof Map || (typeof value === "object" && value !== null && isPlain(value))) {
    const pairs = pairsOf(value as Pairs<BinValue>);
    return { map: { entries: pairs.map(([key, each]) => ({ key, value: encoded(each, level + 1) })) } };
  }
  const kind = value === null ? "null" : typeof value;
  throw new TypeError(
    `cannot encode bin: ${kind} is no value of a bin; ` +
      "give a bigint, number, boolean, string, Uint8Array, array, Map or plain object",
  );
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function decoded(value: m.BinValueRead | undefined): BinValueFound {
  const { integer, number, boolean, text, binary, list, map } = value ?? {};
  const of = integer ?? number ?? boolean ?? text ?? binary;
  if (of !== undefined) return of;
  if (list !== undefined) return list.values.map(decoded);
  if (map !== undefined) return new Map(map.entries.map((each) => [each.key.toString("utf8"), decoded(each.value)]));
  throw new BadReply("a bin has no value");
}

const binsOf = (bins: Pairs<BinValue>): m.Bin[] =>
  pairsOf(bins).map(([name, value]) => ({ name, value: encoded(value) }));

/** A record. */
export class RecordHit {
  readonly type = "hit";
  constructor(
    private readonly key: Uint8Array,
    /** The number of changes of the record so far. */
    readonly revision: number,
    /** The instant at which the record expires, or undefined if it never does. */
    readonly expiresAt: Date | undefined,
    /** The values by name. */
    readonly bins: ReadonlyMap<string, BinValueFound>,
  ) {}

  keyBytes(): Uint8Array {
    return this.key;
  }

  /** Returns the key as text (UTF-8). */
  keyString(): string {
    return Buffer.from(this.key).toString("utf8");
  }
}

/** The revision of a record after a change. */
export class RevisionSuccess {
  readonly type = "success";
  constructor(readonly revision: number) {}
}

/** Some records of a set. */
export class RecordPage {
  readonly type = "success";
  constructor(
    readonly records: readonly RecordHit[],
    /** The cursor of the next page, or undefined after the last one. */
    readonly cursor: string | undefined,
  ) {}
}

export type RecordResult = RecordHit | Miss | CacheError;
export type RevisionResult = RevisionSuccess | CacheError;
export type RecordPageResult = RecordPage | CacheError;

/** Options of calls that read records. */
export interface RecordReadOptions extends CallOptions {
  /** The names of the bins that the reply has; all of them without it. */
  readonly bins?: Iterable<Bytes> | undefined;
  /** A filter such as `age >= 30 and not (city == 'Paris')`. A record for which it is false counts as missing. */
  readonly filter?: string | undefined;
}

/** Options of calls that read a page of the records of a set. */
export interface RecordPageOptions extends RecordReadOptions {
  /** The cursor of the page; the first page without it. */
  readonly cursor?: string | undefined;
  /** Maximum number of records in a page, at most 4096; 10 for a scan and 100 for a query without it. */
  readonly countMax?: number | undefined;
}

/** The revision that a record must have. Revision 0 stands for no record. */
export interface RevisionCondition {
  readonly ifRevision?: number | undefined;
  /** The revision must be above this one. */
  readonly ifRevisionAbove?: number | undefined;
}

/** Options of calls that change a record. */
export interface RecordChangeOptions extends CallOptions, RevisionCondition {
  /** The new time to live; without it, that of the record is unchanged, and a new record has none. */
  readonly ttlSeconds?: number | undefined;
  /** True to remove the time to live. */
  readonly persist?: boolean | undefined;
  /** `create`: there must be no record. `update`: there must be one. `replace`: its other bins are removed. */
  readonly when?: "always" | "create" | "update" | "replace" | undefined;
  /** The set of the record, which is fixed when the record is created. */
  readonly set?: string | undefined;
  /** A filter that the record must match, if there is one. */
  readonly filter?: string | undefined;
}

/** The values of a bin that a query finds, both ends included. */
export type BinRange =
  | { readonly equal: BinValue }
  | { readonly least: BinValue; readonly greatest: BinValue };

const CHANGES_ONLY = ["filter", "set", "when", "ttlSeconds", "persist"] as const;
const WHEN = { always: "ALWAYS", create: "CREATE", update: "UPDATE", replace: "REPLACE" } as const;

function recordOf({ key, revision, expiresAtMs, bins }: m.RecordRead): RecordHit {
  const expiresAt = expiresAtMs === 0n ? undefined : new Date(Number(expiresAtMs));
  const named = bins.map(({ name, value }) => [name.toString("utf8"), decoded(value)] as const);
  return new RecordHit(key, revision, expiresAt, new Map(named));
}

const revised = (reply: m.RecordRevisionRead): RevisionSuccess => new RevisionSuccess(reply.revision);
const page = (reply: m.RecordPageRead): RecordPage =>
  new RecordPage(reply.records.map(recordOf), reply.cursor || undefined);

// A repeated change would raise the revision a second time, or fail by its own condition.
const GET = unary("Records", "RecordGet", found(recordOf), true);
const PUT = unary("Records", "RecordPut", revised, false);
const ADD = unary("Records", "RecordAdd", revised, false);
const APPEND = unary("Records", "RecordAppend", revised, false);
const TOUCH = unary("Records", "RecordTouch", revised, false);
const DELETE = unary("Records", "RecordDelete", (reply) => (reply.found ? SUCCESS : (MISS as Miss)), false);
const SCAN = unary("Records", "RecordScan", page, true);
const QUERY = unary("Records", "RecordQuery", page, true);

function conditionOf({ ifRevision, ifRevisionAbove }: RevisionCondition): RevisionCondition {
  return {
    ...(ifRevision !== undefined && { ifRevision: unsigned32("ifRevision", ifRevision) }),
    ...(ifRevisionAbove !== undefined && { ifRevisionAbove: unsigned32("ifRevisionAbove", ifRevisionAbove) }),
  };
}

function changeOf(key: Bytes, bins: Pairs<BinValue>, options: RecordChangeOptions): Buffer {
  const { ttlSeconds, persist = false, when = "always", set = "", filter = "" } = options;
  const ttlMs = ttlSeconds === undefined ? 0 : milliseconds(ttlSeconds);
  if (ttlSeconds !== undefined && ttlMs < 1) {
    throw new RangeError(`cannot use ttlSeconds ${ttlSeconds}: it is below 1 ms; give at least 0.001`);
  }
  if (!Object.hasOwn(WHEN, when)) {
    throw new RangeError(`cannot use when '${when}': it is unknown; give one of ${Object.keys(WHEN).join(", ")}`);
  }
  const request = { key, bins: binsOf(bins), ttlMs, persist, set, filter, ...conditionOf(options) };
  return m.encodeRecordChangeRequest({ ...request, when: m.RecordChangeRequestWhen[WHEN[when]] });
}

function pageOf(set: string, options: RecordPageOptions): m.RecordScanRequest {
  const { cursor = "", countMax = 0, filter = "", bins = [] } = options;
  return { set, cursor, countMax: unsigned32("countMax", countMax), filter, bins: listOf(bins) };
}

/** The records of one cache. */
export class Records extends Opaque {
  /** @internal */
  constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
  ) {
    super();
  }

  /** Returns a record. */
  async get(key: Bytes, options: RecordReadOptions = {}): Promise<RecordResult> {
    const { filter = "", bins = [] } = options;
    const request = m.encodeRecordGetRequest({ key, filter, bins: listOf(bins) });
    const result = await this.engine.call(GET, request, this.scope, options);
    if (result.type !== "hit") return result;
    // The reply to one key does not repeat it.
    const bytes = typeof key === "string" ? Buffer.from(key, "utf8") : Uint8Array.from(key);
    return new RecordHit(bytes, result.revision, result.expiresAt, result.bins);
  }

  /** Sets bins. Other bins stay, unless `when` is `replace`. */
  async put(key: Bytes, bins: Pairs<BinValue>, options: RecordChangeOptions = {}): Promise<RevisionResult> {
    return this.engine.call(PUT, changeOf(key, bins, options), this.scope, options);
  }

  /** Adds to numbers: a bigint to an INT, a number to a FLOAT. A bin that does not exist counts as 0. */
  async add(key: Bytes, bins: Pairs<bigint | number>, options: RecordChangeOptions = {}): Promise<RevisionResult> {
    return this.engine.call(ADD, changeOf(key, bins, options), this.scope, options);
  }

  /** Appends to texts and bytes. A bin that does not exist counts as empty. */
  async append(key: Bytes, bins: Pairs<Bytes>, options: RecordChangeOptions = {}): Promise<RevisionResult> {
    return this.engine.call(APPEND, changeOf(key, bins, options), this.scope, options);
  }

  /** Changes only the time to live and the revision. A record that does not exist is the error NOT_FOUND_RECORD. */
  async touch(key: Bytes, options: Omit<RecordChangeOptions, "when"> = {}): Promise<RevisionResult> {
    return this.engine.call(TOUCH, changeOf(key, [], options), this.scope, options);
  }

  /** Deletes a record. Miss if there is none. */
  async delete(key: Bytes, options: CallOptions & RevisionCondition = {}): Promise<FoundResult> {
    // Without the compiler of TypeScript, a caller may pass the options of a change.
    const other = CHANGES_ONLY.find((name) => name in options);
    if (other !== undefined) {
      const remedy = "read the record, and pass ifRevision";
      throw new RangeError(`cannot use ${other}: a deletion has conditions on the revision only; ${remedy}`);
    }
    const request = m.encodeRecordDeleteRequest({ key, ...conditionOf(options) });
    return this.engine.call(DELETE, request, this.scope, options);
  }

  /** Returns a page of the records of a set. A page may have fewer records than its maximum, or none. */
  async scan(set: string, options: RecordPageOptions = {}): Promise<RecordPageResult> {
    return this.engine.call(SCAN, m.encodeRecordScanRequest(pageOf(set, options)), this.scope, options);
  }

  /** Returns a page of the records of a set whose bin has these values. The bin needs an index (`REC.INDEX CREATE`). */
  async query(set: string, bin: Bytes, range: BinRange, options: RecordPageOptions = {}): Promise<RecordPageResult> {
    const values = Object.fromEntries(Object.entries(range).map(([name, value]) => [name, encoded(value)]));
    const request = m.encodeRecordQueryRequest({ ...pageOf(set, options), bin, ...values });
    return this.engine.call(QUERY, request, this.scope, options);
  }

  /**
   * Yields all records of a set, one page after another. A CacheError is the last value that it yields. A record that
   * changes meanwhile may come twice.
   */
  async *scanAll(
    set: string,
    options: RecordPageOptions = {},
  ): AsyncGenerator<RecordHit | CacheError, void, undefined> {
    yield* this.pages((cursor) => this.scan(set, { ...options, cursor }), options.cursor);
  }

  /** Yields all records that a query finds, as `scanAll` does. */
  async *queryAll(
    set: string,
    bin: Bytes,
    range: BinRange,
    options: RecordPageOptions = {},
  ): AsyncGenerator<RecordHit | CacheError, void, undefined> {
    yield* this.pages((cursor) => this.query(set, bin, range, { ...options, cursor }), options.cursor);
  }

  private async *pages(
    next: (cursor: string | undefined) => Promise<RecordPageResult>,
    first: string | undefined,
  ): AsyncGenerator<RecordHit | CacheError, void, undefined> {
    let cursor = first;
    do {
      const page = await next(cursor);
      if (page.type === "error") return yield page;
      yield* page.records;
      ({ cursor } = page);
    } while (cursor !== undefined);
  }
}
