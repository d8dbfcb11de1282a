/** Arguments of calls: options that several calls share, and checks. */

import type { CallOptions } from "./engine.js";
import * as m from "./generated/messages.js";
import type { Bytes, Integer } from "./wire.js";

/** Options of calls that store an item. */
export interface StoreOptions extends CallOptions {
  /** The time to live of the item, at least 0.001; without it, the client's default. */
  readonly ttlSeconds?: number | undefined;
}

/** The order of a sorted set or leaderboard; ascending, unless the call says otherwise. */
export interface OrderOption {
  readonly descending?: boolean | undefined;
}

/** Pairs of a key or field and a value: an object, a Map, or an iterable of pairs. */
export type Pairs<V> = Iterable<readonly [Bytes, V]> | Readonly<Record<string, V>>;

/** Returns the pairs as an array. */
export function pairsOf<V>(pairs: Pairs<V>): (readonly [Bytes, V])[] {
  if (Symbol.iterator in pairs) return [...(pairs as Iterable<readonly [Bytes, V]>)];
  return Object.entries(pairs);
}

/** Returns the elements as an array. Throws TypeError if a single string or Uint8Array was passed. */
export function listOf<E>(elements: Iterable<E>): E[] {
  if (typeof elements === "string" || elements instanceof Uint8Array) {
    throw new TypeError("cannot encode elements: a single string or Uint8Array was passed; pass an array");
  }
  return [...elements];
}

/** Returns a time to live in milliseconds, at least 0. The server refuses 0. */
export function milliseconds(seconds: number): number {
  const ms = Math.round(seconds * 1000);
  if (Number.isSafeInteger(ms)) return Math.max(0, ms);
  throw new RangeError(`cannot use time to live ${seconds}: it is not a number of seconds; give one such as 60`);
}

/** Returns a time in milliseconds, or 0 without one. Throws RangeError below 1 ms, which the server takes for none. */
export function millisecondsOr0(name: string, seconds: number | undefined): number {
  if (seconds === undefined) return 0;
  const ms = milliseconds(seconds);
  if (ms >= 1) return ms;
  throw new RangeError(`cannot use ${name} ${seconds}: it is below 1 ms; give at least 0.001, or leave it out`);
}

/** Greatest number of an unsigned field of 32 bits. */
export const UNSIGNED_32_MAX = 2 ** 32 - 1;
/** Greatest number of an unsigned field of 64 bits. */
export const UNSIGNED_64_MAX = 2n ** 64n - 1n;

/** Returns a whole number from `least` to `greatest`. Throws RangeError otherwise. */
export function whole<N extends Integer>(name: string, value: N, least: Integer, greatest: Integer): N {
  const isWhole = typeof value === "bigint" || Number.isSafeInteger(value);
  if (isWhole && value >= least && value <= greatest) return value;
  const range = `a whole number from ${least} to ${greatest}`;
  throw new RangeError(`cannot use ${name} ${String(value)}: it is out of range; give ${range}`);
}

/** Returns a whole number with a sign of 64 bits. Throws RangeError otherwise. */
export const whole64 = <N extends Integer>(name: string, value: N): N =>
  whole(name, value, -(2n ** 63n), 2n ** 63n - 1n);

/** Returns a whole number with a sign of 32 bits. Throws RangeError otherwise. */
export const whole32 = (name: string, value: number): number => whole(name, value, -(2 ** 31), 2 ** 31 - 1);

/** Returns a whole number without a sign, of 32 bits. Throws RangeError otherwise. */
export const unsigned32 = (name: string, value: number, least = 0): number =>
  whole(name, value, least, UNSIGNED_32_MAX);

/** Returns the signal of a call. Throws TypeError if it is none. */
export function signalOf(signal: AbortSignal | undefined): AbortSignal | undefined {
  // By its members: another package may have a class of its own.
  if (signal === undefined || typeof signal?.addEventListener === "function") return signal;
  const kind = signal === null ? "null" : typeof signal;
  throw new TypeError(`cannot use signal: ${kind} is no AbortSignal; give the signal of an AbortController`);
}

/** Returns the order on the wire. */
export function orderOf(options: OrderOption | undefined): number {
  return options?.descending ? m.Order.DESCENDING : m.Order.ASCENDING;
}
