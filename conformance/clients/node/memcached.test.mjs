// Tests a memcached server with the published, unmodified npm package memcached.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

import Memcached from "memcached";

import { connect, startServer } from "./server.mjs";

const ITEM_MAX = 1024 * 1024;
const COMMANDS = [
  "get", "gets", "getMulti", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "del", "touch",
  "flush", "stats", "version",
];

let server;
let client;

function open(port, options) {
  const raw = new Memcached(`127.0.0.1:${port}`, { timeout: 10000, idle: 60000, ...options });
  const promised = { end: () => raw.end() };
  for (const command of COMMANDS) promised[command] = promisify(raw[command]).bind(raw);
  return promised;
}

// After a server error this client stops using the server; these options make it reconnect at once.
const IMPATIENT = { timeout: 1000, retries: 1, retry: 100, reconnect: 100, failures: 50, minTimeout: 50 };

async function untilAnswered(request) {
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      return await request();
    } catch {
      await sleep(100);
    }
  }
  return request();
}

function everyByte(length) {
  return Buffer.from(Array.from({ length }, (_, index) => index % 256));
}

before(async () => {
  server = await startServer();
});

after(async () => {
  await server.stop();
  // The client keeps a timer for each server it has lost, which would keep this process alive.
  setTimeout(() => process.exit(), 500).unref();
});

beforeEach(async () => {
  client = open(server.port);
  await client.flush();
});

afterEach(() => client.end());

test("a value is read back with its type, which is in the flags", async () => {
  await client.set("text", "value", 0);
  await client.set("number", 42.5, 0);
  await client.set("object", { list: [1, "b"] }, 0);
  assert.equal(await client.get("text"), "value");
  assert.equal(await client.get("number"), 42.5);
  assert.deepEqual(await client.get("object"), { list: [1, "b"] });
  assert.equal(await client.get("missing"), undefined);
});

test("a multi-get returns what is there and nothing else", async () => {
  const keys = [];
  for (let i = 0; i < 300; i++) {
    keys.push(`key-${i}`, `missing-${i}`);
    await client.set(`key-${i}`, `value-${i}`, 0);
  }
  const found = await client.getMulti(keys);
  assert.equal(Object.keys(found).length, 300);
  for (let i = 0; i < 300; i++) assert.equal(found[`key-${i}`], `value-${i}`);
});

test("conditional writes look at what is there", async () => {
  await assert.rejects(client.replace("key", "1", 0), /not stored/i);
  await assert.rejects(client.append("key", "1"), /not stored/i);
  assert.equal(await client.add("key", "2", 0), true);
  await assert.rejects(client.add("key", "3", 0), /not stored/i);
  assert.equal(await client.replace("key", "4", 0), true);
  assert.equal(await client.append("key", ">"), true);
  assert.equal(await client.prepend("key", "<"), true);
  assert.equal(await client.get("key"), "<4>");
  assert.equal(await client.del("key"), true);
  assert.equal(await client.del("key"), false);
});

test("cas stores once for one token", async () => {
  await client.set("key", "1", 0);
  const { key, cas } = await client.gets("key");
  assert.equal(key, "1");
  assert.equal(await client.cas("key", "2", cas, 0), true);
  assert.equal(await client.cas("key", "3", cas, 0), false);
  assert.equal(await client.get("key"), "2");
});

test("counters step and stop at zero", async () => {
  assert.equal(await client.incr("key", 1), false);
  await client.set("key", "10", 0);
  assert.equal(Number(await client.incr("key", 5)), 15);
  assert.equal(Number(await client.decr("key", 100)), 0);
  await client.set("words", "words", 0);
  await assert.rejects(client.incr("words", 1), /non-numeric/);
  assert.equal(await client.get("words"), "words");
});

test("an item is gone when its time is over, and touch moves it", async () => {
  await client.set("short", "1", 1);
  await client.set("touched", "1", 1);
  await client.set("long", "1", 100);
  assert.equal(await client.touch("touched", 100), true);
  assert.equal(await client.get("short"), "1");
  await sleep(2200);
  assert.equal(await client.get("short"), undefined);
  assert.equal(await client.get("touched"), "1");
  assert.equal(await client.get("long"), "1");
});

for (const length of [1, 1000, 8191, 8192, 8193, 65536, 131072, 500000]) {
  test(`a value of ${length} bytes comes back whole`, async () => {
    const value = everyByte(length);
    assert.equal(await client.set("key", value, 0), true);
    const read = await client.get("key");
    assert.ok(Buffer.isBuffer(read) && read.equals(value));
  });
}

// This client sends a buffer's bytes as UTF-8, so the largest value is one of ASCII text.
test("the largest value comes back whole", async () => {
  const value = "0123456789abcdef".repeat(ITEM_MAX / 16).slice(512);
  assert.equal(await client.set("key", value, 0), true);
  assert.equal(await client.get("key"), value);
});

test("a value that is too large is refused and the next request is served", async () => {
  const greedy = open(server.port, { ...IMPATIENT, maxValue: 4 * ITEM_MAX });
  try {
    assert.equal(await greedy.set("key", "x".repeat(ITEM_MAX + 1), 0), false);
    assert.equal(await client.set("after", "1", 0), true);
    assert.equal(await untilAnswered(() => greedy.get("after")), "1");
  } finally {
    greedy.end();
  }
});

test("bytes that look like protocol are data", async () => {
  for (const text of ["\r\n", "END\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n", "\0\0\0", "STORED\r\n"]) {
    const value = Buffer.from(text, "latin1");
    await client.set("key", value, 0);
    assert.ok(value.equals(await client.get("key")), JSON.stringify(text));
  }
});

test("requests in flight together are answered each with its own", async () => {
  const jobs = Array.from({ length: 2000 }, async (_, i) => {
    await client.set(`key-${i}`, `value-${i}`, 0);
    assert.equal(await client.get(`key-${i}`), `value-${i}`);
  });
  await Promise.all(jobs);
});

test("a thousand connections are served at once", async () => {
  await client.set("key", "1", 0);
  const sockets = [];
  try {
    for (let i = 0; i < 1000; i++) sockets.push(await connect(server.port));
    const replies = sockets.map(async (socket) => {
      let text = "";
      while (!text.endsWith("END\r\n")) text += (await once(socket, "data"))[0].toString("latin1");
      return text;
    });
    for (const socket of sockets) socket.write("get key\r\n");
    for (const reply of await Promise.all(replies)) assert.equal(reply, "VALUE key 0 1\r\n1\r\nEND\r\n");
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

test("the server tells its version and its counters", async () => {
  const versions = await client.version();
  assert.ok(versions[0].version.length > 0);
  await client.get("missing");
  const [stats] = await client.stats();
  assert.ok(Number(stats.get_misses) > 0 && Number(stats.curr_connections) > 0);
});

test("a client comes back after the server went", async () => {
  const first = await startServer();
  const own = open(first.port, IMPATIENT);
  let second;
  try {
    assert.equal(await own.set("key", "1", 0), true);
    await first.stop();
    await assert.rejects(own.get("key"));
    second = await startServer(first.port);
    assert.equal(await untilAnswered(() => own.set("key", "2", 0)), true);
    assert.equal(await own.get("key"), "2");
  } finally {
    own.end();
    await second?.stop();
    await first.stop();
  }
});
