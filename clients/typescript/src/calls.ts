/**
 * The calls of the schema: their paths, and the results that they make of replies.
 *
 * A call is retried only if its repetition changes nothing. `Increment`, pushes, pops, conditional sets and changes of
 * a time to live are not: the first attempt may have been executed although its reply was lost.
 */

import * as m from "./generated/messages.js";
import * as r from "./results.js";
import { BadReply } from "./wire.js";

type Calls = typeof m.CALLS;
/** A service of the schema. */
export type Service = keyof Calls;
type Method<S extends Service> = keyof Calls[S] & string;
type Reply<S extends Service, N extends Method<S>> = Calls[S][N] extends { decode: (buffer: Buffer) => infer M }
  ? M
  : never;

interface Described<M> {
  readonly path: string;
  readonly decode: (buffer: Buffer) => M;
}

/** One call. `R` is its result unless it fails. */
export interface Call<R> {
  readonly service: Service;
  readonly method: string;
  readonly path: string;
  /** True if the server sends a reply for each item of the request. */
  readonly streams: boolean;
  /** True if the call may be repeated after a failure. */
  readonly idempotent: boolean;
  /** True if a slow request may be sent a second time. */
  readonly hedges: boolean;
  /** Returns the result of all replies: one, unless `streams`. Throws BadReply. */
  parse(replies: readonly Buffer[]): R;
}

/** A call whose stream of events has no end of its own. */
export interface StreamCall<E> {
  readonly service: Service;
  readonly method: string;
  readonly path: string;
  readonly streams: true;
  /** Returns an event of the stream, or undefined for one of a later schema. Throws BadReply. */
  decode(message: Buffer): E | undefined;
}

/** All calls, some of which differ only in their results. */
export const ALL: (Call<unknown> | StreamCall<unknown>)[] = [];

function add<C extends Call<unknown> | StreamCall<unknown>>(call: C): C {
  ALL.push(call);
  return call;
}

function single<M, R>(method: string, decode: (buffer: Buffer) => M, make: (reply: M) => R): Call<R>["parse"] {
  return (replies) => {
    const reply = replies[0];
    if (reply === undefined || replies.length > 1) throw new BadReply(`${replies.length} replies to ${method}`);
    return make(decode(reply));
  };
}

/** Returns the call with one reply, of which `make` makes the result. */
export function unary<S extends Service, N extends Method<S>, R>(
  service: S,
  method: N,
  make: (reply: Reply<S, N>) => R,
  idempotent: boolean,
  hedges = false,
): Call<R> {
  const { path, decode } = m.CALLS[service][method] as Described<Reply<S, N>>;
  return add({ service, method, path, streams: false, idempotent, hedges, parse: single(method, decode, make) });
}

/** Returns the call whose events `make` makes of the messages of its stream. */
export function stream<S extends Service, N extends Method<S>, E>(
  service: S,
  method: N,
  make: (message: Reply<S, N>) => E | undefined,
): StreamCall<E> {
  const { path, decode } = m.CALLS[service][method] as Described<Reply<S, N>>;
  return add({ service, method, path, streams: true, decode: (message) => make(decode(message)) });
}

function ofCache<N extends Method<"Cache">, R>(
  method: N,
  make: (reply: Reply<"Cache", N>) => R,
  idempotent: boolean,
  hedges = false,
): Call<R> {
  return unary("Cache", method, make, idempotent, hedges);
}

function ofCaches<N extends Method<"Caches">, R>(
  method: N,
  make: (reply: Reply<"Caches", N>) => R,
  idempotent: boolean,
): Call<R> {
  return unary("Caches", method, make, idempotent);
}

function ofBatch<R>(method: "GetBatch" | "SetBatch", parse: Call<R>["parse"]): Call<R> {
  const { path } = m.CALLS.Cache[method];
  return add({ service: "Cache", method, path, streams: true, idempotent: true, hedges: false, parse });
}

export const MISS = Object.freeze(new r.Miss());
export const SUCCESS = Object.freeze(new r.Success());
export const STORED = Object.freeze(new r.Stored());
export const NOT_STORED = Object.freeze(new r.NotStored());
const ITEM_TYPES: readonly r.ItemType[] = ["value", "dictionary", "set", "list", "sorted_set"];
// The server's time to live of an item without one.
const NO_TTL_MS = 2n ** 63n - 1n;
const { RESULT_OK, RESULT_HIT, RESULT_MISS } = m.Result;

