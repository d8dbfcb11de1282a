// Leases, records, leaderboards and tokens, against a real server.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { inspect } from "node:util";

import { CacheClient, CredentialProvider, LEADERBOARD_ELEMENTS_MAX, Permission } from "../dist/index.js";
import { clientOf, codeOf, CONFIGURATION, ownServer, redis, Server, sleep, until } from "./server.mjs";

let server, client;

before(async () => {
  server = await Server.start();
  client = await CacheClient.create({ address: server.address, configuration: CONFIGURATION });
});

beforeEach(() => client.flushCache("default"));

after(async () => {
  client.close();
  await server.stop();
});

const type = async (result) => (await result).type;

// Leases.

test("one client computes a value while the others wait", async () => {
  const { leases } = client;
  const [won, wait] = [await leases.get("k"), await leases.get("k")];
  assert.deepEqual([won.type, won.oldBytes(), won.oldString()], ["won", undefined, undefined]);
  assert.deepEqual([wait.type, wait.oldString()], ["wait", undefined]);
  assert.equal(await type(leases.set("k", won.token, "v", { ttlSeconds: 60 })), "stored");
  assert.ok((await client.getTtl("k")).remainingMs > 50_000);
  const hit = await leases.get("k");
  assert.deepEqual([hit.type, hit.valueString()], ["hit", "v"]);
  assert.equal(await type(leases.markStale("k")), "success");
  assert.equal(await type(leases.markStale("none")), "miss");
  const [again, old] = [await leases.get("k"), await leases.get("k")];
  assert.deepEqual([again.type, again.oldString(), old.type, old.oldString()], ["won", "v", "wait", "v"]);
  assert.deepEqual(Buffer.from(old.oldBytes()), Buffer.from("v"));
});

test("a value that changes during a lease is computed again", async () => {
  const { leases } = client;
  await client.set("k", "v");
  await leases.markStale("k");
  const won = await leases.get("k");
  await client.set("k", "of another client");
  assert.equal(await type(leases.set("k", won.token, "late")), "stored");
  const again = await leases.get("k");
  assert.deepEqual([again.type, again.oldString()], ["won", "late"]);
  await client.delete("k");
  assert.equal(await type(leases.set("k", again.token, "too late")), "not_stored");
  assert.equal(await type(client.get("k")), "miss");
});

test("a lease ends after its time, and a value is computed before it expires", async () => {
  const { leases } = client;
  assert.equal(await type(leases.get("k", { leaseSeconds: 1 })), "won");
  assert.equal(await type(leases.get("k")), "wait");
  await client.set("soon", "v", { ttlSeconds: 20 });
  assert.equal(await type(leases.get("soon", { recacheSeconds: 5 })), "hit");
  assert.equal(await type(leases.get("soon", { recacheSeconds: 60 })), "won");
  await until("the lease has ended", async () => (await leases.get("k")).type === "won");
});

test("of many callers that miss a value, one computes it", async (context) => {
  const other = await clientOf(context, server.address);
  let calls = 0;
  const fill = async () => {
    calls++;
    await sleep(50);
    return "computed";
  };
  const callers = Array.from({ length: 40 }, (_, at) => (at % 2 ? client : other).leases.getOrFill("k", fill));
  const texts = (await Promise.all(callers)).map((found) => found.valueString());
  assert.deepEqual([new Set(texts), calls], [new Set(["computed"]), 1]);
  await client.leases.markStale("k");
  const renewed = client.leases.getOrFill("k", async () => (await sleep(50), Uint8Array.of(7)));
  await sleep(10);
  assert.equal((await other.leases.getOrFill("k", fill)).valueString(), "computed", "the old one, at once");
  const waited = await other.leases.getOrFill("k", fill, { acceptOld: false });
  assert.deepEqual([...waited.valueBytes(), ...(await renewed).valueBytes(), calls], [7, 7, 1]);
});

test("a computation that fails or hangs reaches its callers", async () => {
  const { leases } = client;
  const fail = () => Promise.reject(new RangeError("broken"));
  await assert.rejects(leases.getOrFill("k", fail), { name: "RangeError", message: "broken" });
  const late = await leases.getOrFill("k", fail, { deadlineMs: 100 });
  assert.equal(codeOf(late), "TIMEOUT");
  assert.ok(late.message.includes("did not store the value before the deadline"), late.message);
  const signal = AbortSignal.timeout(50);
  assert.equal(codeOf(await leases.getOrFill("k", fail, { signal })), "CANCELLED");
  await client.listPushBack("list", "v");
  assert.equal(codeOf(await leases.getOrFill("list", fail)), "FAILED_PRECONDITION");
});

