// Topics: publishing, subscribing, and what follows a broken connection, against a real server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { status } from "@grpc/grpc-js";
import { parse } from "smol-toml";

import { CacheClient, Configurations, CredentialProvider, NoRetry } from "../dist/index.js";
import { LASTING } from "../dist/streams.js";
import { clientOf, codeOf, CONFIGURATION, freePort, ownServer, Proxy, redis, Server, sleep, until } from "./server.mjs";

let server, client, quiet, heartbeat;

before(async () => {
  server = await Server.start({ TEST_FAULTS: "1" });
  client = await CacheClient.create({ address: server.address, configuration: CONFIGURATION });
  // A topic without messages, whose heartbeat the last test awaits.
  quiet = await subscribe(client, "quiet");
  heartbeat = quiet.next();
});

after(async () => {
  client.close();
  await server.stop();
});

async function subscribe(of, topic, options) {
  const subscription = await of.topics.subscribe(topic, options);
  assert.equal(subscription.type, "subscription", inspect(subscription));
  return subscription;
}

async function publish(of, topic, ...values) {
  for (const value of values) assert.equal((await of.topics.publish(topic, value)).type, "success");
}

/** Returns the next event that is no heartbeat. */
async function next(subscription) {
  for (;;) {
    const { value, done } = await subscription.next();
    if (done) return undefined;
    if (value.type !== "heartbeat") return value;
  }
}

async function texts(subscription, count) {
  const found = [];
  while (found.length < count) {
    const event = await next(subscription);
    found.push(event.type === "item" ? `${event.sequence} ${event.valueString()}` : event.type);
  }
  return found;
}

const receivers = async (topic) => Number((await redis(server, "PUBLISH", topic, "probe")).slice(1));

test("messages arrive with their kind, in order, from all protocols", async () => {
  const subscription = await subscribe(client, "news");
  await publish(client, "news", "naïve ✓", Uint8Array.of(255, 0), "");
  assert.equal(await redis(server, "PUBLISH", "news", "from Redis"), ":1\r\n");
  const items = [];
  for await (const event of subscription) {
    if (event.type === "item") items.push(event);
    if (items.length === 4) break;
  }
  assert.deepEqual(items.map((item) => item.sequence), [1, 2, 3, 4]);
  assert.deepEqual(items.map((item) => item.isText), [true, false, true, true]);
  assert.deepEqual(items.map((item) => item.valueString()), ["naïve ✓", "\ufffd\0", "", "from Redis"]);
  assert.deepEqual([...items[1].valueBytes()], [255, 0]);
  assert.deepEqual(Buffer.from(items[0].valueBytes()).toString(), "naïve ✓");
  assert.ok(items.every((item) => item.page === items[0].page && item.page > 0 && item.publisherId === ""));
});

test("topics of two caches are different ones", async () => {
  await client.createCache("apart");
  const apart = client.withCache("apart");
  const [here, there] = [await subscribe(client, "same"), await subscribe(apart, "same")];
  await publish(client, "same", "here");
  await publish(apart, "same", "there");
  assert.deepEqual([await texts(here, 1), await texts(there, 1)], [["1 here"], ["1 there"]]);
  assert.equal((await client.deleteCache("apart")).type, "success");
  assert.equal(codeOf(await next(there)), "NOT_FOUND_CACHE");
  assert.equal(await next(there), undefined);
  here.close();
});

test("a broken connection loses and repeats no message", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const reader = await clientOf(context, proxy.address);
  const subscription = await subscribe(reader, "resumed");
  await publish(client, "resumed", "a", "b");
  assert.deepEqual(await texts(subscription, 1), ["1 a"]);
  assert.equal(subscription.position.sequence, 2);
  for (const [sequence, value] of [[3, "c"], [4, "d"], [5, "e"]]) {
    const { resumes } = reader.metrics();
    proxy.gates.at(-1).cut();
    await until("it is resumed", () => reader.metrics().resumes === resumes + 1);
    await publish(client, "resumed", value);
    assert.deepEqual(await texts(subscription, 1), [`${sequence - 1} ${"abcde"[sequence - 2]}`]);
    assert.equal(subscription.position.sequence, sequence);
  }
  assert.deepEqual(await texts(subscription, 1), ["5 e"]);
  assert.equal(reader.metrics().resumes, 3);
  assert.ok(proxy.gates.length >= 4, `${proxy.gates.length} connections`);
});

