// Graphs, against a real server.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { CacheClient, GraphQuery, RetryBudget } from "../dist/index.js";
import { BadReply } from "../dist/wire.js";
import { answersOf } from "../dist/queries.js";
import { clientOf, codeOf, CONFIGURATION, freePort, redis, Server } from "./server.mjs";

const MOST = 2n ** 64n - 2n;
// A path from 1 to 5 with a shortcut from 1 to 3.
const EDGES = [[1, 2], [2, 3], [3, 4], [4, 5], [1, 3]];

let server, client, graph, graphs = 0;

before(async () => {
  server = await Server.start();
  client = await CacheClient.create({ address: server.address, configuration: CONFIGURATION });
});

beforeEach(async () => {
  graph = client.graph(`g${graphs++}`);
  assert.equal((await graph.declareType("knows", { undirected: true })).type, "success");
  await changes(graph.addEdges("knows", EDGES), 5);
});

afterEach(() => redis(server, "G.DROP", graph.name));

after(async () => {
  client.close();
  await server.stop();
});

/** Checks the number of edges, or the flag of a node, that a call changed. */
async function changes(call, expected) {
  const result = await call;
  assert.deepEqual([result.type, result.changed], ["success", expected], result.message);
}

const range = (first, count) => Array.from({ length: count }, (_, at) => first + at);
const numbers = (nodes) => nodes.map(Number);
const sorted = (nodes) => numbers(nodes).sort((one, other) => one - other);
const star = (centre) => graph.addEdges("knows", range(60, 10).map((node) => [centre, node]));

async function all(pages) {
  const found = [];
  for await (const page of pages) found.push(page);
  return found;
}

test("types are declared once", async () => {
  assert.equal((await graph.declareType("knows", { undirected: true })).type, "success");
  const other = await graph.declareType("knows");
  assert.deepEqual([codeOf(other), other.remedy], ["FAILED_PRECONDITION", "use another name"]);
  assert.equal((await graph.declareType("follows")).type, "success");
  assert.equal((await graph.declareType("followedBy", { inverseOf: "follows" })).type, "success");
  await changes(graph.addEdges("follows", [[1, 2]]), 1);
  assert.equal((await graph.count(2, "followedBy")).count, 1);
  assert.equal((await graph.count(2, "follows")).count, 0);
});

test("edges are added and counted", async () => {
  await changes(graph.addEdges("knows", [[1, 2]]), 0);
  const count = await graph.count(1, "knows");
  assert.deepEqual([count.count, count.partial], [2, false]);
  await changes(graph.addEdges("knows", [{ source: MOST, destination: 1 }, [MOST, 2n]]), 2);
  assert.deepEqual((await graph.neighbours(1, "knows")).nodes, [2n, 3n, MOST]);
  assert.deepEqual((await graph.neighbours(MOST, "knows")).nodes, [1n, 2n]);
});

test("states of edges", async () => {
  const [live, absent] = (await graph.getEdges(1, "knows", [2, 9n])).edges;
  assert.deepEqual([live.state, live.attributes.size, live.timeMs > 1.6e12], ["live", 0, true]);
  assert.deepEqual([absent.state, absent.timeMs], ["absent", 0]);
  await changes(graph.removeEdges("knows", [[1, 2]]), 1);
  await changes(graph.archiveEdges("knows", [[1, 3]]), 1);
  const states = async () => (await graph.getEdges(1, "knows", [2, 3])).edges.map(({ state }) => state);
  assert.deepEqual(await states(), ["removed", "archived"]);
  await changes(graph.restoreEdges("knows", [[1, 3]]), 1);
  assert.deepEqual(await states(), ["removed", "live"]);
});