test("all calls of a fill have one deadline, without the time of the computation", async (context) => {
  const own = await clientOf(context, server.address);
  const { engine } = own.leases;
  const sent = [];
  const call = engine.call;
  engine.call = (...args) => {
    sent.push([args[0].method, performance.now(), args[3].deadlineMs]);
    return call.apply(engine, args);
  };
  assert.equal((await client.leases.get("k", { leaseSeconds: 0.3 })).type, "won");
  const started = performance.now();
  const fill = async () => (await sleep(300), "v");
  assert.equal((await own.leases.getOrFill("k", fill, { deadlineMs: 5000 })).valueString(), "v");
  const gets = sent.slice(0, -1);
  assert.ok(gets.length > 3);
  for (const [method, at, deadlineMs] of gets) {
    assert.equal(method, "LeaseGet");
    assert.ok(at + deadlineMs <= started + 5100, `${at - started} ${deadlineMs}`);
  }
  const [method, at, deadlineMs] = sent.at(-1);
  assert.equal(method, "LeaseSet");
  assert.ok(deadlineMs < gets.at(-1)[2] && at + deadlineMs >= started + 5200, `${at - started} ${deadlineMs}`);
});

// Records.

const BINS = {
  integer: -(2n ** 63n),
  number: 0.5,
  whole: 2,
  yes: true,
  no: false,
  text: "naïve ✓",
  empty: "",
  bytes: Uint8Array.of(255, 0),
  list: [1n, 1.5, true, "x", [], new Map([["k", [7n]]])],
  map: { a: 1n, b: { c: "deep" } },
};

test("records keep the types of their bins", async () => {
  const { records } = client;
  const created = await records.put("r", BINS, { when: "create", set: "people", ttlSeconds: 60 });
  assert.deepEqual([created.type, created.revision], ["success", 1]);
  const found = await records.get("r");
  assert.equal(found.type, "hit");
  assert.deepEqual([found.revision, found.keyString(), [...found.keyBytes()]], [1, "r", [114]]);
  assert.ok(Math.abs(found.expiresAt.getTime() - Date.now() - 60_000) < 10_000);
  const bins = Object.fromEntries(found.bins);
  const { bytes, map, ...rest } = BINS;
  assert.deepEqual([...bins.bytes], [...bytes]);
  assert.deepEqual(bins.map, new Map([["a", map.a], ["b", new Map([["c", "deep"]])]]));
  for (const [name, value] of Object.entries(rest)) assert.deepEqual(bins[name], value, name);
  assert.equal(Object.keys(bins).length, Object.keys(BINS).length);
  // What was read can be stored again.
  assert.equal((await records.put("copy", found.bins)).revision, 1);
  assert.deepEqual((await records.get("copy")).bins, found.bins);
  const some = await records.get("r", { bins: ["text", "no"], filter: "number < 1" });
  assert.deepEqual([...some.bins.keys()], ["text", "no"]);
  assert.equal(await type(records.get("r", { filter: "number > 1" })), "miss");
  assert.equal(await type(records.get("none")), "miss");
  assert.equal((await records.get("copy")).expiresAt, undefined);
});

