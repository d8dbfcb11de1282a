// Tests the published, unmodified ioredis through the Redis protocol.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { once } from "node:events";

import Redis from "ioredis";

import { startServer, until } from "./server.mjs";

const PATIENT = { timeout: 60_000 };

let server;

before(async () => {
  server = await startServer(undefined, { resp: true });
});

after(async () => {
  await server.stop();
  // Connections left open by a failed test would keep this process alive.
  setTimeout(() => process.exit(), 500).unref();
});

test("ioredis: commands, pipelines and walks", PATIENT, async () => {
  const client = new Redis(server.respPort, "127.0.0.1", { connectionName: "io" });
  assert.equal(await client.set("io:k", "v", "EX", 100), "OK");
  assert.equal(await client.get("io:k"), "v");
  assert.ok((await client.ttl("io:k")) > 90);
  assert.equal(await client.incrby("io:n", 7), 7);
  assert.deepEqual(await client.mget("io:k", "io:none"), ["v", null]);
  const bytes = Buffer.from(Array.from({ length: 70000 }, (_, at) => at % 256));
  await client.set("io:bytes", bytes);
  assert.deepEqual(await client.getBuffer("io:bytes"), bytes);
  const pipeline = client.pipeline();
  for (let number = 0; number < 1000; number++) pipeline.set(`io:walk:${number}`, number).get(`io:walk:${number}`);
  const replies = await pipeline.exec();
  assert.ok(replies.every(([error]) => error === null));
  assert.equal(replies[1999][1], "999");
  const met = new Set();
  for await (const keys of client.scanStream({ match: "io:walk:*", count: 100 })) keys.forEach((key) => met.add(key));
  assert.equal(met.size, 1000);
  await assert.rejects(client.call("NOSUCHCOMMAND"), /unknown command/);
  await client.quit();
});

test("ioredis: many at once, and subscribers", PATIENT, async () => {
  const client = new Redis(server.respPort, "127.0.0.1", { enableAutoPipelining: true });
  const subscriber = new Redis(server.respPort, "127.0.0.1");
  const sums = await Promise.all(Array.from({ length: 500 }, () => client.incr("io:many")));
  assert.deepEqual(sums.sort((a, b) => a - b), Array.from({ length: 500 }, (_, at) => at + 1));
  const told = [];
  subscriber.on("message", (channel, text) => told.push([channel, text]));
  subscriber.on("pmessage", (pattern, channel, text) => told.push([pattern, channel, text]));
  assert.equal(await subscriber.subscribe("io:news"), 1);
  assert.equal(await subscriber.psubscribe("io:*"), 2);
  assert.equal(await client.publish("io:news", "hello"), 2);
  await until("both messages", () => told.length === 2);
  assert.deepEqual(told.sort((a, b) => a.length - b.length), [["io:news", "hello"], ["io:*", "io:news", "hello"]]);
  assert.equal(await subscriber.unsubscribe("io:news"), 1);
  subscriber.disconnect();
  await client.quit();
});

test("ioredis: a server that was started again", PATIENT, async () => {
  const first = await startServer(undefined, { resp: true });
  const client = new Redis(first.respPort, "127.0.0.1", { retryStrategy: () => 50, maxRetriesPerRequest: null });
  const subscriber = client.duplicate();
  client.on("error", () => {});
  subscriber.on("error", () => {});
  await subscriber.subscribe("again");
  await client.set("k", "v");
  await first.stop();
  const second = await startServer(first.port, { resp: true, respPort: first.respPort });
  assert.equal(await client.get("k"), null);
  const told = once(subscriber, "message");
  await until("the subscription to be there again", async () => (await client.publish("again", "x")) === 1);
  assert.deepEqual(await told, ["again", "x"]);
  client.disconnect();
  subscriber.disconnect();
  await second.stop();
});

test("ioredis: hashes", PATIENT, async () => {
  const client = new Redis(server.respPort, "127.0.0.1");
  assert.equal(await client.hset("io:user", { name: "Ada", visits: 1 }), 2);
  assert.equal(await client.hset("io:user", "name", "Ada L.", "city", "London"), 1);
  assert.equal(await client.hincrby("io:user", "visits", 4), 5);
  assert.equal(await client.hincrbyfloat("io:user", "score", 1.5), "1.5");
  assert.deepEqual(await client.hgetall("io:user"), { name: "Ada L.", visits: "5", city: "London", score: "1.5" });
  assert.deepEqual(await client.hmget("io:user", "city", "none"), ["London", null]);
  assert.equal(await client.hdel("io:user", "city", "none"), 1);
  await assert.rejects(client.hincrby("io:user", "name", 1), /not an integer/);
  await assert.rejects(client.get("io:user"), /WRONGTYPE/);
  assert.deepEqual(await client.hgetall("io:nobody"), {});
  const fields = new Map(Array.from({ length: 300 }, (_, at) => [`f${at}`, `v${at}`]));
  assert.equal(await client.hset("io:wide", fields), 300);
  const met = new Map();
  for await (const part of client.hscanStream("io:wide", { count: 20 })) {
    for (let at = 0; at < part.length; at += 2) met.set(part[at], part[at + 1]);
  }
  assert.deepEqual([...met].sort(), [...fields].sort());
  await client.quit();
});

test("ioredis: a transaction is done whole or not at all", PATIENT, async () => {
  const client = new Redis(server.respPort, "127.0.0.1");
  const other = new Redis(server.respPort, "127.0.0.1");
  const done = await client.multi().set("io:t", 1).incr("io:t").hset("io:th", "f", "1").hgetall("io:th").exec();
  assert.deepEqual(done, [[null, "OK"], [null, 2], [null, 1], [null, { f: "1" }]]);
  await client.multi({ pipeline: false });
  assert.equal(await client.incr("io:t"), "QUEUED");
  assert.equal(await other.get("io:t"), "2");
  assert.deepEqual(await client.exec(), [[null, 3]]);
  const [set, failed, read] = await client.multi().set("io:word", "x").incr("io:word").get("io:word").exec();
  assert.deepEqual([set, read], [[null, "OK"], [null, "x"]]);
  assert.match(failed[0].message, /not an integer/);
  await assert.rejects(client.multi().set("io:t", "lost").set("io:t").exec(), /EXECABORT/);
  await client.watch("io:t");
  await other.incr("io:t");
  assert.equal(await client.multi().set("io:t", "lost").exec(), null);
  await client.watch("io:t");
  assert.deepEqual(await client.multi().incr("io:t").exec(), [[null, 5]]);
  await client.multi({ pipeline: false });
  assert.equal(await client.set("io:t", "lost"), "QUEUED");
  assert.equal(await client.discard(), "OK");
  assert.equal(await client.get("io:t"), "5");
  await Promise.all([client.quit(), other.quit()]);
});

test("ioredis: a limit of a rate lets through as many as it says", PATIENT, async () => {
  const clients = Array.from({ length: 4 }, () => new Redis(server.respPort, "127.0.0.1"));
  const key = "io:rate";
  const allowed = async (client) => {
    const [[, count]] = await client.multi().incr(key).expire(key, 60, "NX").exec();
    return count <= 10;
  };
  const answers = await Promise.all(Array.from({ length: 100 }, (_, at) => allowed(clients[at % 4])));
  assert.equal(answers.filter(Boolean).length, 10);
  const left = await clients[0].ttl(key);
  assert.ok(left > 0 && left <= 60, `${left}`);
  await clients[0].pexpire(key, 1);
  await until("the next window", () => allowed(clients[0]));
  assert.equal(await clients[0].get(key), "1");
  await Promise.all(clients.map((client) => client.quit()));
});
