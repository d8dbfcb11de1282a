// The near cache: hits without requests, changes of other clients, bounds, and a lost watch, against a real server.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, beforeEach, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { inspect } from "node:util";

import { CacheClient, CredentialProvider, NoRetry } from "../dist/index.js";
import { clientOf, codeOf, CONFIGURATION, freePort, ownServer, Proxy, redis, Server, until } from "./server.mjs";

let server, client, other;

before(async () => {
  server = await Server.start({ TEST_FAULTS: "1" });
  client = await CacheClient.create({ address: server.address, configuration: CONFIGURATION });
  other = await CacheClient.create({ address: server.address, configuration: CONFIGURATION });
});

beforeEach(() => other.flushCache("default"));

after(async () => {
  client.close();
  other.close();
  await server.stop();
});

/** Creates a near cache that is closed after the test. */
async function nearOf(context, options, of = client) {
  const near = await of.nearCache(options);
  assert.equal(near.type, "near_cache", inspect(near));
  context.after(() => near.close());
  return near;
}

const text = async (result) => {
  const found = await result;
  return found.type === "hit" ? found.valueString() : found.type;
};

/** Reads keys until all of them are hits: changes before the creation of a near cache may be reported after it. */
async function copied(near, ...keys) {
  await until("the keys are copied", async () => {
    const before = near.metrics().hits;
    for (const key of keys) await near.get(key);
    return near.metrics().hits === before + keys.length;
  });
}

const gets = (of) => of.metrics().methods.Get?.calls ?? 0;

test("a present key is read without a request", async (context) => {
  await other.set("k", "v");
  const near = await nearOf(context);
  await copied(near, "k");
  const [before, { hits, misses }] = [gets(client), near.metrics()];
  for (let at = 0; at < 100; at++) assert.equal(await text(near.get("k")), "v");
  assert.equal(await text(near.get(Buffer.from("k"))), "v", "text and bytes are the same key");
  assert.equal(gets(client), before);
  const { entries, bytes, watching, ...rest } = near.metrics();
  assert.deepEqual([rest.hits - hits, rest.misses - misses, entries, bytes, watching], [101, 0, 1, 202, true]);
  assert.equal(await text(near.get("none")), "miss");
  assert.equal(await text(near.get("none")), "miss");
  assert.equal(gets(client), before + 2, "a key that does not exist is not copied");
});

test("a change by any client and protocol reaches the copies", async (context) => {
  const near = await nearOf(context);
  const changes = [
    [() => other.set("k", "w"), "w"],
    [() => redis(server, "SET", "k", "x"), "x"],
    [() => redis(server, "APPEND", "k", "y"), "xy"],
    [() => other.delete("k"), "miss"],
    [() => other.set("k", "z"), "z"],
    [() => redis(server, "FLUSHALL"), "miss"],
  ];
  await other.set("k", "v");
  for (const [change, expected] of changes) {
    if ((await text(near.get("k"))) !== "miss") await copied(near, "k");
    await change();
    await until(`the new value: ${expected}`, async () => (await text(near.get("k"))) === expected);
  }
  assert.ok(near.metrics().invalidations >= 3, inspect(near.metrics()));
  assert.ok(near.metrics().drops >= 1);
});

test("the expiry of an item reaches the copies", async (context) => {
  const near = await nearOf(context);
  await other.set("k", "v", { ttlSeconds: 0.3 });
  await until("it is copied", async () => (await text(near.get("k"))) === "v");
  await until("it has expired", async () => (await text(near.get("k"))) === "miss");
});

test("a client reads its own changes at once, by whatever call", async (context) => {
  const near = await nearOf(context);
  for (let at = 0; at < 150; at++) {
    const reads = [near.get("own"), near.get("own")];
    assert.equal((await client.set("own", `${at}`)).type, "success");
    const later = near.get("own");
    await Promise.all(reads);
    assert.equal(await text(later), `${at}`);
    assert.equal(await text(near.get("own")), `${at}`);
  }
  const { hash } = await client.getWithHash("own");
  const changes = [
    [() => client.increment("own", 5), "154"],
    [() => client.setIfPresent("own", "a"), "a"],
    [() => client.setIfPresentAndHashNotEqual("own", "b", hash), "b"],
    [() => client.setBatch({ other: "x", own: "c" }), "c"],
    [() => client.delete("own"), "miss"],
    [async () => client.leases.set("own", (await client.leases.get("own")).token, "d"), "d"],
    [() => client.withCache("default").set("own", "e"), "e"],
    [() => client.flushCache("default"), "miss"],
  ];
  for (const [change, expected] of changes) {
    await near.get("own");
    const result = await change();
    assert.ok(!["error", "not_stored"].includes(result.type), inspect(result));
    assert.equal(await text(near.get("own")), expected);
  }
});