test("changes of records and their conditions", async () => {
  const { records } = client;
  assert.equal((await records.put("r", { n: 1n, f: 1, t: "a" })).revision, 1);
  assert.equal((await records.add("r", { n: 5n, f: 0.5, fresh: 2n }, { ifRevision: 1 })).revision, 2);
  assert.equal((await records.append("r", { t: "b" }, { filter: "n == 6" })).revision, 3);
  assert.equal((await records.touch("r", { ttlSeconds: 60, ifRevisionAbove: 2 })).revision, 4);
  const found = await records.get("r");
  assert.deepEqual(Object.fromEntries(found.bins), { n: 6n, f: 1.5, fresh: 2n, t: "ab" });
  assert.ok(found.expiresAt);
  assert.equal((await records.put("r", { n: 0n }, { when: "replace", persist: true })).revision, 5);
  const replaced = await records.get("r");
  assert.deepEqual([[...replaced.bins], replaced.expiresAt], [[["n", 0n]], undefined]);
  const errors = [
    [records.put("r", { n: 1n }, { when: "create" }), "ALREADY_EXISTS", 'with when: "update" or without when'],
    [records.put("none", { n: 1n }, { when: "update" }), "NOT_FOUND_RECORD", "create the record first"],
    [records.put("r", { n: 1n }, { ifRevision: 1 }), "ABORTED", "its revision is 5, not 1; read the record again"],
    [records.put("r", { n: 1n }, { filter: "n > 9" }), "FAILED_PRECONDITION", "change the filter"],
    [records.put("r", { n: 1n }, { set: "other" }), "FAILED_PRECONDITION", "set"],
    [records.add("r", { n: 0.5 }), "FAILED_PRECONDITION", "a bigint for INT, a number for FLOAT"],
    [records.add("r", { n: 2n ** 63n - 1n, x: 1n }).then(() => records.add("r", { n: 1n })), "INVALID_ARGUMENT",
      "pass a smaller number"],
    [records.put("r", { "": 1n }), "INVALID_ARGUMENT", "1 to 63 bytes"],
    [records.get("r", { filter: "n >" }), "INVALID_ARGUMENT", ""],
    [records.get(""), "INVALID_ARGUMENT", ""],
    [records.touch("none"), "NOT_FOUND_RECORD", "create the record first"],
    [records.delete("r", { ifRevision: 1 }), "ABORTED", "read the record again"],
  ];
  for (const [call, code, part] of errors) {
    const result = await call;
    assert.equal(codeOf(result), code, result.message);
    assert.ok(result.message.includes(part) && !result.retryable, result.message);
    assert.ok(!/: [A-Z]+ record/.test(result.message), result.message);
  }
  assert.equal(client.metrics().retries, 0);
  assert.equal(await type(records.delete("r")), "success");
  assert.equal(await type(records.delete("r")), "miss");
});

test("values that are none of a bin reject", async () => {
  const { records } = client;
  const cycle = [];
  cycle.push(cycle);
  for (const value of [undefined, null, Symbol("s"), () => 1, new Date()]) {
    await assert.rejects(records.put("r", { b: value }), { name: "TypeError", message: /give a bigint, number,/ });
  }
  await assert.rejects(records.put("r", { b: 2n ** 63n }), { name: "RangeError", message: /64 bits/ });
  await assert.rejects(records.put("r", { b: cycle }), { name: "RangeError", message: /at most 8 levels/ });
  await assert.rejects(records.put("r", { b: 1n }, { when: "sometimes" }), { name: "RangeError", message: /create/ });
  await assert.rejects(records.put("r", { b: 1n }, { ttlSeconds: 0 }), { name: "RangeError", message: /0.001/ });
  let deep = 1n;
  for (let at = 0; at < 9; at++) deep = [deep];
  assert.equal(codeOf(await records.put("r", { b: deep })), "INVALID_ARGUMENT");
});

async function all(records) {
  const keys = [];
  for await (const each of records) keys.push(each.type === "hit" ? each.keyString() : codeOf(each));
  return keys.sort();
}

test("records of a set are read in pages, and found by an index", async () => {
  const { records } = client;
  const numbers = Array.from({ length: 50 }, (_, number) => number);
  await Promise.all(numbers.map((n) => records.put(`p${n}`, { n: BigInt(n), t: `t${n % 2}` }, { set: "pages" })));
  const expected = numbers.slice(10).map((n) => `p${n}`).sort();
  assert.deepEqual(await all(records.scanAll("pages", { countMax: 10, filter: "n >= 10", bins: ["n"] })), expected);
  const page = await records.scan("pages", { countMax: 10 });
  assert.ok(page.type === "success" && page.cursor !== undefined && page.records.length < 50);
  const range = { least: 3n, greatest: 5n };
  const none = await records.query("pages", "n", range);
  assert.equal(codeOf(none), "FAILED_PRECONDITION");
  assert.ok(none.message.includes("create the index with REC.INDEX CREATE"), none.message);
  assert.deepEqual(await all(records.queryAll("pages", "n", range)), ["FAILED_PRECONDITION"]);
  await redis(server, "REC.INDEX", "CREATE", "pages", "n", "INT");
  await redis(server, "REC.INDEX", "CREATE", "pages", "t", "STR");
  assert.deepEqual(await all(records.queryAll("pages", "n", range)), ["p3", "p4", "p5"]);
  assert.deepEqual(await all(records.queryAll("pages", "n", { equal: 7n })), ["p7"]);
  const odd = await all(records.queryAll("pages", "t", { equal: "t1" }, { countMax: 4 }));
  assert.deepEqual(odd, numbers.filter((n) => n % 2).map((n) => `p${n}`).sort());
});

