/** Graphs: the edges of changes, and the results of calls. */

import { UNSIGNED_64_MAX, unsigned32, whole } from "./arguments.js";
import type { CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import type { Miss } from "./results.js";
import { BadReply, type Bytes, type Integer } from "./wire.js";

const STATES = ["absent", "live", "negative", "archived", "removed"] as const;
const OPERATIONS = ["intersection", "union", "difference"] as const;

/** The state of an edge. `negative` is a second colour, such as blocks; `archived` is hidden until it is restored. */
export type EdgeState = (typeof STATES)[number];

/** An operation on lists of neighbours; `difference` is the first list without all others. */
export type SetOperation = (typeof OPERATIONS)[number];

/** Attributes of an edge by name: an object, a Map, or pairs. */
export type Attributes = Iterable<readonly [name: string, value: Bytes]> | Readonly<Record<string, Bytes>>;

/** An edge that a call adds, removes, archives or restores. */
export interface Edge {
  readonly source: Integer;
  readonly destination: Integer;
  /** Its edge type; without it, that of the call. */
  readonly type?: string | undefined;
  /** The time of its change, in ms since 1970; without it, that of the call. */
  readonly timeMs?: Integer | undefined;
  /** True to add it with the negative state. Only for added edges. */
  readonly negative?: boolean | undefined;
  /** The attributes of an added edge, at most 255 bytes together. The schema of its type has their names. */
  readonly attributes?: Attributes | undefined;
}

/** An edge, or a pair of source and destination. */
export type EdgeLike = Edge | readonly [source: Integer, destination: Integer];

/** The number of edges that a call changed. */
export class EdgesChanged {
  readonly type = "success";
  constructor(
    /** 0 if all were so before, or newer changes exist. An attempt whose reply was lost may have changed them. */
    readonly changed: number,
  ) {}
}

/** An edge that was read. Without an edge, its state is `absent`, its time 0, and there are no attributes. */
export interface EdgeInfo {
  readonly state: EdgeState;
  /** The time of its last change, in ms since 1970. */
  readonly timeMs: number;
  readonly attributes: ReadonlyMap<string, Uint8Array>;
}

/** The edges from a node to others, in the order of the call. */
export class EdgesFound {
  readonly type = "success";
  constructor(readonly edges: readonly EdgeInfo[]) {}
}

/** The number of nodes that a query found. */
export class NodeCount {
  readonly type = "success";
  constructor(
    readonly count: number,
    /** True if the budget did not suffice: there may be more. */
    readonly partial: boolean,
  ) {}
}

/** A neighbour of a node, and the edge to it. */
export interface Neighbour {
  readonly node: bigint;
  /** The time of the edge's last change, in ms since 1970. */
  readonly timeMs: number;
  readonly attributes: ReadonlyMap<string, Uint8Array>;
}

/** Some of the neighbours of a node. */
export class NeighbourPage {
  readonly type = "success";
  constructor(
    readonly nodes: readonly bigint[],
    /** The nodes with their edges if the call asks for attributes; empty otherwise. */
    readonly neighbours: readonly Neighbour[],
    /** The cursor of the next page, or undefined after the last one. */
    readonly cursor: string | undefined,
  ) {}
}

/** Common neighbours of two nodes. */
export class MutualNodes {
  readonly type = "success";
  constructor(
    readonly nodes: readonly bigint[],
    /** True if the budget did not suffice: there may be more. */
    readonly partial: boolean,
  ) {}
}

/** Some of the nodes that a query finds. */
export class NodePage {
  readonly type = "success";
  constructor(
    readonly nodes: readonly bigint[],
    /** The cursor of the next page, or undefined after the last one. */
    readonly cursor: string | undefined,
    /** True if the budget did not suffice: there may be more. */
    readonly partial: boolean,
  ) {}
}

/** The distances from a node to others, in the order of the call. */
export class Distances {
  readonly type = "success";
  constructor(
    /** The number of edges to each node, or undefined if none of at most `distanceMax` was found. */
    readonly distances: readonly (number | undefined)[],
    /** True if the budget did not suffice: a node may be nearer, or have a distance in place of undefined. */
    readonly partial: boolean,
  ) {}
}

/** The shortest paths between two nodes, the shortest one first. Both ends are parts of each path. */
export class Paths {
  readonly type = "success";
  constructor(
    readonly paths: readonly (readonly bigint[])[],
    /** True if the budget did not suffice: there may be more, and shorter ones. */
    readonly partial: boolean,
  ) {}
}

/** A node at distance 2, and the number of neighbours that it shares with the node of the call. */
export interface Suggestion {
  readonly node: bigint;
  readonly common: number;
}

/** The nodes at distance 2 with the most common neighbours, the one with the most of them first. */
export class Suggestions {
  readonly type = "success";
  constructor(
    readonly suggestions: readonly Suggestion[],
    /** True if the budget did not suffice: others may have more common neighbours. */
    readonly partial: boolean,
  ) {}
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");

/** The type and the bins of a node. */
export class NodeHit {
  readonly type = "hit";
  constructor(
    private readonly nodeType: Uint8Array,
    private readonly bins: readonly (readonly [Uint8Array, Uint8Array])[],
  ) {}

  typeBytes(): Uint8Array {
    return this.nodeType;
  }

  /** Returns the type as text (UTF-8). */
  typeString(): string {
    return textOf(this.nodeType);
  }

  /** Returns pairs of a name and a value. */
  binsBytes(): [Uint8Array, Uint8Array][] {
    return this.bins.map(([name, value]) => [name, value]);
  }

  /** Returns the values by name, both as text (UTF-8). */
  binsString(): Map<string, string> {
    return new Map(this.bins.map(([name, value]) => [textOf(name), textOf(value)]));
  }
}

/** A change of a node. */
export class NodeChanged {
  readonly type = "success";
  constructor(
    /** False if the node was so before, or a newer change exists. */
    readonly changed: boolean,
  ) {}
}

/** Figures of a graph, such as `nodes`, and the names of its edge types. */
export class GraphStats {
  readonly type = "success";
  constructor(
    readonly figures: ReadonlyMap<string, number>,
    readonly types: readonly string[],
  ) {}
}

/** Figures of all graphs of a server together, and their names. */
export class GraphStoreStats {
  readonly type = "success";
  constructor(
    readonly figures: ReadonlyMap<string, number>,
    readonly graphs: readonly string[],
  ) {}
}

export type EdgesChangedResult = EdgesChanged | CacheError;
export type EdgesResult = EdgesFound | CacheError;
export type NodeCountResult = NodeCount | CacheError;
export type NeighbourPageResult = NeighbourPage | CacheError;
export type MutualNodesResult = MutualNodes | CacheError;
export type NodePageResult = NodePage | CacheError;
export type DistancesResult = Distances | CacheError;
export type PathsResult = Paths | CacheError;
export type SuggestionsResult = Suggestions | CacheError;
export type NodeResult = NodeHit | Miss | CacheError;
export type NodeChangedResult = NodeChanged | CacheError;
export type GraphStatsResult = GraphStats | CacheError;
export type GraphStoreStatsResult = GraphStoreStats | CacheError;

/** Returns the number of a node. Throws RangeError if it is beyond 64 bits. */
export const nodeOf = (name: string, node: Integer): Integer => whole(name, node, 0, UNSIGNED_64_MAX);

/** Returns a time in ms since 1970, or undefined for that of the server. */
export const timeOf = (timeMs: Integer | undefined): Integer | undefined =>
  timeMs === undefined ? undefined : whole("timeMs", timeMs, 0, UNSIGNED_64_MAX);

/** Returns a number of at least 1, or 0 for the default of the server. */
export const from1 = (name: string, value: number | undefined): number =>
  value === undefined ? 0 : unsigned32(name, value, 1);

/** Returns the name of a graph. Throws RangeError if it is empty. */
export function graphName(name: string): string {
  if (typeof name !== "string") {
    throw new TypeError(`cannot use graph: its name is ${typeof name} and no string; give a name`);
  }
  if (name === "") throw new RangeError("cannot use graph '': its name is empty; give a name");
  return name;
}

function numberOf(name: string, of: string, known: readonly string[]): number {
  const at = known.indexOf(of);
  if (at >= 0) return at;
  throw new RangeError(`cannot use ${name} '${of}': it is unknown; give one of ${known.join(", ")}`);
}

/** Returns the number of a state in a request. */
export const stateNumber = (state: EdgeState): number => numberOf("state", state, STATES);

/** Returns the number of an operation in a request. */
export const operationNumber = (operation: SetOperation): number => numberOf("operation", operation, OPERATIONS);

const isIterable = (value: object): value is Iterable<readonly [string, Bytes]> => Symbol.iterator in value;

function attributesOf(attributes: Attributes): m.GraphAttribute[] {
  const pairs = isIterable(attributes) ? [...attributes] : Object.entries(attributes);
  return pairs.map(([name, value]) => ({ name, value }));
}

const isPair = (edge: EdgeLike): edge is readonly [Integer, Integer] => Array.isArray(edge);

/** Returns the message of an edge. `timeMs` is the time of one that has none. */
export function edgeOf(edge: EdgeLike, timeMs: Integer | undefined): m.EdgeChange {
  const of: Edge = isPair(edge) ? { source: edge[0], destination: edge[1] } : edge;
  const { type = "", negative = false, attributes = {} } = of;
  return {
    source: nodeOf("source", of.source),
    type,
    destination: nodeOf("destination", of.destination),
    timeMs: timeOf(of.timeMs ?? timeMs),
    negative,
    attributes: attributesOf(attributes),
  };
}

const mapOf = (attributes: readonly m.GraphAttributeRead[]): Map<string, Uint8Array> =>
  new Map(attributes.map(({ name, value }) => [name, value]));

/** Returns an edge that was read. Throws BadReply for an unknown state. */
export function edgeInfoOf({ state, timeMs, attributes }: m.GraphEdgeRead): EdgeInfo {
  const of = STATES[state];
  if (of === undefined) throw new BadReply(`the state of an edge is ${state}`);
  return { state: of, timeMs: Number(timeMs), attributes: mapOf(attributes) };
}

/** Returns a page of neighbours. */
export function neighbourPageOf({ cursor, nodes, neighbours }: m.NeighbourPageRead): NeighbourPage {
  const found = neighbours.map(({ node, timeMs, attributes }) => {
    return { node, timeMs: Number(timeMs), attributes: mapOf(attributes) };
  });
  return new NeighbourPage(found.length > 0 ? found.map(({ node }) => node) : nodes, found, cursor || undefined);
}

/** Returns figures by name. */
export const figuresOf = (figures: readonly m.GraphFigureRead[]): Map<string, number> =>
  new Map(figures.map(({ name, value }) => [name, Number(value)]));
