/**
 * Results of calls. Each call resolves to one of a small union of these types; none rejects for an error.
 *
 *     const found = await client.get("greeting");
 *     switch (found.type) {
 *       case "hit": return found.valueString();
 *       case "miss": return undefined;
 *       case "error": throw found.toException();
 *     }
 *
 * The types are `hit`, `miss`, `success`, `stored`, `not_stored` and `error`.
 */

import type { CacheError } from "./errors.js";

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** The call was executed, and has nothing to return. */
export class Success {
  readonly type = "success";
}

/** The item, or the part of it that the call names, does not exist. */
export class Miss {
  readonly type = "miss";
}

/** The condition held, and the value was stored. */
export class Stored {
  readonly type = "stored";
}

/** The condition did not hold, and nothing was changed. */
export class NotStored {
  readonly type = "not_stored";
}

/** The condition held, and the value was stored; `hash` is that of the new value. */
export class StoredWithHash {
  readonly type = "stored";
  constructor(readonly hash: Uint8Array) {}
}

/** A value. */
export class GetHit {
  readonly type = "hit";
  constructor(protected readonly value: Uint8Array) {}

  /** Returns the value. It shares the memory of the reply. */
  valueBytes(): Uint8Array {
    return this.value;
  }

  /** Returns the value as text (UTF-8). */
  valueString(): string {
    return text(this.value);
  }
}

/** A value and its hash, which a later conditional set can name. */
export class GetWithHashHit extends GetHit {
  constructor(
    value: Uint8Array,
    readonly hash: Uint8Array,
  ) {
    super(value);
  }
}

/** One `GetHit` or `Miss` for each key, in the order of the keys. */
export class GetBatchSuccess {
  readonly type = "success";
  constructor(readonly results: readonly (GetHit | Miss)[]) {}

  /** Returns the values in the order of the keys, with undefined for a key that does not exist. */
  valuesBytes(): (Uint8Array | undefined)[] {
    return this.results.map((each) => (each.type === "hit" ? each.valueBytes() : undefined));
  }

  /** Returns the values as text (UTF-8), as `valuesBytes` does. */
  valuesString(): (string | undefined)[] {
    return this.results.map((each) => (each.type === "hit" ? each.valueString() : undefined));
  }
}

/** One boolean for each key, in the order of the keys. */
export class KeysExistSuccess {
  readonly type = "success";
  constructor(readonly exists: readonly boolean[]) {}
}

/** The number after the increment. */
export class IncrementSuccess {
  readonly type = "success";
  constructor(private readonly number: bigint) {}

  /** Returns the number, rounded if it is beyond `Number.MAX_SAFE_INTEGER`. */
  value(): number {
    return Number(this.number);
  }

  /** Returns the exact number. */
  valueBigInt(): bigint {
    return this.number;
  }
}

/** The time to live of an item in milliseconds, or undefined if it has none. */
export class TtlHit {
  readonly type = "hit";
  constructor(readonly remainingMs: number | undefined) {}
}

/** Types of items. */
export type ItemType = "value" | "dictionary" | "set" | "list" | "sorted_set";

/** The type of an item. */
export class TypeHit {
  readonly type = "hit";
  constructor(readonly itemType: ItemType) {}
}

/** The number of elements. */
export class LengthHit {
  readonly type = "hit";
  constructor(readonly length: number) {}
}

/** The number of elements after a change. */
export class LengthSuccess {
  readonly type = "success";
  constructor(readonly length: number) {}
}

/** One value for each field, in the order of the call, with undefined for a field that does not exist. */
export class DictionaryFieldsHit {
  readonly type = "hit";
  constructor(private readonly values: readonly (Uint8Array | undefined)[]) {}

  valuesBytes(): (Uint8Array | undefined)[] {
    return [...this.values];
  }

  /** Returns the values as text (UTF-8). */
  valuesString(): (string | undefined)[] {
    return this.values.map((each) => (each === undefined ? undefined : text(each)));
  }
}

/** All fields of a dictionary with their values. */
export class DictionaryHit {
  readonly type = "hit";
  constructor(private readonly entries: readonly (readonly [Uint8Array, Uint8Array])[]) {}

  /** Returns pairs of a field and its value. */
  entriesBytes(): [Uint8Array, Uint8Array][] {
    return this.entries.map(([field, value]) => [field, value]);
  }