// Leaderboards.

test("a leaderboard ranks its elements in both orders", async () => {
  const board = client.leaderboard("game");
  const elements = [[7, 10], [3, 20.5], [9, -1], [4, 20.5], [5, 0]];
  assert.equal((await board.length()).length, 0);
  assert.equal(await type(board.upsertElements(elements.slice(0, 2))), "success");
  assert.equal(await type(board.upsertElements(new Map(elements))), "success");
  assert.equal((await board.length()).length, 5);
  const rows = async (result) => (await result).elements.map(({ id, rank, score }) => [id, rank, score]);
  const ascending = [[9, 0, -1], [5, 1, 0], [7, 2, 10], [3, 3, 20.5], [4, 4, 20.5]];
  assert.deepEqual(await rows(board.getByRank()), ascending);
  assert.deepEqual(await rows(board.getByRank({ first: 1, end: 3 })), ascending.slice(1, 3));
  assert.deepEqual(await rows(board.getByRank({ end: 2, descending: true })), [[4, 0, 20.5], [3, 1, 20.5]]);
  assert.deepEqual(await rows(board.getByScore({ least: 0, end: 20.5 })), ascending.slice(1, 3));
  assert.deepEqual(await rows(board.getByScore({ end: 0 })), ascending.slice(0, 1));
  assert.deepEqual(await rows(board.getByScore({ offset: 1, countMax: 2 })), ascending.slice(1, 3));
  assert.deepEqual(await rows(board.getByScore({ descending: true, countMax: 1 })), [[4, 0, 20.5]]);
  assert.deepEqual(await rows(board.getRank([3, 1, 9])), [[3, 3, 20.5], [9, 0, -1]]);
  assert.deepEqual(await rows(board.getRank([9], { descending: true })), [[9, 4, -1]]);
  assert.deepEqual(await rows(board.getCompetitionRank([3, 4, 7])), [[3, 0, 20.5], [4, 0, 20.5], [7, 2, 10]]);
  assert.deepEqual(await rows(board.getCompetitionRank([3, 4, 7], { descending: false })),
    [[3, 3, 20.5], [4, 3, 20.5], [7, 2, 10]]);
  assert.equal(await type(board.removeElements([9, 1])), "success");
  assert.equal((await board.length()).length, 4);
  assert.equal((await client.sortedSetLength("game")).length, 4, "it is the sorted set of its name");
  assert.equal(await type(board.delete()), "success");
  assert.equal((await board.length()).length, 0);
});

test("a leaderboard has bounds", async () => {
  const board = client.leaderboard("big");
  const ids = Array.from({ length: LEADERBOARD_ELEMENTS_MAX }, (_, at) => at + 2 ** 32 - 9000);
  assert.equal(await type(board.upsertElements(ids.map((id) => [id, id / 2]))), "success");
  const { elements } = await board.getByRank();
  assert.deepEqual(elements.map((each) => each.id), ids);
  assert.equal(codeOf(await board.getRank([...ids, 1])), "INVALID_ARGUMENT");
  assert.equal(codeOf(await client.leaderboard("").length()), "INVALID_ARGUMENT");
  for (const id of [-1, 1.5, 2 ** 32, NaN]) {
    await assert.rejects(board.removeElements([id]), { name: "RangeError" }, `${id}`);
  }
  await assert.rejects(board.getByScore({ countMax: 0 }), { name: "RangeError" });
});

// Tokens.

const of = (context, token, address = server.address) =>
  clientOf(context, address, CONFIGURATION, { credentials: CredentialProvider.fromString(token) });