test("attributes and the negative state", async () => {
  await graph.declareType("rated", { attributes: ["stars", "note"] });
  const attributes = { stars: Uint8Array.of(255), note: "good" };
  const rated = { source: 1, destination: 7, timeMs: 5_000, attributes };
  const pairs = { source: 1, destination: 9, timeMs: 7_000n, attributes: new Map([["note", "fair"]]) };
  const blocked = { source: 1, destination: 8, timeMs: 6_000, negative: true };
  await changes(graph.addEdges("rated", [rated, blocked, pairs]), 3);
  const [first, second] = (await graph.getEdges(1, "rated", [7, 8])).edges;
  assert.deepEqual([first.state, first.timeMs, second.state, second.timeMs], ["live", 5_000, "negative", 6_000]);
  const read = (each) => [...each.attributes].map(([name, value]) => [name, Buffer.from(value).toString("latin1")]);
  assert.deepEqual(read(first), [["stars", "\xff"], ["note", "good"]]);
  const page = await graph.neighbours(1, "rated", { withAttributes: true });
  assert.deepEqual([page.nodes, page.neighbours.map(({ timeMs }) => timeMs)], [[7n, 9n], [5_000, 7_000]]);
  assert.deepEqual([page.neighbours[0].node, read(page.neighbours[1])], [7n, [["note", "fair"]]]);
  assert.deepEqual((await graph.neighbours(1, "rated", { state: "negative" })).nodes, [8n]);
  assert.deepEqual((await graph.neighbours(1, "rated")).neighbours, []);
});

test("the newest change wins", async () => {
  await changes(graph.addEdges("knows", [[10, 11]], { timeMs: 2_000 }), 1);
  await changes(graph.removeEdges("knows", [[10, 11]], { timeMs: 1_000 }), 0);
  assert.equal((await graph.getEdges(10, "knows", [11])).edges[0].state, "live");
  // The time of an edge precedes that of the call.
  await changes(graph.removeEdges("knows", [{ source: 10, destination: 11, timeMs: 3_000 }], { timeMs: 1_000 }), 1);
});

test("pages in order of time", async () => {
  await graph.declareType("visited", { sortByTime: true });
  const visits = range(1, 5).map((at) => ({ source: 1, destination: 100 + at, timeMs: 1_000 * at }));
  await changes(graph.addEdges("visited", visits), 5);
  const visited = async (options) => numbers((await graph.neighbours(1, "visited", options)).nodes);
  assert.deepEqual(await visited(), [105, 104, 103, 102, 101]);
  assert.deepEqual(await visited({ reverse: true, limit: 2 }), [101, 102]);
  assert.deepEqual(await visited({ times: [2_000, 4_000n] }), [104, 103, 102]);
  assert.equal(codeOf(await graph.neighbours(1, "knows", { times: [0, 9] })), "FAILED_PRECONDITION");
});

test("pages of neighbours", async () => {
  await changes(star(50), 10);
  const pages = await all(graph.neighbourPages(50, "knows", { limit: 3 }));
  assert.deepEqual(pages.map(({ nodes }) => nodes.length), [3, 3, 3, 1]);
  assert.deepEqual(sorted(pages.flatMap(({ nodes }) => nodes)), range(60, 10));
  assert.equal(pages.at(-1).cursor, undefined);
  const { cursor } = pages[0];
  assert.deepEqual(await all(graph.neighbourPages(50, "knows", { limit: 3, cursor })), pages.slice(1));
  assert.deepEqual(await graph.neighbours(50, "knows", { limit: 3, cursor }), pages[1]);
  assert.equal(codeOf(await graph.neighbours(50, "knows", { cursor: "of another query" })), "INVALID_ARGUMENT");
  const failed = await all(graph.neighbourPages(50, "unknown"));
  assert.deepEqual(failed.map(codeOf), ["NOT_FOUND_GRAPH"]);
});

test("pages of sets and of second degrees", async () => {
  await changes(star(50), 10);
  await changes(star(51), 10);
  const lists = [[50, "knows"], [51, "knows"]];
  const common = await all(graph.combinePages("intersection", lists, { limit: 6 }));
  assert.deepEqual(common.map(({ nodes }) => nodes.length), [6, 4]);
  assert.deepEqual(sorted(common.flatMap(({ nodes }) => nodes)), range(60, 10));
  const rest = await graph.combine("intersection", lists, { limit: 6, cursor: common[0].cursor });
  assert.deepEqual(rest, common[1]);
  const pages = await all(graph.secondDegreePages(60, "knows", { limit: 5 }));
  assert.deepEqual([pages.length, sorted(pages.flatMap(({ nodes }) => nodes))], [2, range(61, 9)]);
  assert.deepEqual(await graph.secondDegree(60, "knows", { limit: 5, cursor: pages[0].cursor }), pages[1]);
});

