// Runs Momento's published, unmodified client for Node (@gomomento/sdk) with every call that it has.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createConnection, createServer } from "node:net";
import { after, afterEach, before, test } from "node:test";

import momento from "@gomomento/sdk";

import { CACHE, fails, is, keyOf, methods, MomentoServer } from "./momento.mjs";
import { until } from "./server.mjs";

const { CollectionTtl, ExpiresIn, MomentoErrorCode, SortedSetOrder } = momento;
const PATIENT = { timeout: 60_000 };
const MINUTE_MS = 60_000;

let server;
let plain;
let cache;

before(async () => {
  server = await MomentoServer.start();
  plain = server.plain;
  cache = server.cacheClient();
});

afterEach(() => plain.flushall());

after(() => server.stop());

test("momento: caches are created, listed, flushed and deleted", PATIENT, async () => {
  await cache.ping();
  await fails(MomentoErrorCode.CACHE_NOT_FOUND_ERROR, cache.get("one", "k"));
  await is("Success", cache.createCache("one"));
  await is("AlreadyExists", cache.createCache("one"));
  await is("Success", cache.set("one", "k", "v"));
  await is("Miss", cache.get(CACHE, "k"));
  const names = (await is("Success", cache.listCaches())).getCaches().map((info) => info.getName());
  assert.deepEqual(names.sort(), ["default", "one"]);
  await is("Success", cache.flushCache("one"));
  await is("Miss", cache.get("one", "k"));
  await is("Success", cache.deleteCache("one"));
  await fails(MomentoErrorCode.CACHE_NOT_FOUND_ERROR, cache.get("one", "k"));
  await fails(MomentoErrorCode.CACHE_NOT_FOUND_ERROR, cache.deleteCache("one"));
});

test("momento: items", PATIENT, async () => {
  await is("Success", cache.set(CACHE, "k", "v"), cache.set(CACHE, "bytes", Uint8Array.of(0, 255), { ttl: 5 }));
  assert.equal((await is("Hit", cache.get(CACHE, "k"))).value(), "v");
  assert.deepEqual((await is("Hit", cache.get(CACHE, "bytes"))).valueUint8Array(), Uint8Array.of(0, 255));
  assert.equal(await plain.get("k"), "v");
  const ttl = await plain.pttl("k");
  assert.ok(ttl > 50_000 && ttl <= MINUTE_MS, `${ttl} ms`);
  assert.equal((await is("Success", cache.increment(CACHE, "n", 5))).value(), 5);
  assert.equal((await is("Success", cache.increment(CACHE, "n", -7))).value(), -2);
  assert.equal((await is("Success", cache.keyExists(CACHE, "k"))).exists(), true);
  assert.deepEqual((await is("Success", cache.keysExist(CACHE, ["k", "no", "n"]))).exists(), [true, false, true]);
  await is("Success", cache.delete(CACHE, "k"));
  await is("Miss", cache.get(CACHE, "k"));
  // The same call by the object of one cache.
  assert.equal((await is("Hit", cache.cache(CACHE).get("n"))).value(), "-2");
});

test("momento: values of all lengths come back", PATIENT, async () => {
  for (const length of [1, 8_191, 8_192, 65_535, 65_536, 1_000_000]) {
    const value = Uint8Array.from({ length }, (_, at) => at % 251);
    await is("Success", cache.set(CACHE, "long", value));
    assert.deepEqual((await is("Hit", cache.get(CACHE, "long"))).valueUint8Array(), value, `${length} bytes`);
  }
});

test("momento: batches reply in the order of their requests", PATIENT, async () => {
  const items = new Map(Array.from({ length: 300 }, (_, at) => [`k${at}`, `v${at}`]));
  const stored = await is("Success", cache.setBatch(CACHE, items));
  assert.equal(stored.results().length, 300);
  await is("Success", cache.setBatch(CACHE, { short: "s" }, { ttl: 5 }));
  assert.ok((await plain.pttl("short")) <= 5_000);
  const keys = [...items.keys()].reverse();
  const found = await is("Success", cache.getBatch(CACHE, [...keys, "none"]));
  assert.deepEqual(found.results().map((reply) => reply.type), [...keys.map(() => "Hit"), "Miss"]);
  assert.deepEqual(found.values(), Object.fromEntries(items));
});