test("a stream that the server ends is resumed by each passing status", async (context) => {
  for (const status of ["unavailable", "internal", "cancelled", "unknown", "aborted"]) {
    const own = await clientOf(context, server.address);
    const { metadata } = own.scope;
    metadata.set("stream-error", status);
    metadata.set("stream-error-rpcs", "topic-subscribe");
    metadata.set("stream-error-message-limit", "2");
    const subscription = await subscribe(own, status, { from: { sequence: 1, page: 0 } });
    const values = Array.from({ length: 7 }, (_, at) => `${at + 1}`);
    await publish(client, status, ...values);
    assert.deepEqual(await texts(subscription, 7), values.map((value) => `${value} ${value}`), status);
    subscription.close();
  }
});

test("a stream that the server refuses for good ends with the error", async (context) => {
  const lasting = {
    "not-found": "NOT_FOUND_CACHE",
    "permission-denied": "PERMISSION_DENIED",
    unauthenticated: "UNAUTHENTICATED",
    "invalid-argument": "INVALID_ARGUMENT",
    unimplemented: "UNIMPLEMENTED",
    "resource-exhausted": "LIMIT_EXCEEDED",
  };
  for (const [status, code] of Object.entries(lasting)) {
    const own = await clientOf(context, server.address);
    own.scope.metadata.set("stream-error", status);
    own.scope.metadata.set("stream-error-message-limit", "1");
    const subscription = await subscribe(own, status);
    await publish(client, status, "a", "b");
    await until("the stream has ended", () => own.metrics().streams === 0);
    assert.deepEqual(await texts(subscription, 1), ["1 a"], "it had arrived before");
    assert.equal(codeOf(await next(subscription)), code);
    assert.equal(await next(subscription), undefined);
    assert.equal(own.metrics().streams, 0);
  }
});

test("a restart of the server is a discontinuity", async (context) => {
  const own = await ownServer(context);
  const reader = await clientOf(context, own.address);
  const subscription = await subscribe(reader, "t");
  await publish(reader, "t", "a", "b");
  assert.deepEqual(await texts(subscription, 2), ["1 a", "2 b"]);
  const event = next(subscription);
  await own.kill();
  await sleep(100);
  await own.restart();
  const gap = await event;
  assert.deepEqual([gap.type, gap.lastSequence, gap.newSequence], ["discontinuity", 2, 1], inspect(gap));
  assert.deepEqual(subscription.position, { sequence: 1, page: gap.newPage });
  await until("the server accepts calls", async () => (await reader.topics.publish("t", "c")).type === "success");
  assert.deepEqual(await texts(subscription, 1), ["1 c"]);
});

test("a later subscription continues at a position", async () => {
  const first = await subscribe(client, "continued");
  await publish(client, "continued", "a", "b", "c");
  await texts(first, 1);
  const { position } = first;
  first.close();
  const second = await subscribe(client, "continued", { from: position });
  assert.deepEqual(await texts(second, 2), ["2 b", "3 c"]);
  second.close();
  const whole = await subscribe(client, "continued", { from: { sequence: 1, page: 0 } });
  assert.deepEqual(await texts(whole, 3), ["1 a", "2 b", "3 c"]);
  whole.close();
  const unknown = await subscribe(client, "continued", { from: { sequence: 9, page: position.page - 1 } });
  assert.equal((await next(unknown)).type, "discontinuity");
  unknown.close();
});

