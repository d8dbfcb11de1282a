/** The calls on a graph: nodes, and typed edges with a time. */

import { listOf, pairsOf, type Pairs } from "./arguments.js";
import { done, found, unary, type Call } from "./calls.js";
import type { CallOptions, Engine, Scope } from "./engine.js";
import { errorOfStatus, type CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import * as g from "./graphs.js";
import { Opaque } from "./opaque.js";
import * as q from "./queries.js";
import { GraphQuery } from "./queries.js";
import type { DoneResult } from "./results.js";
import type { Bytes, Integer } from "./wire.js";

/** The properties of an edge type. */
export interface EdgeTypeOptions extends CallOptions {
  /** True if each edge is one in both directions. */
  readonly undirected?: boolean | undefined;
  /** The name of the type whose inverse this one is. */
  readonly inverseOf?: string | undefined;
  /** True for pages that list the newest edge first; otherwise they are ordered by identifier. */
  readonly sortByTime?: boolean | undefined;
  /** The maximum number of live edges of a node; without it, there is none. */
  readonly cap?: number | undefined;
  /** The names of the attributes of edges. */
  readonly attributes?: Iterable<string> | undefined;
}

/** The time of a change. */
export interface ChangeOptions extends CallOptions {
  /** In ms since 1970. Without it, the change has the time of the server, and is not repeated after a failure. */
  readonly timeMs?: Integer | undefined;
}

const changed = (reply: m.NodeChangeReplyRead): g.NodeChanged => new g.NodeChanged(reply.changed);
const nodeHit = ({ type, bins }: m.GraphNodeRead): g.NodeHit =>
  new g.NodeHit(type, bins.map(({ name, value }) => [name, value]));

/** Returns the form of a call that is repeated after a failure, because its request has a time. */
const timed = <R>(call: Call<R>): Call<R> => ({ ...call, idempotent: true });

// A change has the time of the server unless its caller states one. Its repetition would then be newer than a change of
// another client that was made meanwhile. With a time, a repetition changes nothing.
const CHANGE = unary("Graph", "Change", (reply) => new g.EdgesChanged(Number(reply.changed)), false);
const SET_NODE = unary("Graph", "SetNode", changed, false);
const REMOVE_NODE = unary("Graph", "RemoveNode", changed, false);
const MARK_NODE = unary("Graph", "MarkNode", changed, false);
const CHANGE_AT = timed(CHANGE);
const SET_NODE_AT = timed(SET_NODE);
const REMOVE_NODE_AT = timed(REMOVE_NODE);
const MARK_NODE_AT = timed(MARK_NODE);

const DECLARE_TYPE = unary("Graph", "DeclareType", done, true);
const GET_NODE = unary("Graph", "GetNode", found(nodeHit), true);
const QUERY = unary("Graph", "Query", (reply) => reply, true);
const STATS = unary("Graph", "Stats", (reply) => new g.GraphStats(g.figuresOf(reply.figures), reply.types), true);
const STORE_STATS = unary(
  "Graph",
  "Stats",
  (reply) => new g.GraphStoreStats(g.figuresOf(reply.figures), reply.graphs),
  true,
);

/** Returns the figures of all graphs of a server. */
export function storeStats(engine: Engine, scope: Scope, options?: CallOptions): Promise<g.GraphStoreStatsResult> {
  return engine.call(STORE_STATS, m.encodeGraphStatsRequest({ graph: "" }), scope, options);
}

/**
 * One graph of a server: nodes, which are numbers from 1 to 2^64 - 2, and typed edges with a time.
 *
 * A graph is in no cache: the client's cache only counts the calls. `declareType` creates it with its first edge type.
 *
 * - The budget of a query is the number of edges that it may touch. If it does not suffice, the result is `partial`: it
 *   is right as far as it goes, and may lack nodes.
 * - Nodes are numbers or bigints as arguments, and bigints in results. Times are in ms since 1970.
 * - The newest change of an edge or node wins. A change with a time may be repeated without effect, so the client
 *   repeats it after a failure; one without has the time of the server, and is never repeated.
 */
export class Graph extends Opaque {
  /** The name of the graph. */
  readonly name: string;

  /** @internal */
  constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
    name: string,
  ) {
    super();
    this.name = g.graphName(name);
  }

  override toJSON(): { name: string } {
    return { name: this.name };
  }

  private call<R>(call: Call<R>, request: Buffer, options: CallOptions | undefined): Promise<R | CacheError> {
    return this.engine.call(call, request, this.scope, options);
  }

  private ask<R>(query: GraphQuery<R>, options: CallOptions | undefined): Promise<R | CacheError> {
    return this.call(query.call, query.alone(this.name), options);
  }

  private async *pages<R>(
    first: GraphQuery<R>,
    options: CallOptions,
  ): AsyncGenerator<R | CacheError, void, undefined> {
    for (let query: GraphQuery<R> | undefined = first; query !== undefined; ) {
      const page: R | CacheError = await this.ask(query, options);
      yield page;
      query = query.after(page);
    }
  }

  // Changes.

  /**
   * Declares an edge type, and creates the graph with its first one. Does nothing if the type is declared with the same
   * properties, and is FAILED_PRECONDITION if with others.
   */
  async declareType(type: string, options: EdgeTypeOptions = {}): Promise<DoneResult> {
    const { undirected = false, inverseOf = "", sortByTime = false, attributes = [] } = options;
    const cap = g.from1("cap", options.cap);
    const properties = { undirected, inverseOf, sortByTime, cap, attributes: listOf(attributes) };
    const request = m.encodeDeclareTypeRequest({ graph: this.name, type, ...properties });
    return this.call(DECLARE_TYPE, request, options);
  }

  /**
   * Adds edges of a type, at most 4096: objects, or pairs of source and destination.
   *
   * All changes are checked before the first is made. A cap or full memory can refuse a later one; the error then
   * states how many edges were changed. `timeMs` is the time of those that have none of their own.
   */
  async addEdges(
    type: string,
    edges: Iterable<g.EdgeLike>,
    options: ChangeOptions = {},
  ): Promise<g.EdgesChangedResult> {
    return this.change(m.GraphChangeRequestAction.ADD, type, edges, options);
  }

  /** Removes edges. One that does not exist is no error. */
  async removeEdges(
    type: string,
    edges: Iterable<g.EdgeLike>,
    options: ChangeOptions = {},
  ): Promise<g.EdgesChangedResult> {
    return this.change(m.GraphChangeRequestAction.REMOVE, type, edges, options);
  }

  /** Hides edges until they are restored. */
  async archiveEdges(
    type: string,
    edges: Iterable<g.EdgeLike>,
    options: ChangeOptions = {},
  ): Promise<g.EdgesChangedResult> {
    return this.change(m.GraphChangeRequestAction.ARCHIVE, type, edges, options);
  }

  /** Shows edges again: an addition that leaves the attributes as they are. */
  async restoreEdges(
    type: string,
    edges: Iterable<g.EdgeLike>,
    options: ChangeOptions = {},
  ): Promise<g.EdgesChangedResult> {
    return this.change(m.GraphChangeRequestAction.RESTORE, type, edges, options);
  }

  private change(
    action: number,
    type: string,
    edges: Iterable<g.EdgeLike>,
    options: ChangeOptions,
  ): Promise<g.EdgesChangedResult> {
    const changes = listOf(edges).map((edge) => g.edgeOf(edge, options.timeMs));
    const call = changes.every(({ timeMs }) => timeMs !== undefined) ? CHANGE_AT : CHANGE;
    return this.call(call, m.encodeGraphChangeRequest({ graph: this.name, action, type, edges: changes }), options);
  }

  // Neighbourhoods.

  /** Returns state, time and attributes of the edges from a node to others, at most 4096. */
  async getEdges(
    source: Integer,
    type: string,
    destinations: Iterable<Integer>,
    options?: CallOptions,
  ): Promise<g.EdgesResult> {
    return this.ask(GraphQuery.getEdges(source, type, destinations), options);
  }

  /** Returns the degree of a node. Archived neighbours count. */
  async count(node: Integer, type: string, options?: CallOptions): Promise<g.NodeCountResult> {
    return this.ask(GraphQuery.count(node, type), options);
  }

  /** Returns a page of the neighbours of a node. */
  async neighbours(
    node: Integer,
    type: string,
    options: q.NeighbourOptions & CallOptions = {},
  ): Promise<g.NeighbourPageResult> {
    return this.ask(GraphQuery.neighbours(node, type, options), options);
  }

  /**
   * Yields pages of the neighbours of a node, one call each. A CacheError is the last value that it yields. The cursor
   * of a page continues in another iterator, in another process too.
   */
  async *neighbourPages(
    node: Integer,
    type: string,
    options: q.NeighbourOptions & CallOptions = {},
  ): AsyncGenerator<g.NeighbourPageResult, void, undefined> {
    yield* this.pages(GraphQuery.neighbours(node, type, options), options);
  }

  /** Returns common neighbours of two nodes. */
  async mutual(
    first: Integer,
    second: Integer,
    type: string,
    options: q.LimitOption & q.BudgetOption & CallOptions = {},
  ): Promise<g.MutualNodesResult> {
    return this.ask(GraphQuery.mutual(first, second, type, options), options);
  }

  /** Returns the number of common neighbours of two nodes. */
  async mutualCount(
    first: Integer,
    second: Integer,
    type: string,
    options: q.BudgetOption & CallOptions = {},
  ): Promise<g.NodeCountResult> {
    return this.ask(GraphQuery.mutualCount(first, second, type, options), options);
  }

  /** Returns a page of the intersection, union or difference of the neighbours of up to 16 nodes. */
  async combine(
    operation: g.SetOperation,
    lists: Iterable<q.NodeList>,
    options: q.NodePageOptions & CallOptions = {},
  ): Promise<g.NodePageResult> {
    return this.ask(GraphQuery.combine(operation, lists, options), options);
  }

  /** Yields the pages of `combine`, as `neighbourPages` does. */
  async *combinePages(
    operation: g.SetOperation,
    lists: Iterable<q.NodeList>,
    options: q.NodePageOptions & CallOptions = {},
  ): AsyncGenerator<g.NodePageResult, void, undefined> {
    yield* this.pages(GraphQuery.combine(operation, lists, options), options);
  }

  // Walks of more than one edge.

  /** Returns the number of edges from a node to each of at most 4096 others, or undefined for one out of reach. */
  async distances(
    source: Integer,
    type: string,
    destinations: Iterable<Integer>,
    options: q.DistanceOptions & CallOptions = {},
  ): Promise<g.DistancesResult> {
    return this.ask(GraphQuery.distances(source, type, destinations, options), options);
  }

  /** Returns the k shortest paths between two nodes: none if they are further apart than `distanceMax`. */
  async paths(
    source: Integer,
    destination: Integer,
    type: string,
    options: q.PathOptions & CallOptions = {},
  ): Promise<g.PathsResult> {
    return this.ask(GraphQuery.paths(source, destination, type, options), options);
  }

  /** Returns a page of the nodes at distance 2. */
  async secondDegree(
    node: Integer,
    type: string,
    options: q.SecondDegreePageOptions & CallOptions = {},
  ): Promise<g.NodePageResult> {
    return this.ask(GraphQuery.secondDegree(node, type, options), options);
  }

  /** Yields the pages of `secondDegree`, as `neighbourPages` does. */
  async *secondDegreePages(
    node: Integer,
    type: string,
    options: q.SecondDegreePageOptions & CallOptions = {},
  ): AsyncGenerator<g.NodePageResult, void, undefined> {
    yield* this.pages(GraphQuery.secondDegree(node, type, options), options);
  }

  /** Returns the number of nodes at distance 2. */
  async secondDegreeCount(
    node: Integer,
    type: string,
    options: q.SecondDegreeOptions & CallOptions = {},
  ): Promise<g.NodeCountResult> {
    return this.ask(GraphQuery.secondDegreeCount(node, type, options), options);
  }

  /** Returns the k nodes at distance 2 with the most common neighbours. */
  async suggest(
    node: Integer,
    type: string,
    options: q.SuggestOptions & CallOptions = {},
  ): Promise<g.SuggestionsResult> {
    return this.ask(GraphQuery.suggest(node, type, options), options);
  }

  // Nodes.

  /** Returns the type and bins of a node, also of an archived one. Miss if it has none. */
  async getNode(node: Integer, options?: CallOptions): Promise<g.NodeResult> {
    return this.call(GET_NODE, m.encodeNodeRequest({ graph: this.name, node: g.nodeOf("node", node) }), options);
  }

  /** Stores the type and bins of a node in place of earlier ones, at most 16 KiB together. */
  async setNode(
    node: Integer,
    type: Bytes,
    bins: Pairs<Bytes> = [],
    options: ChangeOptions = {},
  ): Promise<g.NodeChangedResult> {
    const value = { type, bins: pairsOf(bins).map(([name, bin]) => ({ name, value: bin })) };
    const request = m.encodeSetNodeRequest({ ...this.at(node, options), value });
    return this.call(options.timeMs === undefined ? SET_NODE : SET_NODE_AT, request, options);
  }

  /** Removes the type and bins of a node. Its edges stay. */
  async removeNode(node: Integer, options: ChangeOptions = {}): Promise<g.NodeChangedResult> {
    const request = m.encodeNodeRequest(this.at(node, options));
    return this.call(options.timeMs === undefined ? REMOVE_NODE : REMOVE_NODE_AT, request, options);
  }

  /** Hides all edges of a node, in its own lists and in those of others. */
  async archiveNode(node: Integer, options: ChangeOptions = {}): Promise<g.NodeChangedResult> {
    return this.mark(node, true, options);
  }

  /** Shows the edges of an archived node again. */
  async restoreNode(node: Integer, options: ChangeOptions = {}): Promise<g.NodeChangedResult> {
    return this.mark(node, false, options);
  }

  private mark(node: Integer, archived: boolean, options: ChangeOptions): Promise<g.NodeChangedResult> {
    const request = m.encodeMarkNodeRequest({ ...this.at(node, options), archived });
    return this.call(options.timeMs === undefined ? MARK_NODE : MARK_NODE_AT, request, options);
  }

  private at(node: Integer, { timeMs }: ChangeOptions): m.NodeRequest {
    return { graph: this.name, node: g.nodeOf("node", node), timeMs: g.timeOf(timeMs) };
  }

  // Several queries, and figures.

  /**
   * Executes up to 64 queries in one call. `results` has their results in the same order, with a CacheError in the
   * place of one that failed.
   */
  async query<Q extends readonly GraphQuery<unknown>[] | []>(
    queries: Q,
    options?: CallOptions,
  ): Promise<q.GraphAnswers<q.AnswersOf<Q>> | CacheError> {
    const asked = listOf<GraphQuery<unknown>>(queries);
    const errorOf = (method: string, error: m.GraphQueryErrorRead): CacheError => this.errorOf(method, error);
    const parse = (replies: readonly Buffer[]): q.GraphAnswers<q.AnswersOf<Q>> => {
      const answers: unknown = q.answersOf(asked, QUERY.parse(replies).results, errorOf);
      return new q.GraphAnswers(answers as q.AnswersOf<Q>);
    };
    const request = { graph: this.name, queries: asked.map(({ part }) => part) };
    return this.call({ ...QUERY, parse }, m.encodeGraphQueryRequest(request), options);
  }

  private errorOf(method: string, { code, message }: m.GraphQueryErrorRead): CacheError {
    const facts = { bytes: 0, bytesMax: this.engine.settings.messageBytesMax, ofGraph: true };
    return errorOfStatus(code, message, method, this.engine.target, facts);
  }

  /** Returns figures and the edge types of the graph. It needs the right to all graphs. */
  async stats(options?: CallOptions): Promise<g.GraphStatsResult> {
    return this.call(STATS, m.encodeGraphStatsRequest({ graph: this.name }), options);
  }
}