test("momento: conditions of sets", PATIENT, async () => {
  const stored = (call) => is("Stored", call);
  const refused = (call) => is("NotStored", call);
  await refused(cache.setIfPresent(CACHE, "k", "a"));
  await refused(cache.setIfEqual(CACHE, "k", "a", "x"));
  await refused(cache.setIfPresentAndNotEqual(CACHE, "k", "a", "x"));
  await stored(cache.setIfNotEqual(CACHE, "k", "a", "x"));
  await refused(cache.setIfNotEqual(CACHE, "k", "b", "a"));
  await stored(cache.setIfPresent(CACHE, "k", "b"));
  await refused(cache.setIfAbsent(CACHE, "k", "c"));
  await stored(cache.setIfEqual(CACHE, "k", "c", "b"));
  await stored(cache.setIfPresentAndNotEqual(CACHE, "k", "d", "x"));
  await refused(cache.setIfPresentAndNotEqual(CACHE, "k", "e", "d"));
  await refused(cache.setIfAbsentOrEqual(CACHE, "k", "e", "x"));
  await stored(cache.setIfAbsentOrEqual(CACHE, "k", "e", "d"));
  await stored(cache.setIfAbsentOrEqual(CACHE, "absent", "f", "x"));
  await stored(cache.setIfAbsent(CACHE, "absent 2", "g"));
  await stored(cache.setIfNotExists(CACHE, "absent 3", "h"));
  await refused(cache.setIfNotExists(CACHE, "absent 3", "i"));
  assert.deepEqual(await plain.mget("k", "absent", "absent 2", "absent 3"), ["e", "f", "g", "h"]);
});

test("momento: conditions on hashes", PATIENT, async () => {
  await is("Miss", cache.getWithHash(CACHE, "k"));
  const first = (await is("Stored", cache.setWithHash(CACHE, "k", "a"))).hashUint8Array();
  const read = await is("Hit", cache.getWithHash(CACHE, "k"));
  assert.deepEqual([read.value(), read.hashUint8Array()], ["a", first]);
  const other = Uint8Array.from(first, (byte) => byte ^ 1);
  await is("NotStored", cache.setIfPresentAndHashEqual(CACHE, "k", "b", other));
  await is("NotStored", cache.setIfPresentAndHashNotEqual(CACHE, "k", "b", first));
  await is("NotStored", cache.setIfAbsentOrHashEqual(CACHE, "k", "b", other));
  await is("NotStored", cache.setIfAbsentOrHashNotEqual(CACHE, "k", "b", first));
  await is("NotStored", cache.setIfPresentAndHashEqual(CACHE, "none", "b", first));
  await is("NotStored", cache.setIfPresentAndHashNotEqual(CACHE, "none", "b", first));
  const next = (await is("Stored", cache.setIfPresentAndHashEqual(CACHE, "k", "b", first))).hashUint8Array();
  assert.notDeepEqual(next, first);
  await is("Stored", cache.setIfPresentAndHashNotEqual(CACHE, "k", "c", first));
  await is("Stored", cache.setIfAbsentOrHashEqual(CACHE, "new", "d", first));
  await is("Stored", cache.setIfAbsentOrHashNotEqual(CACHE, "new 2", "e", first));
  assert.deepEqual(await plain.mget("k", "new", "new 2", "none"), ["c", "d", "e", null]);
});