test("a slow consumer holds back the server, and neither memory nor another consumer", async () => {
  const [slow, quick] = [await subscribe(client, "flood"), await subscribe(client, "flood")];
  const value = "x".repeat(30_000);
  const read = texts(quick, 200);
  for (let at = 0; at < 200; at++) await publish(client, "flood", value);
  assert.equal((await read).at(-1), `200 ${value}`, "the quick one has all messages, on the same connection");
  let [items, gaps] = [0, 0];
  for (let event = await next(slow); event.sequence !== 200; event = await next(slow)) {
    if (event.type === "item") items++;
    else gaps++;
  }
  // The server keeps 1 MiB of messages, and the windows of the connection hold a few.
  assert.ok(gaps >= 1 && items < 100, `${gaps} gaps, ${items} messages`);
  slow.close();
  quick.close();
});

test("subscriptions take no places of the requests in flight", async (context) => {
  const own = await ownServer(context);
  const busy = await clientOf(context, own.address, CONFIGURATION.withRequestsInFlightMax(1));
  const subscriptions = await Promise.all(Array.from({ length: 101 }, (_, at) => subscribe(busy, `t${at % 7}`)));
  assert.deepEqual([busy.metrics().inFlight, busy.metrics().streams], [0, 101]);
  assert.equal((await busy.set("k", "v")).type, "success");
  assert.equal((await busy.get("k")).valueString(), "v");
  assert.equal(own.connections(), 3, "one for requests, and two for 101 streams");
  await publish(busy, "t100", "no receiver");
  await publish(busy, "t3", "v");
  assert.deepEqual(await texts(subscriptions[3], 1), ["1 v"]);
  for (const each of subscriptions) each.close();
  assert.equal(busy.metrics().streams, 0);
  await until("the connections of the streams are closed", () => own.connections() === 1);
});

test("the number of subscriptions is bounded", async (context) => {
  const many = await clientOf(context, server.address);
  const one = await subscribe(many, "bounded");
  many.engine.streams.open += 999;
  const refused = await many.topics.subscribe("bounded");
  assert.equal(codeOf(refused), "LIMIT_EXCEEDED");
  assert.ok(refused.message.includes("1000 subscriptions are open"), refused.message);
  many.engine.streams.open -= 999;
  one.close();
});

test("a subscription ends by break, close, signal and the close of its client, and the server forgets it", async () => {
  const ends = {
    async break(of) {
      const subscription = await subscribe(of, "ended");
      await publish(of, "ended", "v");
      for await (const event of subscription) if (event.type === "item") break;
    },
    async close(of) {
      const subscription = await subscribe(of, "ended");
      const event = next(subscription);
      subscription.close();
      assert.equal(await event, undefined);
    },
    async signal(of) {
      const controller = new AbortController();
      const subscription = await subscribe(of, "ended", { signal: controller.signal });
      const event = next(subscription);
      controller.abort();
      assert.equal(await event, undefined);
      assert.equal(await next(subscription), undefined);
      assert.equal(codeOf(await of.topics.subscribe("ended", { signal: controller.signal })), "CANCELLED");
    },
    async client(of) {
      const subscription = await subscribe(of, "ended");
      const event = next(subscription);
      of.close();
      assert.equal(await event, undefined);
      const refused = await of.topics.subscribe("ended");
      assert.ok(codeOf(refused) === "CANCELLED" && refused.message.includes("create a new client"));
    },
  };
  for (const [name, end] of Object.entries(ends)) {
    const own = await CacheClient.create({ address: server.address, configuration: CONFIGURATION });
    await end(own);
    assert.equal(own.metrics().streams, 0, name);
    await until(`the server has forgotten it: ${name}`, async () => (await receivers("ended")) === 0);
    own.close();
  }
});