test("copies never stay behind the server under concurrent changes", async (context) => {
  const near = await nearOf(context, { entriesMax: 20 });
  let state = 4711;
  const random = (below) => (state = (state * 48271) % 2147483647) % below;
  const keys = Array.from({ length: 30 }, (_, at) => `key ${at}`);
  let running = true;
  const readers = Array.from({ length: 8 }, async () => {
    while (running) {
      // Hits alone never wait for the network: let the program read its sockets.
      await turn();
      if (random(4)) await near.get(keys[random(30)]);
      else await near.getBatch([keys[random(30)], keys[random(30)]]);
    }
  });
  for (let at = 0; at < 250; at++) {
    const key = keys[random(30)];
    if (random(10) === 0) await other.delete(key);
    else await other.set(key, `${at}`);
  }
  running = false;
  await Promise.all(readers);
  for (const key of keys) {
    const expected = await text(other.get(key));
    await until(`${key} is current`, async () => (await text(near.get(key))) === expected, 5000);
  }
  const { hits, invalidations, evictions, entries } = near.metrics();
  assert.ok(hits > 50 && invalidations > 50 && evictions > 10, inspect(near.metrics()));
  assert.ok(entries <= 20);
});

test("a reply that arrives after the event of a change is not copied", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const slow = await clientOf(context, proxy.address, CONFIGURATION.withRequestsInFlightMax(1));
  await other.set("late", "old");
  await slow.get("late");
  const near = await nearOf(context, {}, slow);
  await copied(near, "late");
  await other.set("late", "old");
  await until("the copy is dropped", () => near.metrics().entries === 0);
  // The replies to requests wait in the proxy; the events of the watch have another connection.
  proxy.gates[0].hold();
  const read = near.get("late");
  await until("the request is sent", () => slow.metrics().inFlight === 1);
  const { invalidations } = near.metrics();
  await until("the change is reported", async () => {
    await other.set("late", "new");
    return near.watch.reads.size === 0;
  });
  proxy.gates[0].open();
  assert.ok(["old", "new"].includes(await text(read)));
  assert.deepEqual([near.metrics().entries, near.metrics().invalidations], [0, invalidations]);
  assert.equal(await text(near.get("late")), "new");
});

test("the copies have bounds of number and bytes, and those read last stay", async (context) => {
  const near = await nearOf(context, { entriesMax: 3 });
  await other.setBatch({ a: "1", b: "2", c: "3", d: "4" });
  await copied(near, "a", "b", "c");
  await near.get("a");
  const { evictions } = near.metrics();
  await near.get("d");
  assert.deepEqual([near.metrics().entries, near.metrics().evictions], [3, evictions + 1]);
  const before = gets(client);
  for (const key of ["a", "c", "d"]) await near.get(key);
  assert.equal(gets(client), before);
  await near.get("b");
  assert.equal(gets(client), before + 1);
  const small = await nearOf(context, { bytesMax: 10_000 });
  await other.setBatch({ x: "x".repeat(4000), y: "y".repeat(4000), z: "z".repeat(4000), long: "l".repeat(10_000) });
  await copied(small, "x", "y");
  await small.get("z");
  const { entries, bytes } = small.metrics();
  assert.deepEqual([entries, bytes], [2, 2 * (1 + 4000 + 200)]);
  await small.get("long");
  assert.equal(small.metrics().entries, 2, "a value that does not fit drops no others");
});

test("a batch reads only keys without a copy", async (context) => {
  const near = await nearOf(context);
  await other.setBatch({ a: "1", b: "2", "naïve ✓": "3" });
  await copied(near, "a", "naïve ✓");
  const before = near.metrics();
  const batch = await near.getBatch(["b", "a", "none", "naïve ✓", "b"]);
  assert.deepEqual(batch.valuesString(), ["2", "1", undefined, "3", "2"]);
  const { hits, misses } = near.metrics();
  assert.deepEqual([hits - before.hits, misses - before.misses], [2, 3]);
  const calls = () => client.metrics().methods.GetBatch.calls;
  const sent = calls();
  assert.deepEqual((await near.getBatch(["a", "b"])).valuesString(), ["1", "2"]);
  assert.equal(calls(), sent);
  assert.equal(codeOf(await near.getBatch(["a", ""])), "INVALID_ARGUMENT");
  assert.equal(codeOf(await near.get("")), "INVALID_ARGUMENT");
  await assert.rejects(near.get(7), { name: "TypeError" });
  await assert.rejects(near.getBatch(["a", 7]), { name: "TypeError" });
});