test("momento: times to live and types", PATIENT, async () => {
  await is("Miss", cache.updateTtl(CACHE, "k", 1000), cache.increaseTtl(CACHE, "k", 1000));
  await is("Miss", cache.decreaseTtl(CACHE, "k", 1000), cache.itemGetTtl(CACHE, "k"), cache.itemGetType(CACHE, "k"));
  await cache.set(CACHE, "k", "v");
  await is("NotSet", cache.increaseTtl(CACHE, "k", 30_000), cache.decreaseTtl(CACHE, "k", 90_000));
  await is("Set", cache.increaseTtl(CACHE, "k", 90_000));
  assert.ok((await plain.pttl("k")) > MINUTE_MS);
  await is("Set", cache.decreaseTtl(CACHE, "k", 20_000), cache.updateTtl(CACHE, "k", 10_000));
  const left = (await is("Hit", cache.itemGetTtl(CACHE, "k"))).remainingTtlMillis();
  assert.ok(left > 0 && left <= 10_000, `${left} ms`);
  await plain.hset("d", "f", "v");
  await plain.rpush("l", "v");
  await plain.sadd("s", "v");
  await plain.zadd("z", 1, "v");
  for (const [key, type] of Object.entries({ k: "SCALAR", d: "DICTIONARY", l: "LIST", s: "SET", z: "SORTED_SET" })) {
    const found = (await is("Hit", cache.itemGetType(CACHE, key))).itemType();
    assert.equal(found, momento.ItemType[type], key);
  }
});

test("momento: dictionaries", PATIENT, async () => {
  await is("Miss", cache.dictionaryFetch(CACHE, "d"), cache.dictionaryLength(CACHE, "d"));
  await is("Miss", cache.dictionaryGetField(CACHE, "d", "a"), cache.dictionaryGetFields(CACHE, "d", ["a"]));
  await is("Success", cache.dictionarySetField(CACHE, "d", "a", "1"));
  await is("Success", cache.dictionarySetFields(CACHE, "d", { b: "2", c: "3", d: "4" }));
  assert.deepEqual(await plain.hgetall("d"), { a: "1", b: "2", c: "3", d: "4" });
  assert.equal((await is("Hit", cache.dictionaryGetField(CACHE, "d", "a"))).value(), "1");
  await is("Miss", cache.dictionaryGetField(CACHE, "d", "x"));
  const some = await is("Hit", cache.dictionaryGetFields(CACHE, "d", ["b", "x", "a"]));
  assert.deepEqual(some.value(), { a: "1", b: "2" });
  assert.deepEqual(some.responses.map((reply) => reply.type), ["Hit", "Miss", "Hit"]);
  assert.equal((await is("Success", cache.dictionaryIncrement(CACHE, "d", "a", 41))).value(), 42);
  await is("Success", cache.dictionaryRemoveField(CACHE, "d", "b"));
  await is("Success", cache.dictionaryRemoveFields(CACHE, "d", ["c", "x"]));
  assert.deepEqual((await is("Hit", cache.dictionaryFetch(CACHE, "d"))).value(), { a: "42", d: "4" });
  assert.equal((await is("Hit", cache.dictionaryLength(CACHE, "d"))).length(), 2);
});

test("momento: collections keep or refresh their times to live", PATIENT, async () => {
  const add = async (ttl) => {
    await is("Success", cache.setAddElement(CACHE, "s", "a", { ttl }));
    return plain.pttl("s");
  };
  assert.ok((await add(CollectionTtl.of(60).withNoRefreshTtlOnUpdates())) > 50_000);
  assert.ok((await add(CollectionTtl.of(5).withNoRefreshTtlOnUpdates())) > 50_000);
  assert.ok((await add(CollectionTtl.of(5).withRefreshTtlOnUpdates())) <= 5_000);
});

