// Faults of a server: each status, delays, streams that end early, a full server, and one that stops.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";

import { ErrorCode, FixedTimeout, NoRetry, RetryBudget } from "../dist/index.js";
import { clientOf, codeOf, CONFIGURATION, ownServer, Server, sleep, until } from "./server.mjs";

let server;

before(async () => {
  server = await Server.start({ TEST_FAULTS: "1" });
});
after(() => server.stop());

/** Creates a client whose calls ask for faults. */
async function faulty(context, metadata, configuration = CONFIGURATION, address = server.address) {
  const client = await clientOf(context, address, configuration.withRetryBudget(new RetryBudget(10, 1000)));
  for (const [name, value] of Object.entries(metadata)) client.scope.metadata.set(name, `${value}`);
  return client;
}

// The code of each status, and whether the same call may succeed later.
const STATUSES = {
  cancelled: ["CANCELLED", false],
  unknown: ["UNKNOWN", false],
  "invalid-argument": ["INVALID_ARGUMENT", false],
  "deadline-exceeded": ["TIMEOUT", true],
  "not-found": ["NOT_FOUND_CACHE", false],
  "already-exists": ["ALREADY_EXISTS", false],
  "permission-denied": ["PERMISSION_DENIED", false],
  "resource-exhausted": ["LIMIT_EXCEEDED", false],
  "failed-precondition": ["FAILED_PRECONDITION", false],
  aborted: ["ABORTED", false],
  "out-of-range": ["INVALID_ARGUMENT", false],
  unimplemented: ["UNIMPLEMENTED", false],
  internal: ["INTERNAL", true],
  unavailable: ["UNAVAILABLE", true],
  "data-loss": ["INTERNAL", true],
  unauthenticated: ["UNAUTHENTICATED", false],
};

test("each status has a code, and those that pass are retried", async (context) => {
  const codes = new Set();
  for (const [status, [code, retryable]] of Object.entries(STATUSES)) {
    const client = await faulty(context, { "return-error": status });
    const result = await client.get("k");
    assert.equal(codeOf(result), code, status);
    assert.equal(result.retryable, retryable, status);
    assert.equal(client.metrics().retries, ["internal", "unavailable"].includes(status) ? 3 : 0, status);
    assert.equal(codeOf(await client.increment("k")), code);
    codes.add(code);
    client.close();
  }
  // The client itself makes the other codes.
  const others = ["NOT_FOUND_RECORD", "NOT_FOUND_GRAPH", "CLIENT_QUEUE_TIMEOUT", "CLIENT_QUEUE_FULL"];
  assert.deepEqual([...codes, ...others].sort(), Object.keys(ErrorCode).sort());
});

test("a call succeeds after as many failures as it may be repeated", async (context) => {
  for (const [count, type] of [[3, "miss"], [4, "error"]]) {
    const client = await faulty(context, {
      "return-error": "unavailable", "error-count": count, "request-id": `count ${count}`, "error-rpcs": "get",
    });
    assert.equal((await client.get("none")).type, type);
    assert.equal(client.metrics().retries, 3);
    assert.equal((await client.set("k", "v")).type, "success", "the fault is of another method");
  }
});

test("a change of a graph with a time outlasts a failure", async (context) => {
  const name = `faults ${process.pid}`;
  const plain = await clientOf(context, server.address);
  assert.equal((await plain.graph(name).declareType("knows")).type, "success");
  for (const [timeMs, type] of [[5_000, "success"], [undefined, "error"]]) {
    const fault = { "return-error": "unavailable", "error-count": 1, "request-id": `change ${timeMs}` };
    const client = await faulty(context, { ...fault, "error-rpcs": "change" });
    const changed = await client.graph(name).addEdges("knows", [[1, timeMs ?? 2]], { timeMs });
    assert.deepEqual([changed.type, client.metrics().retries], [type, timeMs === undefined ? 0 : 1]);
  }
  assert.deepEqual((await plain.graph(name).neighbours(1, "knows")).nodes, [5_000n]);
});

test("calls of all services are repeated as their effect allows", async (context) => {
  const client = await faulty(context, { "return-error": "unavailable" });
  client.cachesScope.metadata.set("return-error", "unavailable");
  const board = client.leaderboard("b");
  const [often, once] = [[
    () => client.records.get("r"), () => client.records.scan("s"), () => client.records.query("s", "b", { equal: 1n }),
    () => client.leases.markStale("k"), () => board.upsertElements([[1, 1]]), () => board.removeElements([1]),
    () => board.delete(), () => board.length(), () => board.getByRank(), () => board.getByScore(),
    () => board.getRank([1]), () => board.getCompetitionRank([1]), () => client.topics.subscribe("t"),
  ], [
    () => client.records.put("r", { b: 1n }), () => client.records.add("r", { b: 1n }),
    () => client.records.append("r", { b: "a" }), () => client.records.touch("r"), () => client.records.delete("r"),
    () => client.leases.get("k"), () => client.leases.set("k", 1n, "v"), () => client.topics.publish("t", "v"),
    () => client.tokens.generateApiToken("all", 1), () => client.tokens.refreshApiToken("a", "b"),
    () => client.tokens.generateDisposableToken("all", 1),
  ]];
  for (const [calls, expected] of [[often, 3], [once, 0]]) {
    for (const call of calls) {
      const before = client.metrics().retries;
      assert.equal(codeOf(await call()), "UNAVAILABLE", `${call}`);
      assert.equal(client.metrics().retries - before, expected, `${call}`);
    }
  }
});