test("common neighbours and sets", async () => {
  const mutual = await graph.mutual(1, 2, "knows");
  assert.deepEqual([mutual.nodes, mutual.partial, (await graph.mutualCount(1, 2, "knows")).count], [[3n], false, 1]);
  const lists = [[1, "knows"], [4, "knows"]];
  const combined = async (operation) => sorted((await graph.combine(operation, lists)).nodes);
  assert.deepEqual(await combined("intersection"), [3]);
  assert.deepEqual(await combined("union"), [2, 3, 5]);
  assert.deepEqual(await combined("difference"), [2]);
});

test("distances and paths", async () => {
  const found = await graph.distances(1, "knows", [1, 2, 4, 5, 77]);
  assert.deepEqual([found.distances, found.partial], [[0, 1, 2, 3, undefined], false]);
  assert.deepEqual((await graph.distances(1, "knows", [2, 4], { distanceMax: 1 })).distances, [1, undefined]);
  const one = await graph.paths(1, 4, "knows");
  assert.deepEqual([one.paths, one.partial], [[[1n, 3n, 4n]], false]);
  assert.deepEqual((await graph.paths(1, 4, "knows", { k: 2 })).paths, [[1n, 3n, 4n], [1n, 2n, 3n, 4n]]);
  assert.deepEqual((await graph.paths(1, 5, "knows", { distanceMax: 2 })).paths, []);
});

test("second degrees and suggestions", async () => {
  const second = await graph.secondDegree(1, "knows", { stale: 10n });
  assert.deepEqual([second.nodes, second.cursor, second.partial], [[4n], undefined, false]);
  assert.equal((await graph.secondDegreeCount(1, "knows")).count, 1);
  await changes(graph.addEdges("knows", [[2, 4], [5, 6]]), 2);
  const suggested = await graph.suggest(1, "knows");
  assert.deepEqual([suggested.suggestions, suggested.partial], [[{ node: 4n, common: 2 }], false]);
  assert.equal((await graph.suggest(4, "knows", { k: 1 })).suggestions[0].common, 2);
});

test("a budget that does not suffice gives a partial result", async () => {
  await changes(graph.addEdges("knows", range(60, 50).map((node) => [50, node])), 50);
  const calls = [
    (options) => graph.secondDegree(60, "knows", options),
    (options) => graph.secondDegreeCount(60, "knows", options),
    (options) => graph.suggest(60, "knows", options),
    (options) => graph.paths(60, 5, "knows", options),
    (options) => graph.distances(60, "knows", [109, 5], options),
  ];
  // The server keeps the second degrees that are complete, for all budgets.
  for (const call of calls) assert.equal((await call({ budget: 1 })).partial, true, `${call}`);
  for (const call of calls) assert.equal((await call({})).partial, false, `${call}`);
});

test("nodes", async () => {
  assert.equal((await graph.getNode(1)).type, "miss");
  await changes(graph.setNode(1, "person", [["name", "Ann"], [Uint8Array.of(255), Uint8Array.of(0)]]), true);
  const found = await graph.getNode(1);
  assert.equal(found.type, "hit");
  assert.deepEqual([found.typeString(), Buffer.from(found.typeBytes()).toString()], ["person", "person"]);
  const bins = found.binsBytes().map((pair) => pair.map((each) => Buffer.from(each).toString("latin1")));
  assert.deepEqual(bins, [["name", "Ann"], ["\xff", "\0"]]);
  await changes(graph.setNode(2, "person", { age: "7" }, { timeMs: 2_000 }), true);
  await changes(graph.setNode(2, "robot", {}, { timeMs: 1_000 }), false);
  assert.deepEqual((await graph.getNode(2)).binsString(), new Map([["age", "7"]]));
  await changes(graph.archiveNode(3), true);
  await changes(graph.archiveNode(3), false);
  assert.deepEqual((await graph.neighbours(1, "knows")).nodes, [2n]);
  await changes(graph.restoreNode(3), true);
  assert.deepEqual((await graph.neighbours(1, "knows")).nodes, [2n, 3n]);
  await changes(graph.removeNode(1), true);
  assert.equal((await graph.getNode(1)).type, "miss");
  assert.equal((await graph.count(1, "knows")).count, 2);
});