test("momento: sets", PATIENT, async () => {
  await is("Miss", cache.setFetch(CACHE, "s"), cache.setLength(CACHE, "s"), cache.setSample(CACHE, "s", 1));
  await is("Miss", cache.setPop(CACHE, "s", 1), cache.setContainsElement(CACHE, "s", "a"));
  await is("Miss", cache.setContainsElements(CACHE, "s", ["a"]));
  await is("Success", cache.setAddElement(CACHE, "s", "a"), cache.setAddElements(CACHE, "s", ["b", "c", "d", "e"]));
  assert.deepEqual((await plain.smembers("s")).sort(), ["a", "b", "c", "d", "e"]);
  assert.equal((await is("Hit", cache.setContainsElement(CACHE, "s", "a"))).containsElement(), true);
  const contained = await is("Hit", cache.setContainsElements(CACHE, "s", ["x", "b"]));
  assert.deepEqual(contained.containsElements(), { x: false, b: true });
  await is("Success", cache.setRemoveElement(CACHE, "s", "a"), cache.setRemoveElements(CACHE, "s", ["b", "x"]));
  const fetched = await is("Hit", cache.setFetch(CACHE, "s"));
  assert.deepEqual([...fetched.valueSet()].sort(), ["c", "d", "e"]);
  assert.equal((await is("Hit", cache.setLength(CACHE, "s"))).length(), 3);
  assert.equal((await is("Hit", cache.setSample(CACHE, "s", 2))).valueSet().size, 2);
  assert.equal((await is("Hit", cache.setPop(CACHE, "s", 2))).valueSet().size, 2);
  assert.equal(await plain.scard("s"), 1);
});

test("momento: lists", PATIENT, async () => {
  await is("Miss", cache.listFetch(CACHE, "l"), cache.listLength(CACHE, "l"), cache.listPopBack(CACHE, "l"));
  await is("Miss", cache.listPopFront(CACHE, "l"));
  await is("Success", cache.listConcatenateBack(CACHE, "l", ["c", "d"]));
  await is("Success", cache.listConcatenateFront(CACHE, "l", ["a", "b"]));
  await is("Success", cache.listPushBack(CACHE, "l", "e"));
  assert.equal((await is("Success", cache.listPushFront(CACHE, "l", "z"))).listLength(), 6);
  assert.deepEqual(await plain.lrange("l", 0, -1), ["z", "a", "b", "c", "d", "e"]);
  const part = await is("Hit", cache.listFetch(CACHE, "l", { startIndex: 1, endIndex: -2 }));
  assert.deepEqual(part.value(), ["a", "b", "c"]);
  assert.equal((await is("Hit", cache.listPopFront(CACHE, "l"))).value(), "z");
  assert.equal((await is("Hit", cache.listPopBack(CACHE, "l"))).value(), "e");
  await is("Success", cache.listPushBack(CACHE, "l", "a", { truncateFrontToSize: 4 }));
  assert.deepEqual((await is("Hit", cache.listFetch(CACHE, "l"))).value(), ["b", "c", "d", "a"]);
  await is("Success", cache.listPushFront(CACHE, "l", "a", { truncateBackToSize: 3 }));
  assert.deepEqual(await plain.lrange("l", 0, -1), ["a", "b", "c"]);
  await is("Success", cache.listConcatenateBack(CACHE, "l", ["a", "b"], { truncateFrontToSize: 4 }));
  await is("Success", cache.listConcatenateFront(CACHE, "l", ["b"], { truncateBackToSize: 4 }));
  assert.deepEqual(await plain.lrange("l", 0, -1), ["b", "b", "c", "a"]);
  await is("Success", cache.listRemoveValue(CACHE, "l", "b"));
  assert.equal((await is("Hit", cache.listLength(CACHE, "l"))).length(), 2);
  await is("Success", cache.listConcatenateBack(CACHE, "l", ["x", "y"]));
  await is("Success", cache.listRetain(CACHE, "l", { startIndex: 1, endIndex: 3 }));
  assert.deepEqual(await plain.lrange("l", 0, -1), ["a", "x"]);
});

