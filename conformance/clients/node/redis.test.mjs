// ioredis, as it is published, against the protocol of Redis.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import Redis from "ioredis";

import { startServer } from "./server.mjs";

let server;

before(async () => {
  server = await startServer(undefined, { resp: true });
});

after(() => server.stop());

async function until(what, holds) {
  for (let attempt = 0; attempt < 1000; attempt++) {
    if (await holds()) return;
    await sleep(20);
  }
  assert.fail(`${what} did not happen`);
}

test("ioredis: commands, pipelines and walks", async () => {
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

test("ioredis: many at once, and subscribers", async () => {
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

test("ioredis: a server that was started again", async () => {
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