test("several queries in one call", async () => {
  const answers = await graph.query([
    GraphQuery.count(1, "knows"),
    GraphQuery.distances(1, "knows", [4]),
    GraphQuery.count(1, "unknown"),
    GraphQuery.paths(1, 4, "knows"),
    GraphQuery.count(1, "knows").inGraph("unknown"),
    GraphQuery.count(0, "knows"),
    GraphQuery.neighbours(1, "knows", { limit: 1 }),
    GraphQuery.getEdges(1, "knows", [2]),
    GraphQuery.mutual(1, 2, "knows"),
    GraphQuery.mutualCount(1, 2, "knows"),
    GraphQuery.combine("union", [[1, "knows"]]),
    GraphQuery.secondDegree(1, "knows"),
    GraphQuery.secondDegreeCount(1, "knows"),
    GraphQuery.suggest(1, "knows"),
  ]);
  assert.equal(answers.type, "success", answers.message);
  const [count, apart, unknownType, through, unknownGraph, zero, page, edges, mutual, ...more] = answers.results;
  assert.deepEqual([count.count, apart.distances, through.paths], [2, [2], [[1n, 3n, 4n]]]);
  assert.deepEqual([unknownType, unknownGraph, zero].map(codeOf), [
    "NOT_FOUND_GRAPH",
    "NOT_FOUND_GRAPH",
    "INVALID_ARGUMENT",
  ]);
  assert.ok(zero.message.startsWith(`cannot execute Count at ${server.address}: `), zero.message);
  assert.deepEqual([page.nodes, edges.edges[0].state, mutual.nodes], [[2n], "live", [3n]]);
  const [mutualCount, union, second, secondCount, suggested] = more;
  assert.deepEqual([mutualCount.count, union.nodes, second.nodes, secondCount.count], [1, [2n, 3n], [4n], 1]);
  assert.deepEqual(suggested.suggestions, [{ node: 4n, common: 1 }]);
  // The next pages of several queries are queries too.
  const following = GraphQuery.neighbours(1, "knows", { limit: 1 }).after(page);
  const [last] = (await graph.query([following])).results;
  assert.deepEqual([last.nodes, following.after(last), following.after(zero)], [[3n], undefined, undefined]);
  assert.equal(codeOf(await graph.query([])), "INVALID_ARGUMENT");
});

test("replies to other queries are refused", () => {
  const results = [{ count: { count: 1n } }];
  const fail = () => assert.fail("no query failed");
  const [count, paths] = [GraphQuery.count(1, "knows"), GraphQuery.paths(1, 2, "knows")];
  assert.equal(answersOf([count], results, fail)[0].count, 1);
  for (const queries of [[count, paths], [paths]]) assert.throws(() => answersOf(queries, results, fail), BadReply);
});

test("errors name their remedies", async () => {
  for (const result of [await client.graph("unknown").count(1, "knows"), await graph.count(1, "unknown")]) {
    assert.deepEqual([codeOf(result), result.retryable], ["NOT_FOUND_GRAPH", false]);
    assert.ok(result.remedy.includes("declareType") && !result.message.includes("G.TYPE"), result.message);
  }
  await graph.declareType("one", { cap: 1 });
  const full = await graph.addEdges("one", [[1, 2], [1, 3]]);
  assert.equal(codeOf(full), "FAILED_PRECONDITION");
  assert.ok(full.message.includes("1 edges were changed before"), full.message);
  const denied = await graph.addEdges("knows", [{ source: 1, destination: 2, attributes: { stars: "5" } }]);
  assert.equal(codeOf(denied), "FAILED_PRECONDITION");
  assert.ok(!denied.remedy.includes("getType"), denied.remedy);
  assert.equal(codeOf(await graph.distances(1, "knows", [2], { distanceMax: 9 })), "INVALID_ARGUMENT");
  const absent = await client.withCache("absent").graph("g").count(1, "knows");
  assert.equal(codeOf(absent), "NOT_FOUND_CACHE");
  assert.ok(absent.remedy.includes("createCache"), absent.remedy);
});