test("momento: sorted sets", PATIENT, async () => {
  await is("Miss", cache.sortedSetFetchByRank(CACHE, "z"), cache.sortedSetFetchByScore(CACHE, "z"));
  await is("Miss", cache.sortedSetLength(CACHE, "z"), cache.sortedSetLengthByScore(CACHE, "z"));
  await is("Miss", cache.sortedSetGetScores(CACHE, "z", ["a"]));
  await is("Success", cache.sortedSetPutElement(CACHE, "z", "a", 1.5));
  await is("Success", cache.sortedSetPutElements(CACHE, "z", { b: 2.5, c: -1, d: 10 }));
  assert.deepEqual(await plain.zrange("z", 0, -1, "WITHSCORES"), ["c", "-1", "a", "1.5", "b", "2.5", "d", "10"]);
  const values = async (call) => (await is("Hit", call)).valueArray().map((element) => element.value);
  const descending = { order: SortedSetOrder.Descending };
  assert.deepEqual(await values(cache.sortedSetFetchByRank(CACHE, "z")), ["c", "a", "b", "d"]);
  const ranks = { startRank: 1, endRank: 3, ...descending };
  assert.deepEqual(await values(cache.sortedSetFetchByRank(CACHE, "z", ranks)), ["b", "a"]);
  assert.deepEqual(await values(cache.sortedSetFetchByScore(CACHE, "z", { minScore: 0, maxScore: 3 })), ["a", "b"]);
  const page = { offset: 1, count: 2, ...descending };
  assert.deepEqual(await values(cache.sortedSetFetchByScore(CACHE, "z", page)), ["b", "a"]);
  assert.equal((await is("Hit", cache.sortedSetGetRank(CACHE, "z", "a"))).rank(), 1);
  assert.equal((await is("Hit", cache.sortedSetGetRank(CACHE, "z", "a", descending))).rank(), 2);
  assert.equal((await is("Hit", cache.sortedSetGetScore(CACHE, "z", "b"))).score(), 2.5);
  await is("Miss", cache.sortedSetGetScore(CACHE, "z", "x"));
  assert.deepEqual((await is("Hit", cache.sortedSetGetScores(CACHE, "z", ["d", "x"]))).value(), { d: 10 });
  assert.equal((await is("Success", cache.sortedSetIncrementScore(CACHE, "z", "c", 2.25))).score(), 1.25);
  assert.equal((await is("Hit", cache.sortedSetLength(CACHE, "z"))).length(), 4);
  const between = { minScore: 1.25, maxScore: 2.5 };
  assert.equal((await is("Hit", cache.sortedSetLengthByScore(CACHE, "z", between))).length(), 3);
  await is("Success", cache.sortedSetRemoveElement(CACHE, "z", "c"));
  await is("Success", cache.sortedSetRemoveElements(CACHE, "z", ["d", "x"]));
  await plain.zadd("y", 10, "b");
  const sources = [{ sortedSetName: "z", weight: 1 }, { sortedSetName: "y", weight: 0.5 }];
  for (const [aggregate, score] of [["SUM", "7.5"], ["MIN", "2.5"], ["MAX", "5"]]) {
    const how = { aggregate: momento.SortedSetAggregate[aggregate] };
    const made = await is("Success", cache.sortedSetUnionStore(CACHE, "u", sources, how));
    assert.equal(made.length(), 2);
    assert.equal(await plain.zscore("u", "b"), score, aggregate);
  }
});

// Subscribes and returns what the subscription has received.
async function subscribed(topics, topic, cacheName = CACHE) {
  const got = { items: [], sequences: [], tokens: [], discontinuities: [], heartbeats: 0, errors: [], lost: 0 };
  const subscription = await topics.subscribe(cacheName, topic, {
    onItem: (item) => {
      got.items.push(item.value());
      got.sequences.push(item.sequenceNumber());
      got.tokens.push(item.tokenId());
    },
    onDiscontinuity: (one) => got.discontinuities.push([one.lastSequenceNumber(), one.newSequenceNumber()]),
    onHeartbeat: () => got.heartbeats++,
    onError: (error) => got.errors.push(error.errorCode()),
    onConnectionLost: () => got.lost++,
  });
  return Object.assign(got, { subscription });
}