test("only keys with the prefixes are copied", async (context) => {
  const near = await nearOf(context, { prefixes: ["user:", Buffer.from("é")] });
  await other.setBatch({ "user:1": "a", élan: "b", "shop:1": "c" });
  await copied(near, "user:1", "élan");
  await near.get("shop:1");
  assert.equal(near.metrics().entries, 2);
  await other.set("user:1", "new");
  await until("the new value", async () => (await text(near.get("user:1"))) === "new");
});

test("a caller cannot change a copy", async (context) => {
  const near = await nearOf(context);
  await other.set("k", "value");
  await copied(near, "k");
  (await near.get("k")).valueBytes().fill(0);
  assert.equal(await text(near.get("k")), "value");
});

test("a lost watch drops all copies, and reads go to the server until it is back", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const reader = await clientOf(context, proxy.address, CONFIGURATION.withRequestsInFlightMax(1));
  await other.set("k", "v");
  await reader.get("k");
  const near = await nearOf(context, {}, reader);
  await copied(near, "k");
  const { drops } = near.metrics();
  proxy.isClosed = true;
  proxy.gates.at(-1).cut();
  await until("the watch is lost", () => !near.metrics().watching);
  assert.deepEqual([near.metrics().entries, near.metrics().drops], [0, drops + 1]);
  const before = gets(reader);
  for (let at = 0; at < 5; at++) assert.equal(await text(near.get("k")), "v");
  assert.deepEqual([gets(reader), near.metrics().entries], [before + 5, 0]);
  await other.set("k", "changed meanwhile");
  assert.equal(await text(near.get("k")), "changed meanwhile");
  proxy.isClosed = false;
  await until("the watch is back", () => near.metrics().watching);
  await copied(near, "k");
  assert.equal(await text(near.get("k")), "changed meanwhile");
});

test("copies are not used after the longest time without an event", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const quiet = CONFIGURATION.withRequestsInFlightMax(1).withKeepalive(0);
  const reader = await clientOf(context, proxy.address, quiet);
  await other.set("k", "v");
  await reader.get("k");
  const near = await nearOf(context, { stalenessMaxSeconds: 6 }, reader);
  await copied(near, "k");
  for (const gate of proxy.gates.slice(1)) gate.hold();
  await other.set("k", "w");
  assert.equal(await text(near.get("k")), "v", "the event has not arrived");
  // The last event was six seconds ago: the copy is not used, although the loop has not noticed the silence yet.
  near.watch.heardAt -= 6000;
  assert.equal(await text(near.get("k")), "w");
  // A silence that the timer notices drops all copies, and begins the watch again.
  near.watch.silenceMsMax = 150;
  near.watch.events.silence = undefined;
  near.watch.events.listen();
  const { drops } = near.metrics();
  await until("the silence is noticed", () => near.metrics().drops === drops + 1);
  assert.ok(codeOf(near.failure) === "TIMEOUT" && near.failure.message.includes("has sent nothing for 150 ms"));
  near.watch.silenceMsMax = 6000;
  await until("the watch is back", () => near.metrics().watching);
});

test("a server that is not there yet is no error", async (context) => {
  const own = await ownServer(context);
  await own.kill();
  const early = await clientOf(context, own.address, CONFIGURATION.withRetryStrategy(new NoRetry()));
  const near = await nearOf(context, { deadlineMs: 100 }, early);
  assert.equal(near.metrics().watching, false);
  assert.equal(codeOf(near.failure), "UNAVAILABLE");
  assert.ok(near.failure.message.includes("start one with `gannet serve --grpc"), near.failure.message);
  assert.equal(codeOf(await near.get("k")), "UNAVAILABLE");
  await own.restart();
  await until("the watch has begun", () => near.metrics().watching);
  assert.equal(near.failure, undefined);
  await until("the client is connected", async () => (await early.set("k", "v")).type === "success");
  await copied(near, "k");
  await own.kill();
  await until("the watch is lost", () => near.metrics().entries === 0);
  await own.restart();
  await until("the watch is back", () => near.metrics().watching);
});