  /** Returns the values by field, both as text (UTF-8). */
  fieldsString(): Map<string, string> {
    return new Map(this.entries.map(([field, value]) => [text(field), text(value)]));
  }
}

/** Elements of a set. */
export class SetHit {
  readonly type = "hit";
  constructor(private readonly elements: readonly Uint8Array[]) {}

  elementsBytes(): Uint8Array[] {
    return [...this.elements];
  }

  /** Returns the elements as text (UTF-8). */
  elementsString(): Set<string> {
    return new Set(this.elements.map(text));
  }
}

/** One boolean for each element, in the order of the call. */
export class ContainsHit {
  readonly type = "hit";
  constructor(readonly contained: readonly boolean[]) {}
}

/** Elements of a list, in its order. */
export class ListHit {
  readonly type = "hit";
  constructor(private readonly elements: readonly Uint8Array[]) {}

  elementsBytes(): Uint8Array[] {
    return [...this.elements];
  }

  /** Returns the elements as text (UTF-8). */
  elementsString(): string[] {
    return this.elements.map(text);
  }
}

/** The element that was removed from a list, and the length of the list without it. */
export class PopHit extends GetHit {
  constructor(
    value: Uint8Array,
    readonly length: number,
  ) {
    super(value);
  }
}

/** Elements of a sorted set with their scores, in the order of the call. */
export class SortedSetHit {
  readonly type = "hit";
  constructor(private readonly elements: readonly (readonly [Uint8Array, number])[]) {}

  /** Returns pairs of an element and its score. */
  elementsBytes(): [Uint8Array, number][] {
    return this.elements.map(([element, score]) => [element, score]);
  }

  /** Returns pairs of an element as text (UTF-8) and its score. */
  elementsString(): [string, number][] {
    return this.elements.map(([element, score]) => [text(element), score]);
  }
}

/** The score of an element. */
export class ScoreHit {
  readonly type = "hit";
  constructor(readonly score: number) {}
}

/** One score for each element, in the order of the call, with undefined for an element that does not exist. */
export class ScoresHit {
  readonly type = "hit";
  constructor(readonly scores: readonly (number | undefined)[]) {}
}

/** The score of an element after a change. */
export class ScoreSuccess {
  readonly type = "success";
  constructor(readonly score: number) {}
}

/** The rank of an element; the first one has rank 0. */
export class RankHit {
  readonly type = "hit";
  constructor(readonly rank: number) {}
}

/** The names of all caches. */
export class ListCachesSuccess {
  readonly type = "success";
  constructor(readonly names: readonly string[]) {}
}

export type GetResult = GetHit | Miss | CacheError;
export type GetWithHashResult = GetWithHashHit | Miss | CacheError;
export type GetBatchResult = GetBatchSuccess | CacheError;
export type DoneResult = Success | CacheError;
export type FoundResult = Success | Miss | CacheError;
export type KeysExistResult = KeysExistSuccess | CacheError;
export type IncrementResult = IncrementSuccess | CacheError;
export type ConditionalSetResult = Stored | NotStored | CacheError;
export type HashSetResult = StoredWithHash | NotStored | CacheError;
export type UpdateTtlResult = Stored | NotStored | Miss | CacheError;
export type TtlResult = TtlHit | Miss | CacheError;
export type TypeResult = TypeHit | Miss | CacheError;
export type LengthResult = LengthHit | Miss | CacheError;
export type LengthAfterResult = LengthSuccess | CacheError;
export type DictionaryFieldsResult = DictionaryFieldsHit | Miss | CacheError;
export type DictionaryResult = DictionaryHit | Miss | CacheError;
export type SetResult = SetHit | Miss | CacheError;
export type ContainsResult = ContainsHit | Miss | CacheError;
export type ListResult = ListHit | Miss | CacheError;
export type PopResult = PopHit | Miss | CacheError;
export type SortedSetResult = SortedSetHit | Miss | CacheError;
export type ScoreResult = ScoreHit | Miss | CacheError;
export type ScoresResult = ScoresHit | Miss | CacheError;
export type ScoreAfterResult = ScoreSuccess | CacheError;
export type RankResult = RankHit | Miss | CacheError;
export type ListCachesResult = ListCachesSuccess | CacheError;