test("momento: topics", PATIENT, async () => {
  const topics = server.topicClient();
  await is("Success", topics.publish(CACHE, "news", "to no subscriber"));
  const got = await subscribed(topics, "news");
  const other = await subscribed(topics, "news");
  await is("Subscription", got.subscription, other.subscription);
  await is("Success", topics.publish(CACHE, "news", "text"));
  await is("Success", topics.publish(CACHE, "news", Uint8Array.of(0, 255)));
  await plain.publish("news", "of Redis");
  await until("all messages", () => got.items.length === 3 && other.items.length === 3);
  assert.deepEqual(got.items.slice(0, 2), ["text", Uint8Array.of(0, 255)]);
  assert.equal(Buffer.from(got.items[2]).toString(), "of Redis");
  assert.deepEqual(got.sequences, [1, 2, 3].map((add) => got.sequences[0] - 1 + add));
  assert.deepEqual(other, { ...got, subscription: other.subscription });
  got.subscription.unsubscribe();
  await topics.publish(CACHE, "news", "after the end");
  await until("the message", () => other.items.length === 4);
  assert.equal(got.items.length, 3);
  other.subscription.unsubscribe();
  const absent = await topics.publish("absent", "news", "v");
  await fails(MomentoErrorCode.CACHE_NOT_FOUND_ERROR, absent);
  await fails(MomentoErrorCode.CACHE_NOT_FOUND_ERROR, (await subscribed(topics, "news", "absent")).subscription);
});