test("several reads of a subscription get one event each, and its return ends all of them", async () => {
  const subscription = await subscribe(client, "shared");
  const reads = Array.from({ length: 5 }, () => next(subscription));
  await publish(client, "shared", "a", "b", "c");
  const items = await Promise.all(reads.slice(0, 3));
  assert.deepEqual(items.map((item) => item.valueString()), ["a", "b", "c"]);
  assert.deepEqual(await subscription.return(), { done: true, value: undefined });
  assert.deepEqual(await Promise.all(reads.slice(3)), [undefined, undefined]);
  const unread = await subscribe(client, "shared");
  await unread.return();
  await until("the server has forgotten both", async () => (await receivers("shared")) === 0);
});

test("a subscription that waits for the server is cancelled", async (context) => {
  const own = await ownServer(context);
  const waiting = await clientOf(context, own.address);
  await waiting.get("k");
  await own.pause();
  assert.equal(codeOf(await waiting.topics.subscribe("t", { signal: AbortSignal.timeout(100) })), "CANCELLED");
  const late = await waiting.topics.subscribe("t", { deadlineMs: 100 });
  assert.equal(codeOf(late), "TIMEOUT", late.message);
  await assert.rejects(waiting.topics.subscribe("t", { deadlineMs: NaN }), { name: "RangeError" });
  own.resume();
  assert.equal(waiting.metrics().streams, 0);
});

test("a subscription with wrong arguments takes no place, and leaves no timer", async () => {
  const timers = () => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;
  const { streams } = client.metrics();
  const before = timers();
  for (const topic of [undefined, null, 5, {}]) {
    await assert.rejects(client.topics.subscribe(topic), { name: "TypeError", message: /give a string/ });
    await assert.rejects(client.topics.publish(topic, "v"), { name: "TypeError", message: /give a string/ });
  }
  for (const signal of [5, null, "stop", {}]) {
    await assert.rejects(client.topics.subscribe("t", { signal }), { name: "TypeError", message: /AbortController/ });
    await assert.rejects(client.get("k", { signal }), { name: "TypeError", message: /AbortController/ });
  }
  for (const from of [5, null, "first"]) {
    await assert.rejects(client.topics.subscribe("t", { from }), { name: "TypeError", message: /sequence, page/ });
  }
  const place = { sequence: 1, page: 0 };
  for (const wrong of [-1, 1.5, NaN, undefined, 2 ** 64, -1n, 2n ** 64n]) {
    for (const from of [{ ...place, sequence: wrong }, { ...place, page: wrong }]) {
      await assert.rejects(client.topics.subscribe("t", { from }), { name: "RangeError", message: /whole number/ });
    }
  }
  assert.equal(client.metrics().streams, streams);
  assert.equal(client.metrics().inFlight, 0);
  assert.equal(client.engine.pending.size, 0);
  assert.ok(timers() <= before, `${timers()} timers instead of ${before}`);
});

test("a server that is silent for too long is left, and the subscription goes on", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const reader = await clientOf(context, proxy.address, CONFIGURATION.withKeepalive(0));
  const subscription = await subscribe(reader, "silent");
  // It has not noticed the silence yet, and still holds the connection.
  const beside = await subscribe(reader, "beside");
  assert.equal(proxy.gates.length, 1, "both have the same connection");
  subscription.events.source.silenceMsMax = 200;
  clearTimeout(subscription.events.silence);
  subscription.events.silence = undefined;
  await publish(client, "silent", "a");
  assert.deepEqual(await texts(subscription, 1), ["1 a"]);
  for (const gate of proxy.gates) gate.hold();
  const held = performance.now();
  await publish(client, "silent", "b");
  assert.deepEqual(await texts(subscription, 1), ["2 b"]);
  assert.ok(performance.now() - held < 10_000, "it has a new connection although the old one has another stream");
  assert.equal(proxy.gates.length, 2);
  beside.close();
});

test("an event of a later schema is skipped", async (context) => {
  const reader = await clientOf(context, server.address);
  const subscription = await subscribe(reader, "later");
  const { events } = subscription;
  // The field 15 of the schema, which is empty.
  events.onMessage(events.attempt, Buffer.from([(15 << 3) | 2, 0]));
  await publish(client, "later", "a");
  assert.deepEqual(await texts(subscription, 1), ["1 a"]);
  assert.equal(reader.metrics().resumes, 0);
});