function get(reply: m.GetReplyRead): r.GetHit | r.Miss {
  if (reply.result === RESULT_HIT) return new r.GetHit(reply.value);
  if (reply.result === RESULT_MISS) return MISS;
  throw new BadReply(`the result of Get is ${reply.result}`);
}

function set(reply: m.SetReplyRead): r.Success {
  if (reply.result === RESULT_OK) return SUCCESS;
  throw new BadReply(`the result of Set is ${reply.result}`);
}

export const done = (): r.Success => SUCCESS;

/** Returns a function that makes a result of the part `found` of a reply, or Miss if it is `missing`. */
export function found<F, R>(make: (found: F) => R): (reply: { found: F | undefined; missing: unknown }) => R | r.Miss {
  return (reply) => {
    if (reply.found !== undefined) return make(reply.found);
    if (reply.missing !== undefined) return MISS;
    throw new BadReply("the reply is neither found nor missing");
  };
}

function only<T>(values: readonly T[]): T {
  const value = values[0];
  if (value === undefined || values.length > 1) throw new BadReply(`${values.length} values in the reply for one`);
  return value;
}

function setIf(reply: m.SetIfReplyRead): r.Stored | r.NotStored {
  if (reply.stored !== undefined) return STORED;
  if (reply.notStored !== undefined) return NOT_STORED;
  throw new BadReply("the reply to SetIf is empty");
}

function setIfHash(reply: m.SetIfHashReplyRead): r.StoredWithHash | r.NotStored {
  if (reply.stored !== undefined) return new r.StoredWithHash(reply.stored.hash);
  if (reply.notStored !== undefined) return NOT_STORED;
  throw new BadReply("the reply to SetIfHash is empty");
}

function updateTtl(reply: m.UpdateTtlReplyRead): r.Stored | r.NotStored | r.Miss {
  if (reply.set !== undefined) return STORED;
  if (reply.notSet !== undefined) return NOT_STORED;
  if (reply.missing !== undefined) return MISS;
  throw new BadReply("the reply to UpdateTtl is empty");
}

function itemType(of: m.ItemTypeReplyFoundRead): r.TypeHit {
  const type = ITEM_TYPES[of.itemType];
  if (type === undefined) throw new BadReply(`the type of the item is ${of.itemType}`);
  return new r.TypeHit(type);
}

function rank(reply: m.RankReplyRead): r.RankHit | r.Miss {
  if (reply.missing !== undefined) return MISS;
  if (reply.element === undefined) throw new BadReply("the reply to SortedSetGetRank is empty");
  return reply.element.result === RESULT_HIT ? new r.RankHit(Number(reply.element.rank)) : MISS;
}

function scored(of: m.SortedSetFetchReplyFoundRead): r.SortedSetHit {
  return new r.SortedSetHit((of.scored?.elements ?? []).map((each) => [each.value, each.score]));
}

function score(of: m.ScoresReplyFoundRead): r.ScoreHit | r.Miss {
  const element = only(of.elements);
  return element.result === RESULT_HIT ? new r.ScoreHit(element.score) : MISS;
}

const increment = (reply: m.IncrementReplyRead): r.IncrementSuccess => new r.IncrementSuccess(reply.value);
const length = found((of: m.LengthReplyFoundRead) => new r.LengthHit(of.length));
const listLength = (reply: m.ListLengthReplyRead): r.LengthSuccess => new r.LengthSuccess(reply.length);
const setElements = found((of: m.ElementsReplyFoundRead) => new r.SetHit(of.elements));
const listElements = found((of: m.ElementsReplyFoundRead) => new r.ListHit(of.elements));
const pop = found((of: m.ListPopReplyFoundRead) => new r.PopHit(of.value, of.length));