test("arguments out of range are refused", async () => {
  assert.throws(() => client.graph(""), { name: "RangeError", message: /its name is empty/ });
  assert.throws(() => client.graph(7), { name: "TypeError" });
  const calls = [
    () => graph.count(2n ** 64n, "knows"),
    () => graph.count(-1, "knows"),
    () => graph.count(2 ** 53, "knows"),
    () => graph.addEdges("knows", [[1, 0.5]]),
    () => graph.addEdges("knows", [1, 2]),
    () => graph.neighbours(1, "knows", { limit: 0 }),
    () => graph.neighbours(1, "knows", { state: "dead" }),
    () => graph.combine("sum", [[1, "knows"]]),
    () => graph.paths(1, 2, "knows", { k: 0 }),
    () => graph.suggest(1, "knows", { budget: 2 ** 32 }),
    () => graph.setNode(1, "person", {}, { timeMs: -1 }),
  ];
  for (const call of calls) await assert.rejects(call, { name: "RangeError" }, `${call}`);
  await assert.rejects(() => graph.count(1, 7), { name: "TypeError" });
});

test("figures", async () => {
  const stats = await graph.stats();
  assert.deepEqual([stats.types, stats.figures.get("nodes")], [["knows"], 5]);
  const store = await client.graphStoreStats();
  assert.ok(store.graphs.includes(graph.name) && store.figures.get("edges_changed") >= 5);
  assert.equal(JSON.stringify(graph), `{"name":"${graph.name}"}`);
});

test("changes are repeated only with a time", async (context) => {
  const configuration = CONFIGURATION.withRetryBudget(new RetryBudget(10, 1_000));
  const alone = await clientOf(context, `127.0.0.1:${await freePort()}`, configuration);
  const absent = alone.graph("g");
  const timed = [{ source: 1, destination: 2, timeMs: 5 }, { source: 1, destination: 3, timeMs: 6 }];
  const calls = [
    [() => absent.count(1, "knows"), true],
    [() => absent.declareType("knows"), true],
    [() => absent.query([GraphQuery.count(1, "knows")]), true],
    [() => absent.addEdges("knows", [[1, 2]]), false],
    [() => absent.addEdges("knows", [[1, 2]], { timeMs: 5 }), true],
    [() => absent.removeEdges("knows", timed), true],
    [() => absent.removeEdges("knows", [...timed, [1, 4]]), false],
    [() => absent.setNode(1, "person"), false],
    [() => absent.setNode(1, "person", {}, { timeMs: 5 }), true],
    [() => absent.removeNode(1), false],
    [() => absent.removeNode(1, { timeMs: 5 }), true],
    [() => absent.archiveNode(1), false],
    [() => absent.restoreNode(1, { timeMs: 5 }), true],
    [() => absent.stats(), true],
  ];
  for (const [call, repeated] of calls) {
    const { retries } = alone.metrics();
    assert.equal(codeOf(await call()), "UNAVAILABLE");
    assert.equal(alone.metrics().retries > retries, repeated, `${call}`);
  }
});

test("calls have the names of the schema in metrics", async (context) => {
  const other = await clientOf(context, server.address);
  await other.graph(graph.name).neighbours(1, "knows");
  await other.graph(graph.name).query([GraphQuery.count(1, "knows")]);
  await other.graph(graph.name).count(1, "unknown");
  const { methods } = other.metrics();
  assert.deepEqual(Object.keys(methods).sort(), ["Count", "Query", "Range"]);
  assert.deepEqual([methods.Count.calls, methods.Count.errors], [1, { NOT_FOUND_GRAPH: 1 }]);
});

test("a call ends with its signal", async () => {
  const signal = AbortSignal.abort();
  assert.equal(codeOf(await graph.distances(1, "knows", [2], { signal })), "CANCELLED");
  assert.deepEqual((await all(graph.neighbourPages(1, "knows", { signal }))).map(codeOf), ["CANCELLED"]);
});