test("a token that may only read a prefix", async (context) => {
  const permissions = [Permission.items("read_only", { cache: "default", keyPrefix: "a:" })];
  const first = await client.tokens.generateApiToken(permissions, 60);
  assert.equal(first.type, "success", inspect(first));
  assert.ok(Math.abs(first.validUntil.getTime() - Date.now() - 60_000) < 10_000);
  const second = await client.tokens.refreshApiToken(first.token, first.refreshToken);
  assert.equal(second.type, "success", inspect(second));
  const third = await client.tokens.generateDisposableToken(permissions, 60);
  for (const { token } of [first, second, third]) {
    const reader = await of(context, token);
    assert.equal(await type(reader.get("a:1")), "miss");
    for (const call of [
      reader.get("b:1"),
      reader.set("a:1", "v"),
      reader.flushCache("default"),
      reader.topics.publish("t", "v"),
      reader.tokens.generateApiToken("all", 60),
    ]) {
      assert.equal(codeOf(await call), "PERMISSION_DENIED");
    }
  }
  const refused = await client.tokens.refreshApiToken(first.token, "wrong");
  assert.equal(refused.type, "error", inspect(refused));
});

test("permissions cover roles, caches, keys and topics", async (context) => {
  await client.createCache("shop");
  const issue = async (...permissions) =>
    of(context, (await client.tokens.generateApiToken(permissions, 60, { tokenId: "me" })).token);
  const outcome = async (call) => {
    const result = await call;
    return result.type === "error" ? codeOf(result) : "allowed";
  };
  const DENIED = "PERMISSION_DENIED";
  const one = await issue(Permission.items("read_write", { cache: "shop", key: "k" }));
  assert.equal(await outcome(one.withCache("shop").set("k", "v")), "allowed");
  assert.equal(await outcome(one.withCache("shop").set("k2", "v")), DENIED);
  assert.equal(await outcome(one.set("k", "v")), DENIED);
  const writer = await issue(Permission.items("write_only"));
  assert.equal(await outcome(writer.set("k", "v")), "allowed");
  assert.equal(await outcome(writer.get("k")), DENIED);
  assert.equal(await outcome(writer.setIfAbsent("k", "v")), DENIED);
  const topics = await issue(
    Permission.topics("write_only", { topicPrefix: "news." }),
    Permission.topics("read_only", { topic: "in" }),
  );
  const subscription = await client.topics.subscribe("news.a");
  assert.equal(await outcome(topics.topics.publish("news.a", "v")), "allowed");
  for await (const event of subscription) {
    if (event.type !== "item") continue;
    assert.equal(event.publisherId, "me");
    break;
  }
  assert.equal(await outcome(topics.topics.publish("in", "v")), DENIED);
  assert.equal(await outcome(topics.topics.subscribe("news.a")), DENIED);
  const allowed = await topics.topics.subscribe("in");
  assert.equal(allowed.type, "subscription");
  allowed.close();
  await client.deleteCache("shop");
});

test("a token with all rights, without an end", async (context) => {
  const token = await client.tokens.generateApiToken("all", "never");
  assert.equal(token.validUntil, undefined);
  const admin = await clientOf(context, server.address, CONFIGURATION, { credentials: token.credentials() });
  assert.equal(await type(admin.set("k", "v")), "success");
  assert.equal(await type(admin.tokens.generateDisposableToken("all", 1)), "success");
});

test("tokens expire, and those of another server are refused", async (context) => {
  const short = await client.tokens.generateDisposableToken("all", 1);
  const holder = await of(context, short.token);
  const subscription = await holder.topics.subscribe("t");
  assert.equal(subscription.type, "subscription");
  const own = await ownServer(context);
  const stranger = await of(context, short.token, own.address);
  assert.equal(codeOf(await stranger.get("k")), "UNAUTHENTICATED");
  await until("the token has expired", async () => (await holder.get("k")).code === "UNAUTHENTICATED");
});

test("tokens are not shown, and wrong arguments reject", async () => {
  const { tokens } = client;
  const token = await tokens.generateApiToken("all", 60);
  assert.ok(token.token.length > 20 && token.refreshToken.length > 20);
  for (const shown of [inspect(token, { showHidden: true, depth: 9 }), JSON.stringify(token)]) {
    assert.ok(!shown.includes(token.token) && !shown.includes(token.refreshToken), shown);
  }
  assert.throws(() => Permission.items("owner"), { name: "RangeError", message: /read_write, read_only/ });
  for (const wrong of ["some", [{}], undefined]) {
    await assert.rejects(tokens.generateApiToken(wrong, 60), { name: "TypeError", message: /list of Permission/ });
  }
  for (const seconds of [0, -1, 1.5, 2 ** 32, "ever"]) {
    await assert.rejects(tokens.generateApiToken("all", seconds), { name: "RangeError" }, `${seconds}`);
  }
});