export const GET = ofCache("Get", get, true, true);
export const SET = ofCache("Set", set, true);
export const GET_BATCH = ofBatch(
  "GetBatch",
  (replies) => new r.GetBatchSuccess(replies.map((reply) => get(m.decodeGetReply(reply)))),
);
export const SET_BATCH = ofBatch("SetBatch", (replies) => {
  for (const reply of replies) set(m.decodeSetReply(reply));
  return SUCCESS;
});
export const DELETE = ofCache("Delete", done, true);
export const KEYS_EXIST = ofCache("KeysExist", (reply) => new r.KeysExistSuccess(reply.exists), true);
export const INCREMENT = ofCache("Increment", increment, false);
export const GET_WITH_HASH = ofCache("GetWithHash", found((of) => new r.GetWithHashHit(of.value, of.hash)), true);
export const SET_IF = ofCache("SetIf", setIf, false);
export const SET_IF_HASH = ofCache("SetIfHash", setIfHash, false);
export const UPDATE_TTL = ofCache("UpdateTtl", updateTtl, false);
export const GET_TTL = ofCache(
  "ItemGetTtl",
  found((of) => new r.TtlHit(of.remainingMs === NO_TTL_MS ? undefined : Number(of.remainingMs))),
  true,
);
export const GET_TYPE = ofCache("ItemGetType", found(itemType), true);

export const DICTIONARY_GET = ofCache(
  "DictionaryGet",
  found((of) => {
    const values = of.items.map((item) => (item.result === RESULT_HIT ? item.value : undefined));
    return new r.DictionaryFieldsHit(values);
  }),
  true,
);
export const DICTIONARY_GET_ONE = ofCache("DictionaryGet", found((of) => get(only(of.items))), true);
export const DICTIONARY_FETCH = ofCache(
  "DictionaryFetch",
  found((of) => new r.DictionaryHit(of.items.map((item) => [item.field, item.value]))),
  true,
);
export const DICTIONARY_SET = ofCache("DictionarySet", done, true);
export const DICTIONARY_INCREMENT = ofCache("DictionaryIncrement", increment, false);
export const DICTIONARY_DELETE = ofCache("DictionaryDelete", done, true);
export const DICTIONARY_LENGTH = ofCache("DictionaryLength", length, true);

export const SET_FETCH = ofCache("SetFetch", setElements, true);
export const SET_SAMPLE = ofCache("SetSample", setElements, true);
export const SET_UNION = ofCache("SetUnion", done, true);
export const SET_REMOVE = ofCache("SetDifference", found(done), true);
export const SET_SUBTRACT_FROM = ofCache("SetDifference", found(done), false);
export const SET_CONTAINS = ofCache("SetContains", found((of) => new r.ContainsHit(of.contained)), true);
export const SET_LENGTH = ofCache("SetLength", length, true);
export const SET_POP = ofCache("SetPop", setElements, false);

export const LIST_PUSH_FRONT = ofCache("ListPushFront", listLength, false);
export const LIST_PUSH_BACK = ofCache("ListPushBack", listLength, false);
export const LIST_CONCATENATE_FRONT = ofCache("ListConcatenateFront", listLength, false);
export const LIST_CONCATENATE_BACK = ofCache("ListConcatenateBack", listLength, false);
export const LIST_POP_FRONT = ofCache("ListPopFront", pop, false);
export const LIST_POP_BACK = ofCache("ListPopBack", pop, false);
export const LIST_REMOVE = ofCache("ListRemove", length, false);
export const LIST_FETCH = ofCache("ListFetch", listElements, true);
export const LIST_RETAIN = ofCache("ListRetain", length, false);
export const LIST_LENGTH = ofCache("ListLength", length, true);

export const SORTED_SET_PUT = ofCache("SortedSetPut", done, true);
export const SORTED_SET_FETCH = ofCache("SortedSetFetch", found(scored), true);
export const SORTED_SET_GET_SCORE = ofCache(
  "SortedSetGetScore",
  found((of) => new r.ScoresHit(of.elements.map((each) => (each.result === RESULT_HIT ? each.score : undefined)))),
  true,
);
export const SORTED_SET_GET_ONE_SCORE = ofCache("SortedSetGetScore", found(score), true);
export const SORTED_SET_REMOVE = ofCache("SortedSetRemove", done, true);
export const SORTED_SET_INCREMENT = ofCache("SortedSetIncrement", (reply) => new r.ScoreSuccess(reply.score), false);
export const SORTED_SET_GET_RANK = ofCache("SortedSetGetRank", rank, true);
export const SORTED_SET_LENGTH = ofCache("SortedSetLength", length, true);

export const CREATE_CACHE = ofCaches("CreateCache", done, false);
export const DELETE_CACHE = ofCaches("DeleteCache", done, false);
export const LIST_CACHES = ofCaches(
  "ListCaches",
  (reply) => new r.ListCachesSuccess(reply.caches.map((cache) => cache.name)),
  true,
);
export const FLUSH_CACHE = ofCaches("FlushCache", done, true);