test("a slow server is a timeout, and holds up no other call", async (context) => {
  const client = await faulty(context, { "delay-ms": 5000, "delay-rpcs": "get" });
  const started = performance.now();
  const slow = client.get("k", { deadlineMs: 300 });
  assert.equal((await client.set("k", "v")).type, "success");
  assert.ok(performance.now() - started < 250, "the set did not wait");
  const late = await slow;
  assert.equal(codeOf(late), "TIMEOUT");
  assert.ok(late.message.includes("no reply arrived before the deadline of 300 ms"), late.message);
});

test("an attempt at a slow server is given up, and the next one succeeds", async (context) => {
  const strategy = new FixedTimeout({ retryDelayMs: 5, responseTimeoutMs: 150 });
  const client = await faulty(context,
    { "delay-ms": 5000, "delay-count": 2, "request-id": "given up" }, CONFIGURATION.withRetryStrategy(strategy));
  await client.get("connects");
  assert.equal((await client.set("k", "v")).type, "success");
  assert.equal(client.metrics().retries, 2);
});

test("a batch whose stream ends early is repeated as a whole", async (context) => {
  const metadata = { "stream-error": "unavailable", "stream-error-message-limit": 1 };
  const client = await faulty(context, metadata, CONFIGURATION.withRetryStrategy(new NoRetry()));
  assert.equal(codeOf(await client.getBatch(["a", "b", "c"])), "UNAVAILABLE");
  assert.equal(codeOf(await client.setBatch({ a: "1", b: "2" })), "UNAVAILABLE");
  const repeated = await faulty(context, metadata);
  assert.equal(codeOf(await repeated.getBatch(["a", "b", "c"])), "UNAVAILABLE");
  assert.equal(repeated.metrics().retries, 3);
  const complete = await faulty(context, { ...metadata, "stream-error-message-limit": 3 });
  assert.equal((await complete.getBatch(["a", "b", "c"])).type, "success", "all replies came before the end");
});

test("a server that stops completes the calls that it has begun", async (context) => {
  const own = await ownServer(context, { TEST_FAULTS: "1" });
  const client = await faulty(context, { "delay-ms": 300, "delay-rpcs": "increment" }, CONFIGURATION, own.address);
  const subscription = await client.topics.subscribe("t");
  assert.equal((await client.get("k")).type, "miss");
  const begun = Array.from({ length: 5 }, () => client.increment("n"));
  await sleep(100);
  const ended = once(own.child, "exit");
  own.child.kill("SIGTERM");
  const numbers = (await Promise.all(begun)).map((result) => result.type === "success" && result.value());
  assert.deepEqual(numbers.sort(), [1, 2, 3, 4, 5]);
  await ended;
  assert.equal(codeOf(await client.get("k")), "UNAVAILABLE");
  await own.restart();
  await until("the client has a new connection", async () => (await client.get("k")).type === "miss");
  const event = subscription.next();
  await until("the subscription has a new stream", async () => {
    await client.topics.publish("t", "again");
    return (await Promise.race([event, sleep(20, {})])).done === false;
  });
});

test("a full server is an error that says so, and its clients come in later", async (context) => {
  const own = await ownServer(context, { CONNECTIONS_MAX: "8" });
  const configuration = CONFIGURATION.withRetryStrategy(new NoRetry());
  const clients = [];
  let refused;
  while (refused === undefined && clients.length < 20) {
    const client = await clientOf(context, own.address, configuration);
    const result = await client.get("k");
    if (result.type === "error") refused = [client, result];
    else clients.push(client);
  }
  const [client, error] = refused;
  assert.ok(clients.length >= 4, `${clients.length} clients`);
  assert.equal(codeOf(error), "UNAVAILABLE");
  for (const part of ["its maximum of connections", "--maxconns"]) {
    assert.ok(error.message.includes(part), error.message);
  }
  assert.equal((await clients[0].get("k")).type, "miss", "clients that are connected are served");
  for (const each of clients) each.close();
  await until("there is room", async () => (await client.get("k")).type === "miss");
});
