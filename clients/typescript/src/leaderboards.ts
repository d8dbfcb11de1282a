/** Leaderboards: sorted sets whose elements are numbers. */

import { listOf, orderOf, UNSIGNED_32_MAX, unsigned32, type OrderOption } from "./arguments.js";
import { done, unary } from "./calls.js";
import type { CallOptions, Engine, Scope } from "./engine.js";
import type { CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import { Opaque } from "./opaque.js";
import { LengthSuccess, type DoneResult, type LengthAfterResult } from "./results.js";

/** Maximum number of elements of one request and of one reply. */
export const LEADERBOARD_ELEMENTS_MAX = 8192;

/** An element of a leaderboard. */
export interface RankedElement {
  readonly id: number;
  /** The number of elements before it. */
  readonly rank: number;
  readonly score: number;
}

/** Elements of a leaderboard. */
export class RankedElementsSuccess {
  readonly type = "success";
  constructor(readonly elements: readonly RankedElement[]) {}
}

export type RankedElementsResult = RankedElementsSuccess | CacheError;

/** The ranks from `first` (0 without it) to before `end`, at most 8,192 of them. */
export interface RankRange {
  readonly first?: number | undefined;
  readonly end?: number | undefined;
}

/** The scores from `least` to below `end`; each is unbounded without it. */
export interface LeaderboardScoreRange {
  readonly least?: number | undefined;
  readonly end?: number | undefined;
  /** Number of elements that are passed over. */
  readonly offset?: number | undefined;
  /** Maximum number of elements; 8,192 without it. */
  readonly countMax?: number | undefined;
}

const ranked = (reply: m.RankedElementsRead): RankedElementsSuccess => new RankedElementsSuccess(reply.elements);

const UPSERT = unary("Leaderboards", "UpsertElements", done, true);
const REMOVE = unary("Leaderboards", "RemoveElements", done, true);
const DELETE = unary("Leaderboards", "DeleteLeaderboard", done, true);
const LENGTH = unary("Leaderboards", "GetLeaderboardLength", (reply) => new LengthSuccess(reply.count), true);
const BY_RANK = unary("Leaderboards", "GetByRank", ranked, true);
const BY_SCORE = unary("Leaderboards", "GetByScore", ranked, true);
const RANK = unary("Leaderboards", "GetRank", ranked, true);
const COMPETITION_RANK = unary("Leaderboards", "GetCompetitionRank", ranked, true);

const idsOf = (ids: Iterable<number>): number[] => listOf(ids).map((id) => unsigned32("id", id));

/**
 * One leaderboard of one cache. Its elements are ids of 32 bits with scores; it is the sorted set of its name, and does
 * not expire. Ranks begin at 0 at the lowest score, or at the highest one with `descending`. Elements with the same
 * score are ordered by the text of their ids.
 */
export class Leaderboard extends Opaque {
  /** @internal */
  constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
    /** The name of the leaderboard. */
    readonly name: string,
  ) {
    super();
  }

  override toJSON(): { name: string } {
    return { name: this.name };
  }

  /** Adds elements, pairs of id and score, or sets the scores of present ones: an array or a Map, at most 8,192. */
  async upsertElements(
    elements: Iterable<readonly [id: number, score: number]>,
    options?: CallOptions,
  ): Promise<DoneResult> {
    const scored = listOf(elements).map(([id, score]) => ({ id: unsigned32("id", id), score }));
    const request = m.encodeUpsertElementsRequest({ leaderboard: this.name, elements: scored });
    return this.engine.call(UPSERT, request, this.scope, options);
  }

  /** Removes elements. One that does not exist is no error. */
  async removeElements(ids: Iterable<number>, options?: CallOptions): Promise<DoneResult> {
    const request = { leaderboard: this.name, ids: idsOf(ids), order: m.Order.ASCENDING };
    return this.engine.call(REMOVE, m.encodeLeaderboardIdsRequest(request), this.scope, options);
  }

  /** Removes all elements. */
  async delete(options?: CallOptions): Promise<DoneResult> {
    return this.engine.call(DELETE, m.encodeLeaderboardRequest({ leaderboard: this.name }), this.scope, options);
  }

  /** Returns the number of elements; 0 if there is no leaderboard. */
  async length(options?: CallOptions): Promise<LengthAfterResult> {
    return this.engine.call(LENGTH, m.encodeLeaderboardRequest({ leaderboard: this.name }), this.scope, options);
  }

  /** Returns the elements of a range of ranks. */
  async getByRank(range: RankRange & OrderOption = {}, options?: CallOptions): Promise<RankedElementsResult> {
    const first = unsigned32("first", range.first ?? 0);
    const end = unsigned32("end", range.end ?? Math.min(UNSIGNED_32_MAX, first + LEADERBOARD_ELEMENTS_MAX));
    const request = { leaderboard: this.name, ranks: { first, end }, order: orderOf(range) };
    return this.engine.call(BY_RANK, m.encodeGetByRankRequest(request), this.scope, options);
  }

  /** Returns the elements of a range of scores, in the order of their scores. */
  async getByScore(
    range: LeaderboardScoreRange & OrderOption = {},
    options?: CallOptions,
  ): Promise<RankedElementsResult> {
    const { least, end, offset = 0, countMax = LEADERBOARD_ELEMENTS_MAX } = range;
    const request = {
      leaderboard: this.name,
      scores: {
        ...(least === undefined ? { unboundedStart: {} } : { least }),
        ...(end === undefined ? { unboundedEnd: {} } : { end }),
      },
      offset: unsigned32("offset", offset),
      countMax: unsigned32("countMax", countMax, 1),
      order: orderOf(range),
    };
    return this.engine.call(BY_SCORE, m.encodeGetByScoreRequest(request), this.scope, options);
  }

  /** Returns the elements with these ids and their ranks, in the order of the ids, without those that do not exist. */
  async getRank(ids: Iterable<number>, order: OrderOption = {}, options?: CallOptions): Promise<RankedElementsResult> {
    const request = { leaderboard: this.name, ids: idsOf(ids), order: orderOf(order) };
    return this.engine.call(RANK, m.encodeLeaderboardIdsRequest(request), this.scope, options);
  }

  /**
   * Returns the elements with these ids as `getRank` does, with competition ranks: elements with the same score have
   * the same rank, which is the number of elements before all of them (0, 1, 1, 3). Descending, unless `descending` is
   * false.
   */
  async getCompetitionRank(
    ids: Iterable<number>,
    order: OrderOption = {},
    options?: CallOptions,
  ): Promise<RankedElementsResult> {
    const descending = order.descending ?? true;
    const request = { leaderboard: this.name, ids: idsOf(ids), order: orderOf({ descending }) };
    return this.engine.call(COMPETITION_RANK, m.encodeCompetitionRankRequest(request), this.scope, options);
  }
}