test("streams end by the statuses of the table that all clients share", () => {
  const table = parse(readFileSync(new URL("../../streams.toml", import.meta.url), "utf8"));
  assert.deepEqual([...LASTING].map((each) => status[each]).sort(), table.lasting);
  const all = Object.keys(status).filter((each) => isNaN(each));
  assert.deepEqual([...table.lasting, ...table.passing].sort(), all.sort());
});

test("mistakes are errors at the begin of a subscription", async (context) => {
  const once = CONFIGURATION.withRetryStrategy(new NoRetry());
  const nowhere = await clientOf(context, `127.0.0.1:${await freePort()}`, once);
  const none = await nowhere.topics.subscribe("t");
  assert.equal(codeOf(none), "UNAVAILABLE");
  assert.ok(none.message.includes("start one with `gannet serve --grpc"), none.message);
  const other = await clientOf(context, `127.0.0.1:${server.respPort}`, once);
  assert.ok((await other.topics.subscribe("t")).message.includes("does not speak gRPC"));
  assert.equal(codeOf(await client.withCache("absent").topics.subscribe("t")), "NOT_FOUND_CACHE");
  assert.equal(codeOf(await client.topics.subscribe("t".repeat(1025))), "INVALID_ARGUMENT");
  assert.equal(codeOf(await client.topics.publish("", "v")), "INVALID_ARGUMENT");
  await assert.rejects(client.topics.publish("t", 7), { name: "TypeError" });
});

test("a subscription ends when its user loses the right", async (context) => {
  const own = await ownServer(context);
  await redis(own, "ACL", "SETUSER", "ann", "on", ">word", "~*", "+@all", "&t*");
  const ann = { credentials: CredentialProvider.fromString("ann:word") };
  const reader = await clientOf(context, own.address, Configurations.Laptop.v1(), ann);
  assert.equal(codeOf(await reader.topics.subscribe("other")), "PERMISSION_DENIED");
  const subscription = await subscribe(reader, "t1");
  await publish(reader, "t1", "a");
  assert.deepEqual(await texts(subscription, 1), ["1 a"]);
  await redis(own, "ACL", "SETUSER", "ann", "resetchannels");
  await redis(own, "PUBLISH", "t1", "secret");
  assert.equal(codeOf(await next(subscription)), "PERMISSION_DENIED");
  await redis(own, "ACL", "SETUSER", "default", "resetpass", ">secret");
  const refused = await (await clientOf(context, own.address)).topics.subscribe("t");
  assert.equal(codeOf(refused), "UNAUTHENTICATED");
  assert.ok(refused.message.includes("none was passed; pass credentials:"), refused.message);
});

test("a subscription is begun again after failures that pass", async (context) => {
  const own = await clientOf(context, server.address);
  const { metadata } = own.scope;
  metadata.set("request-id", "begun again");
  metadata.set("return-error", "unavailable");
  metadata.set("error-rpcs", "topic-subscribe");
  metadata.set("error-count", "2");
  const subscription = await subscribe(own, "begun");
  assert.equal(own.metrics().retries, 2);
  subscription.close();
});

test("a message is published once, even if its reply is lost", async (context) => {
  const own = await clientOf(context, server.address);
  own.scope.metadata.set("return-error", "unavailable");
  assert.equal(codeOf(await own.topics.publish("once", "v")), "UNAVAILABLE");
  assert.equal(own.metrics().retries, 0);
});

test("a topic without messages has heartbeats", async () => {
  const { value } = await heartbeat;
  assert.equal(value.type, "heartbeat");
  assert.equal(quiet.position.sequence, 1, "a heartbeat names the position of the first message");
  assert.ok(quiet.position.page > 0);
});