test("a watch that the server refuses is an error", async (context) => {
  assert.equal(codeOf(await client.withCache("absent").nearCache()), "NOT_FOUND_CACHE");
  assert.equal(codeOf(await client.nearCache({ prefixes: ["p".repeat(257)] })), "INVALID_ARGUMENT");
  const many = Array.from({ length: 257 }, (_, at) => `${1000 + at}`);
  assert.equal(codeOf(await client.nearCache({ prefixes: many })), "INVALID_ARGUMENT");
  const own = await ownServer(context);
  await redis(own, "ACL", "SETUSER", "ann", "on", ">word", "%R~a:*", "+@all");
  const ann = await clientOf(context, own.address, CONFIGURATION, {
    credentials: CredentialProvider.fromString("ann:word"),
  });
  assert.equal(codeOf(await ann.nearCache()), "PERMISSION_DENIED");
  const near = await nearOf(context, { prefixes: ["a:"] }, ann);
  assert.equal(near.failure, undefined);
  await redis(own, "ACL", "SETUSER", "ann", "resetkeys");
  await redis(own, "SET", "a:1", "secret");
  await until("the watch has ended", () => near.failure !== undefined);
  assert.equal(codeOf(near.failure), "PERMISSION_DENIED");
  assert.equal(near.metrics().watching, false);
  assert.equal(codeOf(await near.get("a:1")), "PERMISSION_DENIED");
  const nowhere = await clientOf(context, `127.0.0.1:${await freePort()}`);
  const cancelled = await nowhere.nearCache({ signal: AbortSignal.timeout(50) });
  assert.equal(codeOf(cancelled), "CANCELLED");
  nowhere.close();
  assert.equal(codeOf(await nowhere.nearCache()), "CANCELLED");
});

test("wrong options reject", async () => {
  for (const wrong of [
    { entriesMax: 0 }, { bytesMax: NaN }, { stalenessMaxSeconds: 5 }, { deadlineMs: NaN }, { entriesMax: Infinity },
  ]) {
    await assert.rejects(client.nearCache(wrong), { name: "RangeError" }, inspect(wrong));
  }
  await assert.rejects(client.nearCache({ prefixes: "user:" }), { name: "TypeError", message: /pass an array/ });
});

test("a closed near cache reads from the server, and leaves nothing open", async (context) => {
  const own = await clientOf(context, server.address);
  const near = await nearOf(context, {}, own);
  await other.set("k", "v");
  await copied(near, "k");
  near.close();
  near.close();
  assert.deepEqual([near.metrics().watching, near.metrics().entries, own.metrics().streams], [false, 0, 0]);
  assert.equal(await text(near.get("k")), "v");
  assert.equal(near.metrics().entries, 0);
});

test("an open near cache does not keep the process alive, and a subscription does", async () => {
  const program = (last) =>
    `import { CacheClient } from ${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)};` +
    `const client = await CacheClient.create({ address: "${server.address}" });` +
    `const near = await client.nearCache(); await near.get("k"); ${last} console.log(near.type);`;
  const run = (last) => execFileSync(process.execPath, ["--input-type=module", "-e", program(last)], {
    timeout: 20_000,
  }).toString();
  assert.equal(run(""), "near_cache\n");
  const subscribed = `const s = await client.topics.subscribe("t");
    setTimeout(() => client.topics.publish("t", "v"), 300).unref();
    for await (const event of s) if (event.type === "item") { console.log(event.valueString()); break; }`;
  assert.equal(run(subscribed), "v\nnear_cache\n");
});

test("logs of all objects hide the token", async (context) => {
  const own = await ownServer(context);
  await redis(own, "ACL", "SETUSER", "default", "resetpass", ">hidden-word");
  const credentials = CredentialProvider.fromString("hidden-word");
  const of = await clientOf(context, own.address, CONFIGURATION, { credentials });
  const near = await nearOf(context, {}, of);
  const subscription = await of.topics.subscribe("t");
  assert.equal(subscription.type, "subscription");
  for (const each of [of.topics, of.leases, of.records, of.tokens, of.leaderboard("b"), near, subscription]) {
    const shown = inspect(each, { depth: 12 }) + JSON.stringify(each);
    assert.ok(!shown.includes("hidden") && shown.startsWith(each.constructor.name), shown);
  }
});

test("an event of a later schema does not end the watch", async (context) => {
  await other.set("k", "v");
  const near = await nearOf(context);
  await copied(near, "k");
  const { events } = near.watch;
  events.onMessage(events.attempt, Buffer.from([(15 << 3) | 2, 0]));
  assert.equal(near.metrics().watching, true);
  await other.set("k", "w");
  await until("the change is seen", async () => (await text(near.get("k"))) === "w");
  await copied(near, "k");
});