// Forwards connections to the server until they are cut.
async function cuttable(port) {
  const sockets = new Set();
  const proxy = createServer((client) => {
    const upstream = createConnection(port, "127.0.0.1");
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const own = proxy.address().port;
  return {
    port: own,
    cut: async () => {
      const closed = once(proxy, "close");
      proxy.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    mend: async () => {
      proxy.listen(own, "127.0.0.1");
      await once(proxy, "listening");
    },
  };
}

test("momento: a subscription continues after its connection was cut", PATIENT, async () => {
  const proxy = await cuttable(server.port);
  const topics = server.topicClient({ port: proxy.port });
  const direct = server.topicClient();
  const got = await subscribed(topics, "cut");
  await is("Success", direct.publish(CACHE, "cut", "0"));
  await until("the first message", () => got.items.length === 1);
  await proxy.cut();
  for (let at = 1; at < 20; at++) await is("Success", direct.publish(CACHE, "cut", String(at)));
  await proxy.mend();
  await until("the other messages", () => got.items.length >= 20);
  assert.deepEqual(got.items, Array.from({ length: 20 }, (_, at) => String(at)));
  assert.deepEqual([got.discontinuities, got.errors, got.lost], [[], [], 1]);
  got.subscription.unsubscribe();
  await proxy.cut();
});

test("momento: a subscription that missed more than is kept gets a discontinuity", PATIENT, async () => {
  const proxy = await cuttable(server.port);
  const topics = server.topicClient({ port: proxy.port });
  const direct = server.topicClient();
  const got = await subscribed(topics, "gap");
  await is("Success", direct.publish(CACHE, "gap", "0"));
  await until("the first message", () => got.items.length === 1);
  await proxy.cut();
  for (let at = 1; at < 1500; at++) plain.publish("gap", String(at));
  await is("Success", direct.publish(CACHE, "gap", "1500"));
  await proxy.mend();
  await until("the last message", () => got.items.at(-1) === "1500");
  assert.equal(got.discontinuities.length, 1);
  const [last, next] = got.discontinuities[0];
  assert.equal(last, got.sequences[0]);
  assert.equal(got.sequences.length - 1, 1024);
  assert.equal(got.sequences[1], next);
  got.subscription.unsubscribe();
  await proxy.cut();
});

test("momento: leaderboards", PATIENT, async () => {
  const board = server.leaderboard("game");
  assert.equal((await is("Success", board.length())).length(), 0);
  await is("Success", board.upsert({ 1: 10, 2: 20.5, 3: 30, 4: 30 }));
  await is("Success", board.upsert(new Map([[1, 15]])));
  assert.equal((await is("Success", board.length())).length(), 4);
  const ids = async (call) => (await is("Success", call)).values().map(({ id, score, rank }) => [id, score, rank]);
  const descending = { order: momento.LeaderboardOrder.Descending };
  assert.deepEqual(await ids(board.fetchByRank(0, 2)), [[1, 15, 0], [2, 20.5, 1]]);
  assert.deepEqual(await ids(board.fetchByRank(0, 3, descending)), [[4, 30, 0], [3, 30, 1], [2, 20.5, 2]]);
  assert.deepEqual(await ids(board.fetchByScore({ minScore: 15, maxScore: 30 })), [[1, 15, 0], [2, 20.5, 1]]);
  assert.deepEqual(await ids(board.fetchByScore({ offset: 1, count: 2 })), [[2, 20.5, 1], [3, 30, 2]]);
  assert.deepEqual(await ids(board.getRank([2, 9], descending)), [[2, 20.5, 2]]);
  await is("Success", board.removeElements([1, 9]));
  assert.equal((await is("Success", board.length())).length(), 3);
  assert.equal(await plain.zscore("game", "2"), "20.5");
  await is("Success", board.delete());
  assert.equal((await is("Success", board.length())).length(), 0);
});

test("momento: API keys have the rights of their scopes, and are refreshed", PATIENT, async () => {
  const { PermissionScopes } = momento;
  const auth = server.authClient();
  await is("Success", cache.set(CACHE, "k", "v"));
  const reading = await is("Success", auth.generateApiKey(PermissionScopes.cacheReadOnly(CACHE), ExpiresIn.minutes(5)));
  assert.ok(Math.abs(reading.expiresAt.epoch() - Date.now() / 1000 - 300) < 60);
  const reader = server.cacheClient({ key: reading.apiKey });
  assert.equal((await is("Hit", reader.get(CACHE, "k"))).value(), "v");
  await fails(MomentoErrorCode.PERMISSION_ERROR, reader.set(CACHE, "k", "w"));
  const renewed = await is("Success", server.authClient({ key: reading.apiKey }).refreshApiKey(reading.refreshToken));
  const again = server.cacheClient({ key: renewed.apiKey });
  await is("Hit", again.get(CACHE, "k"));
  await fails(MomentoErrorCode.PERMISSION_ERROR, again.delete(CACHE, "k"));
  const all = await is("Success", auth.generateAuthToken(momento.AllDataReadWrite, ExpiresIn.never()));
  const every = server.cacheClient({ key: all.authToken });
  await is("Success", every.set(CACHE, "k", "w"));
  await is("Success", server.authClient({ key: all.authToken }).refreshAuthToken(all.refreshToken));
  const issued = JSON.parse(Buffer.from(all.apiKey, "base64").toString());
  assert.match(issued.endpoint, /^127\.0\.0\.1:\d+$/);
  const forged = keyOf(issued.api_key.slice(0, -1) + (issued.api_key.endsWith("A") ? "B" : "A"));
  await fails(MomentoErrorCode.AUTHENTICATION_ERROR, server.cacheClient({ key: forged }).get(CACHE, "k"));
});

test("momento: disposable tokens are limited to keys, prefixes and topics", PATIENT, async () => {
  const scopes = momento.DisposableTokenScopes;
  const auth = server.authClient();
  const issue = async (scope, props) =>
    (await is("Success", auth.generateDisposableToken(scope, ExpiresIn.minutes(5), props))).authToken;
  const denied = (call) => fails(MomentoErrorCode.PERMISSION_ERROR, call);
  for (const [scope, reads, writes] of [
    [scopes.cacheKeyReadWrite(CACHE, "a:1"), ["a:1"], ["a:1"]],
    [scopes.cacheKeyReadOnly(CACHE, "a:1"), ["a:1"], []],
    [scopes.cacheKeyWriteOnly(CACHE, "a:1"), [], ["a:1"]],
    [scopes.cacheKeyPrefixReadWrite(momento.AllCaches, "a:"), ["a:1", "a:2"], ["a:1", "a:2"]],
    [scopes.cacheKeyPrefixReadOnly(CACHE, "a:"), ["a:1", "a:2"], []],
    [scopes.cacheKeyPrefixWriteOnly(CACHE, "a:"), [], ["a:1", "a:2"]],
    [scopes.cacheReadWrite("other"), [], []],
    [scopes.cacheWriteOnly(CACHE), [], ["a:1", "a:2", "b"]],
  ]) {
    const limited = server.cacheClient({ key: await issue(scope) });
    for (const key of ["a:1", "a:2", "b"]) {
      await (reads.includes(key) ? is("Miss", limited.get(CACHE, key)) : denied(limited.get(CACHE, key)));
    }
    for (const key of ["a:1", "a:2", "b"]) {
      const set = limited.set(CACHE, key, "v");
      await (writes.includes(key) ? is("Success", set) : denied(set));
    }
    await plain.flushall();
  }
  const ann = await issue(scopes.topicPublishOnly(CACHE, "news"), { tokenId: "ann" });
  const publisher = server.topicClient({ key: ann });
  const subscriber = server.topicClient({ key: await issue(scopes.topicSubscribeOnly(CACHE, "news")) });
  const both = server.topicClient({ key: await issue(scopes.topicPublishSubscribe(CACHE, momento.AllTopics)) });
  const got = await subscribed(subscriber, "news");
  await is("Subscription", got.subscription);
  await denied(subscriber.publish(CACHE, "news", "v"));
  await denied(publisher.publish(CACHE, "other", "v"));
  await denied((await subscribed(publisher, "news")).subscription);
  await is("Success", await publisher.publish(CACHE, "news", "of ann"), both.publish(CACHE, "news", "of no id"));
  await until("both messages", () => got.items.length === 2);
  assert.deepEqual([got.items, got.tokens], [["of ann", "of no id"], ["ann", ""]]);
  got.subscription.unsubscribe();
});

test("momento: errors have the codes of the protocol", PATIENT, async () => {
  await plain.rpush("list", "a");
  await plain.set("text", "no number");
  await fails(MomentoErrorCode.FAILED_PRECONDITION_ERROR, cache.get(CACHE, "list"));
  await fails(MomentoErrorCode.FAILED_PRECONDITION_ERROR, cache.increment(CACHE, "text", 1));
  await fails(MomentoErrorCode.FAILED_PRECONDITION_ERROR, cache.dictionarySetField(CACHE, "list", "f", "v"));
  await fails(MomentoErrorCode.INVALID_ARGUMENT_ERROR, cache.get("", "k"));
  await fails(MomentoErrorCode.CACHE_NOT_FOUND_ERROR, cache.listFetch("absent", "l"));
  const limit = MomentoErrorCode.LIMIT_EXCEEDED_ERROR;
  // More would be beyond the memory that Node allows a connection, which then loses the reply.
  const long = new Uint8Array(3 << 20);
  await fails(limit, cache.set(CACHE, "k", long), "item_size_limit_exceeded");
  await fails(limit, cache.dictionarySetField(CACHE, "d", "f", long), "element_size_limit_exceeded");
  await fails(limit, cache.setAddElement(CACHE, "s", long), "element_size_limit_exceeded");
  // A client that cancels a call.
  const aborted = AbortSignal.abort();
  await fails(MomentoErrorCode.CANCELLED_ERROR, cache.get(CACHE, "k", { abortSignal: aborted }));
});

test("momento: every published call was made", () => {
  const internal = ["constructor", "configuration", "close", "getNextDataClient"];
  internal.push("getNextPublishClient", "getNextSubscribeClient");
  // These are in momento-differences.test.mjs.
  const refused = methods(momento.TopicClient).filter((name) => name.includes("ebhook"));
  const leaderboard = ["upsert", "fetchByScore", "fetchByRank", "getRank", "length", "removeElements"];
  const wanted = new Set([
    ...methods(momento.CacheClient),
    ...methods(momento.TopicClient),
    ...methods(momento.AuthClient),
    ...leaderboard,
  ]);
  const missing = [...wanted].filter((name) => ![...server.called, ...internal, ...refused].includes(name));
  assert.deepEqual(missing, []);
  assert.ok(wanted.size > 80, `${wanted.size} calls`);
});
