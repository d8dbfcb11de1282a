/** Queries of graphs, which are sent alone or several at once. */

import { listOf, UNSIGNED_64_MAX, whole } from "./arguments.js";
import { unary, type Call } from "./calls.js";
import type { CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import * as g from "./graphs.js";
import { BadReply, type Integer } from "./wire.js";

/** The part of a request of several queries that a query takes, and of their reply that its result has. */
type Part = keyof m.GraphQuery;
type RequestOf<P extends Part> = NonNullable<m.GraphQuery[P]>;
type ReplyOf<P extends Part> = NonNullable<m.GraphQueryResultRead[P]>;

/** A kind of queries: its call, and the message of its request. */
interface Kind<P extends Part, R> {
  readonly call: Call<R>;
  readonly part: P;
  readonly encode: (request: RequestOf<P>) => Buffer;
  readonly make: (reply: ReplyOf<P>) => R;
}

/** The number of edges that a query may touch. */
export interface BudgetOption {
  /** 100,000 without it, and at most 1,048,576. If it does not suffice, the result is `partial`. */
  readonly budget?: number | undefined;
}

/** The maximum number of nodes of a result. */
export interface LimitOption {
  /** 100 without it, and at most 4096. */
  readonly limit?: number | undefined;
}

/** The start of a page, and its maximum number of nodes. */
export interface NodePageOptions extends LimitOption {
  /** The cursor of the page; the first page without it. */
  readonly cursor?: string | undefined;
}

/** The neighbours of a page. */
export interface NeighbourOptions extends NodePageOptions {
  /** The first and the last time of their edges, in ms since 1970; for types that are sorted by time. */
  readonly times?: readonly [firstMs: Integer, lastMs: Integer] | undefined;
  /** True for the opposite order. */
  readonly reverse?: boolean | undefined;
  /** True for a result with times and attributes. */
  readonly withAttributes?: boolean | undefined;
  /** The state of their edges; `live` without it. */
  readonly state?: g.EdgeState | undefined;
}

/** The longest distance of a search. */
export interface DistanceOptions extends BudgetOption {
  /** 1 to 3; 3 without it. */
  readonly distanceMax?: number | undefined;
}

/** The paths of a search. */
export interface PathOptions extends DistanceOptions {
  /** The number of paths; 1 without it. */
  readonly k?: number | undefined;
}

/** The source of nodes at distance 2. */
export interface SecondDegreeOptions extends BudgetOption {
  /** The number of changes of the type that a set in the server's cache may have missed; 0 without it. */
  readonly stale?: Integer | undefined;
}

/** A page of nodes at distance 2. */
export interface SecondDegreePageOptions extends SecondDegreeOptions, NodePageOptions {}

/** The nodes that a search suggests. */
export interface SuggestOptions extends BudgetOption {
  /** The number of nodes; 10 without it. */
  readonly k?: number | undefined;
}

/** A list of neighbours: a node and an edge type. */
export type NodeList = readonly [node: Integer, type: string];

function kind<P extends Part, R>(
  call: Call<R>,
  part: P,
  encode: (request: RequestOf<P>) => Buffer,
  make: (reply: ReplyOf<P>) => R,
): Kind<P, R> {
  return { call, part, encode, make };
}

// The distance of a node that was not found.
const NOT_REACHED = 255;

const edges = (of: m.GetEdgesReplyRead): g.EdgesFound => new g.EdgesFound(of.edges.map(g.edgeInfoOf));
const count = (of: m.GraphCountReplyRead): g.NodeCount => new g.NodeCount(Number(of.count), false);
const mutual = (of: m.MutualReplyRead): g.MutualNodes => new g.MutualNodes(of.nodes, of.partial);
const combined = (of: m.NodePageRead): g.NodePage => new g.NodePage(of.nodes, of.cursor || undefined, false);
const distances = (of: m.DistanceReplyRead): g.Distances =>
  new g.Distances(of.distances.map((each) => (each === NOT_REACHED ? undefined : each)), of.partial);
const paths = (of: m.PathReplyRead): g.Paths => new g.Paths(of.paths.map(({ nodes }) => nodes), of.partial);
const secondDegree = (of: m.SecondDegreeReplyRead): g.NodePage =>
  new g.NodePage(of.nodes, of.cursor || undefined, of.partial);
const suggested = (of: m.SuggestReplyRead): g.Suggestions => new g.Suggestions(of.suggestions, of.partial);
const counted = (of: m.MutualReplyRead | m.SecondDegreeReplyRead): g.NodeCount =>
  new g.NodeCount(Number(of.count), of.partial);

const EDGES = kind(unary("Graph", "GetEdges", edges, true), "getEdges", m.encodeGetEdgesRequest, edges);
const COUNT = kind(unary("Graph", "Count", count, true), "count", m.encodeGraphCountRequest, count);
const RANGE = kind(
  unary("Graph", "Range", g.neighbourPageOf, true),
  "range",
  m.encodeGraphRangeRequest,
  g.neighbourPageOf,
);
const MUTUAL = kind(unary("Graph", "Mutual", mutual, true), "mutual", m.encodeMutualRequest, mutual);
const MUTUAL_COUNT = kind(unary("Graph", "Mutual", counted, true), "mutual", m.encodeMutualRequest, counted);
const COMBINE = kind(unary("Graph", "Combine", combined, true), "combine", m.encodeCombineRequest, combined);
const DISTANCE = kind(unary("Graph", "Distance", distances, true), "distance", m.encodeDistanceRequest, distances);
const PATH = kind(unary("Graph", "Path", paths, true), "path", m.encodePathRequest, paths);
const SECOND_DEGREE = kind(
  unary("Graph", "SecondDegree", secondDegree, true),
  "secondDegree",
  m.encodeSecondDegreeRequest,
  secondDegree,
);
const SECOND_DEGREE_COUNT = kind(
  unary("Graph", "SecondDegree", counted, true),
  "secondDegree",
  m.encodeSecondDegreeRequest,
  counted,
);
const SUGGEST = kind(unary("Graph", "Suggest", suggested, true), "suggest", m.encodeSuggestRequest, suggested);

const destinationsOf = (nodes: Iterable<Integer>): Integer[] =>
  listOf(nodes).map((node) => g.nodeOf("destination", node));

const budgetOf = ({ budget }: BudgetOption): number => g.from1("budget", budget);
const limitOf = ({ limit }: LimitOption): number => g.from1("limit", limit);

function mutualOf(first: Integer, second: Integer, type: string, budget: number): m.MutualRequest {
  const nodes = { first: g.nodeOf("first", first), second: g.nodeOf("second", second) };
  return { graph: "", ...nodes, type, limit: 0, countOnly: false, budget };
}

function secondDegreeOf(node: Integer, type: string, options: SecondDegreeOptions): m.SecondDegreeRequest {
  const stale = whole("stale", options.stale ?? 0, 0, UNSIGNED_64_MAX);
  const of = { graph: "", node: g.nodeOf("node", node), type, budget: budgetOf(options), stale };
  return { ...of, countOnly: false, cursor: "", limit: 0 };
}

/**
 * A query of a graph, of which `Graph.query` sends up to 64 in one request.
 *
 * The functions have the names and the arguments of the calls of `Graph`, which describe them:
 *
 *     const answers = await graph.query([GraphQuery.count(1, "knows"), GraphQuery.distances(1, "knows", [4, 5])]);
 */
export class GraphQuery<R> {
  private constructor(
    /** @internal */
    readonly call: Call<R>,
    /** @internal */
    readonly part: m.GraphQuery,
    /** Returns the request of the call that is this query alone. @internal */
    readonly alone: (graph: string) => Buffer,
    /** Returns the result in a reply to several queries, or undefined if that is another one. @internal */
    readonly read: (result: m.GraphQueryResultRead) => R | undefined,
    private readonly other: (fields: { graph?: string; cursor?: string }) => GraphQuery<R>,
  ) {}

  private static of<P extends Part, R>(of: Kind<P, R>, request: RequestOf<P>): GraphQuery<R> {
    const part: m.GraphQuery = {};
    part[of.part] = request;
    return new GraphQuery<R>(
      of.call,
      part,
      (graph) => of.encode({ ...request, graph: request.graph || graph }),
      (result) => {
        const reply = result[of.part];
        return reply === undefined ? undefined : of.make(reply as ReplyOf<P>);
      },
      (fields) => GraphQuery.of(of, { ...request, ...fields }),
    );
  }

  /** Reads the edges from a node to others. */
  static getEdges(source: Integer, type: string, destinations: Iterable<Integer>): GraphQuery<g.EdgesFound> {
    const from = g.nodeOf("source", source);
    return GraphQuery.of(EDGES, { graph: "", source: from, type, destinations: destinationsOf(destinations) });
  }

  /** Reads the degree of a node. */
  static count(node: Integer, type: string): GraphQuery<g.NodeCount> {
    return GraphQuery.of(COUNT, { graph: "", node: g.nodeOf("node", node), type });
  }

  /** Reads a page of the neighbours of a node. */
  static neighbours(node: Integer, type: string, options: NeighbourOptions = {}): GraphQuery<g.NeighbourPage> {
    const { cursor = "", times, reverse = false, withAttributes = false, state = "live" } = options;
    const range = times && {
      firstMs: whole("times", times[0], 0, UNSIGNED_64_MAX),
      lastMs: whole("times", times[1], 0, UNSIGNED_64_MAX),
    };
    return GraphQuery.of(RANGE, {
      graph: "",
      node: g.nodeOf("node", node),
      type,
      cursor,
      limit: limitOf(options),
      times: range,
      reverse,
      withAttributes,
      state: g.stateNumber(state),
    });
  }

  /** Searches common neighbours of two nodes. */
  static mutual(
    first: Integer,
    second: Integer,
    type: string,
    options: LimitOption & BudgetOption = {},
  ): GraphQuery<g.MutualNodes> {
    const request = mutualOf(first, second, type, budgetOf(options));
    return GraphQuery.of(MUTUAL, { ...request, limit: limitOf(options) });
  }

  /** Counts the common neighbours of two nodes. */
  static mutualCount(
    first: Integer,
    second: Integer,
    type: string,
    options: BudgetOption = {},
  ): GraphQuery<g.NodeCount> {
    return GraphQuery.of(MUTUAL_COUNT, { ...mutualOf(first, second, type, budgetOf(options)), countOnly: true });
  }

  /** Reads a page of the intersection, union or difference of lists of neighbours. */
  static combine(
    operation: g.SetOperation,
    lists: Iterable<NodeList>,
    options: NodePageOptions = {},
  ): GraphQuery<g.NodePage> {
    return GraphQuery.of(COMBINE, {
      graph: "",
      operation: g.operationNumber(operation),
      lists: listOf(lists).map(([node, type]) => ({ node: g.nodeOf("node", node), type })),
      cursor: options.cursor ?? "",
      limit: limitOf(options),
    });
  }

  /** Searches the distance from a node to each of others. */
  static distances(
    source: Integer,
    type: string,
    destinations: Iterable<Integer>,
    options: DistanceOptions = {},
  ): GraphQuery<g.Distances> {
    return GraphQuery.of(DISTANCE, {
      graph: "",
      source: g.nodeOf("source", source),
      type,
      destinations: destinationsOf(destinations),
      max: g.from1("distanceMax", options.distanceMax),
      budget: budgetOf(options),
    });
  }

  /** Searches the k shortest paths between two nodes. */
  static paths(
    source: Integer,
    destination: Integer,
    type: string,
    options: PathOptions = {},
  ): GraphQuery<g.Paths> {
    return GraphQuery.of(PATH, {
      graph: "",
      source: g.nodeOf("source", source),
      destination: g.nodeOf("destination", destination),
      type,
      max: g.from1("distanceMax", options.distanceMax),
      k: g.from1("k", options.k),
      budget: budgetOf(options),
    });
  }

  /** Searches a page of the nodes at distance 2. */
  static secondDegree(
    node: Integer,
    type: string,
    options: SecondDegreePageOptions = {},
  ): GraphQuery<g.NodePage> {
    const page = { cursor: options.cursor ?? "", limit: limitOf(options) };
    return GraphQuery.of(SECOND_DEGREE, { ...secondDegreeOf(node, type, options), ...page });
  }

  /** Counts the nodes at distance 2. */
  static secondDegreeCount(node: Integer, type: string, options: SecondDegreeOptions = {}): GraphQuery<g.NodeCount> {
    return GraphQuery.of(SECOND_DEGREE_COUNT, { ...secondDegreeOf(node, type, options), countOnly: true });
  }

  /** Searches the nodes at distance 2 with the most common neighbours. */
  static suggest(node: Integer, type: string, options: SuggestOptions = {}): GraphQuery<g.Suggestions> {
    const k = g.from1("k", options.k);
    return GraphQuery.of(SUGGEST, { graph: "", node: g.nodeOf("node", node), type, k, budget: budgetOf(options) });
  }

  /** Returns the same query of another graph than that of the request. */
  inGraph(name: string): GraphQuery<R> {
    return this.other({ graph: g.graphName(name) });
  }

  /** Returns the query of the page after `page`, or undefined if it was the last one or an error. */
  after(page: R | CacheError): GraphQuery<R> | undefined {
    const of: unknown = page;
    const cursor = of instanceof g.NeighbourPage || of instanceof g.NodePage ? of.cursor : undefined;
    return cursor === undefined ? undefined : this.other({ cursor });
  }
}

/** The results of several queries, in the order of the call. */
export class GraphAnswers<A> {
  readonly type = "success";
  constructor(
    /** The result of each query, or the error of one that failed. */
    readonly results: A,
  ) {}
}

/** The types of the results of queries. */
export type AnswersOf<Q extends readonly GraphQuery<unknown>[]> = {
  [I in keyof Q]: Q[I] extends GraphQuery<infer R> ? R | CacheError : never;
};

/** Returns the results of queries. `errorOf` makes the error of one that failed. Throws BadReply. */
export function answersOf(
  queries: readonly GraphQuery<unknown>[],
  results: readonly m.GraphQueryResultRead[],
  errorOf: (method: string, error: m.GraphQueryErrorRead) => CacheError,
): unknown[] {
  if (results.length !== queries.length) throw new BadReply(`${results.length} results of ${queries.length} queries`);
  return queries.map((query, at) => {
    const result = results[at];
    if (result?.error !== undefined) return errorOf(query.call.method, result.error);
    const answer = result && query.read(result);
    if (answer === undefined) throw new BadReply(`the result of ${query.call.method} is that of another query`);
    return answer;
  });
}
