// Every call of the schema, against a real server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, beforeEach, test } from "node:test";

import { parse } from "smol-toml";

import { CacheClient } from "../dist/index.js";
import { ALL } from "../dist/calls.js";
import { CALLS } from "../dist/generated/messages.js";
import { codeOf, CONFIGURATION, redis, Server, sleep } from "./server.mjs";

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

// Shorthands for the parts of results.
const type = async (result) => (await result).type;
const string = async (result) => (await result).valueString();
const bytes = (...values) => Uint8Array.from(values);
const same = (actual, expected) => assert.deepEqual(Buffer.from(actual), Buffer.from(expected));

test("no call of the schema is missing", () => {
  const paths = Object.values(CALLS).flatMap((calls) => Object.values(calls).map((call) => call.path));
  assert.deepEqual([...new Set(ALL.map((call) => call.path))].sort(), paths.sort());
  for (const call of ALL) assert.equal(call.streams, CALLS[call.service][call.method].streams, call.method);
});

test("calls are repeated as the table that all clients share says", () => {
  const names = (idempotent) =>
    new Set(ALL.filter((call) => "idempotent" in call && call.idempotent === idempotent).map((call) => call.method));
  const [once, often] = [names(false), names(true)];
  // A removal may be repeated; a subtraction from the set may not.
  assert.deepEqual([...once].filter((name) => often.has(name)), ["SetDifference"]);
  const table = parse(readFileSync(new URL("../../calls.toml", import.meta.url), "utf8"));
  assert.deepEqual([...once].sort(), [...table.never, ...table.by_request].sort());
});

test("items", async () => {
  assert.equal(await type(client.get("k")), "miss");
  assert.equal(await type(client.set("k", "v")), "success");
  assert.equal(await string(client.get(Buffer.from("k"))), "v");
  same((await client.get("k")).valueBytes(), "v");
  assert.equal(await type(client.setBatch({ a: "1", b: bytes(0, 255) })), "success");
  const batch = await client.getBatch(["b", "none", "a"]);
  assert.deepEqual(batch.results.map((each) => each.type), ["hit", "miss", "hit"]);
  same(batch.valuesBytes()[0], [0, 255]);
  assert.deepEqual(batch.valuesString().slice(1), [undefined, "1"]);
  assert.deepEqual((await client.getBatch([])).results, []);
  assert.equal(await type(client.setBatch(new Map([[bytes(1), "m"], ["n", "o"]]))), "success");
  assert.equal(await string(client.get(bytes(1))), "m");
  assert.deepEqual((await client.keysExist(["a", "none"])).exists, [true, false]);
  assert.equal((await client.increment("a", 41)).value(), 42);
  assert.equal((await client.increment("new", -1)).value(), -1);
  assert.equal((await client.increment("big", 2n ** 62n)).valueBigInt(), 2n ** 62n);
  assert.equal((await client.increment("big", -(2n ** 62n) - 3n)).valueBigInt(), -3n);
  assert.equal(await type(client.delete("a")), "success");
  assert.equal(await type(client.delete("a")), "success");
  assert.equal(await type(client.get("a")), "miss");
});

test("values of all lengths come back", async () => {
  for (const length of [0, 1, 127, 128, 8191, 16_384, 65_536, 1_000_000]) {
    const value = Uint8Array.from({ length }, (_, at) => at % 251);
    assert.equal(await type(client.set("long", value)), "success");
    same((await client.get("long")).valueBytes(), value);
  }
});

test("text of all planes comes back", async () => {
  const text = "naïve ✓ 漢字 🐦 \u0000";
  assert.equal(await type(client.set(text, text)), "success");
  assert.equal(await string(client.get(text)), text);
  assert.equal(await string(client.get(Buffer.from(text))), text);
});

test("times to live", async () => {
  const remaining = async (key) => (await client.getTtl(key)).remainingMs;
  await client.set("k", "v", { ttlSeconds: 60 });
  assert.ok((await remaining("k")) > 50_000 && (await remaining("k")) <= 60_000);
  assert.equal(await type(client.increaseTtl("k", 30)), "not_stored");
  assert.equal(await type(client.increaseTtl("k", 90)), "stored");
  assert.equal(await type(client.decreaseTtl("k", 99)), "not_stored");
  assert.equal(await type(client.decreaseTtl("k", 20)), "stored");
  assert.equal(await type(client.updateTtl("k", 10)), "stored");
  assert.equal(await type(client.updateTtl("none", 1)), "miss");
  assert.ok((await remaining("k")) <= 10_000);
  assert.equal(await type(client.getTtl("none")), "miss");
  await client.set("short", "v", { ttlSeconds: 0.02 });
  await sleep(50);
  assert.equal(await type(client.get("short")), "miss");
  assert.equal(codeOf(await client.set("k", "v", { ttlSeconds: 0 })), "INVALID_ARGUMENT");
  assert.equal(codeOf(await client.set("k", "v", { ttlSeconds: -1 })), "INVALID_ARGUMENT");
  await client.set("default", "v");
  assert.ok((await remaining("default")) > 3_500_000);
  await redis(server, "SET", "forever", "v");
  assert.equal(await remaining("forever"), undefined);
});

test("conditions", async () => {
  const steps = [
    [client.setIfPresent, ["a"], "not_stored"],
    [client.setIfEqual, ["a", "x"], "not_stored"],
    [client.setIfAbsent, ["a"], "stored"],
    [client.setIfAbsent, ["b"], "not_stored"],
    [client.setIfPresent, ["b"], "stored"],
    [client.setIfEqual, ["c", "x"], "not_stored"],
    [client.setIfEqual, ["c", "b"], "stored"],
    [client.setIfNotEqual, ["d", "c"], "not_stored"],
    [client.setIfNotEqual, ["d", "x"], "stored"],
    [client.setIfAbsentOrEqual, ["e", "x"], "not_stored"],
    [client.setIfAbsentOrEqual, ["e", "d"], "stored"],
    [client.setIfPresentAndNotEqual, ["f", "e"], "not_stored"],
    [client.setIfPresentAndNotEqual, ["f", "x"], "stored"],
  ];
  for (const [method, args, expected] of steps) {
    assert.equal(await type(method.call(client, "k", ...args)), expected, `${method.name} ${args}`);
  }
  assert.equal(await string(client.get("k")), "f");
});

test("conditions by hash", async () => {
  const first = (await client.setWithHash("k", "a")).hash;
  assert.equal(await type(client.getWithHash("none")), "miss");
  const found = await client.getWithHash("k");
  assert.equal(found.valueString(), "a");
  same(found.hash, first);
  const second = await client.setIfPresentAndHashEqual("k", "b", first);
  assert.equal(second.type, "stored");
  assert.notDeepEqual(Buffer.from(second.hash), Buffer.from(first));
  assert.equal(await type(client.setIfPresentAndHashEqual("k", "c", first)), "not_stored");
  assert.equal(await type(client.setIfPresentAndHashNotEqual("k", "c", second.hash)), "not_stored");
  assert.equal(await type(client.setIfPresentAndHashNotEqual("k", "c", first)), "stored");
  assert.equal(await type(client.setIfAbsentOrHashEqual("k", "d", first)), "not_stored");
  assert.equal(await type(client.setIfAbsentOrHashEqual("new", "d", first)), "stored");
  assert.equal(await type(client.setIfAbsentOrHashNotEqual("k", "d", first)), "stored");
  assert.equal(await string(client.get("k")), "d");
});

test("dictionaries", async () => {
  for (const each of [client.dictionaryFetch("d"), client.dictionaryGetField("d", "a"), client.dictionaryLength("d")]) {
    assert.equal(await type(each), "miss");
  }
  assert.equal(await type(client.dictionarySetField("d", "a", "1")), "success");
  assert.equal(await type(client.dictionarySetFields("d", { b: "2", c: "3" })), "success");
  assert.equal(await string(client.dictionaryGetField("d", "a")), "1");
  assert.equal(await type(client.dictionaryGetField("d", "x")), "miss");
  assert.deepEqual((await client.dictionaryGetFields("d", ["b", "x"])).valuesString(), ["2", undefined]);
  assert.equal((await client.dictionaryIncrement("d", "a", 41)).value(), 42);
  assert.equal(await type(client.dictionaryRemoveFields("d", ["b", "x"])), "success");
  const all = await client.dictionaryFetch("d");
  assert.deepEqual(all.fieldsString(), new Map([["a", "42"], ["c", "3"]]));
  assert.equal(all.entriesBytes().length, 2);
  assert.equal((await client.dictionaryLength("d")).length, 2);
  assert.equal(await type(client.dictionaryDelete("d")), "success");
  assert.equal(await type(client.dictionaryFetch("d")), "miss");
});

test("sets", async () => {
  assert.equal(await type(client.setFetch("s")), "miss");
  assert.equal(await type(client.setRemoveElements("s", ["a"])), "miss");
  assert.equal(await type(client.setAddElements("s", ["a", "b", "c", "c"])), "success");
  assert.deepEqual((await client.setFetch("s")).elementsString(), new Set(["a", "b", "c"]));
  assert.equal((await client.setLength("s")).length, 3);
  assert.deepEqual((await client.setContains("s", ["a", "x"])).contained, [true, false]);
  assert.equal((await client.setSample("s", 2)).elementsBytes().length, 2);
  assert.equal(await type(client.setRemoveElements("s", ["a"])), "success");
  const [popped] = (await client.setPop("s", 1)).elementsString();
  assert.ok(["b", "c"].includes(popped) && (await client.setLength("s")).length === 1);
  await client.setAddElements("s", ["b", "c"]);
  assert.equal(await type(client.setSubtractFrom("s", ["c", "x"])), "success");
  assert.deepEqual((await client.setFetch("s")).elementsString(), new Set(["x"]));
  assert.equal(await type(client.setDelete("s")), "success");
  assert.equal(await type(client.setLength("s")), "miss");
});

test("lists", async () => {
  for (const each of [client.listFetch("l"), client.listPopFront("l"), client.listLength("l")]) {
    assert.equal(await type(each), "miss");
  }
  const elements = async (range) => (await client.listFetch("l", range)).elementsString();
  assert.equal((await client.listPushBack("l", "b")).length, 1);
  assert.equal((await client.listPushFront("l", "a")).length, 2);
  assert.equal((await client.listConcatenateBack("l", ["c", "d"])).length, 4);
  assert.equal((await client.listConcatenateFront("l", ["y", "z"])).length, 6);
  assert.deepEqual(await elements(), ["y", "z", "a", "b", "c", "d"]);
  assert.deepEqual(await elements({ first: 1, end: -3 }), ["z", "a"]);
  const [front, back] = [await client.listPopFront("l"), await client.listPopBack("l")];
  assert.deepEqual([front.valueString(), front.length, back.valueString(), back.length], ["y", 5, "d", 4]);
  assert.equal((await client.listPushBack("l", "z", { lengthMax: 4 })).length, 4);
  assert.equal((await client.listRemoveValue("l", "z")).length, 3);
  assert.equal((await client.listRetain("l", { first: -2 })).length, 2);
  assert.equal((await client.listLength("l")).length, 2);
  assert.deepEqual(await elements(), ["b", "c"]);
});

test("sorted sets", async () => {
  assert.equal(await type(client.sortedSetFetchByIndex("z")), "miss");
  assert.equal(await type(client.sortedSetGetScore("z", "a")), "miss");
  assert.equal(await type(client.sortedSetPutElements("z", { a: 1.5, b: 2.5, c: -1 })), "success");
  const byIndex = async (range) => (await client.sortedSetFetchByIndex("z", range)).elementsString();
  const byScore = async (range) => (await client.sortedSetFetchByScore("z", range)).elementsString();
  assert.deepEqual(await byIndex(), [["c", -1], ["a", 1.5], ["b", 2.5]]);
  assert.deepEqual(await byIndex({ first: 0, end: 1, descending: true }), [["b", 2.5]]);
  assert.deepEqual(await byScore(), await byIndex());
  assert.deepEqual(await byScore({ least: 1.5 }), [["a", 1.5], ["b", 2.5]]);
  assert.deepEqual(await byScore({ least: 1.5, greatest: 9, leastExclusive: true }), [["b", 2.5]]);
  assert.deepEqual(await byScore({ greatest: 2.5, greatestExclusive: true }), [["c", -1], ["a", 1.5]]);
  assert.deepEqual(await byScore({ offset: 1, count: 1 }), [["a", 1.5]]);
  assert.equal((await client.sortedSetGetScore("z", "a")).score, 1.5);
  assert.equal(await type(client.sortedSetGetScore("z", "x")), "miss");
  assert.deepEqual((await client.sortedSetGetScores("z", ["x", "b"])).scores, [undefined, 2.5]);
  assert.equal((await client.sortedSetIncrement("z", "a", 10)).score, 11.5);
  assert.equal((await client.sortedSetGetRank("z", "a")).rank, 2);
  assert.equal((await client.sortedSetGetRank("z", "a", { descending: true })).rank, 0);
  assert.equal(await type(client.sortedSetGetRank("z", "x")), "miss");
  assert.equal(await type(client.sortedSetRemoveElements("z", ["a", "x"])), "success");
  assert.equal((await client.sortedSetLength("z")).length, 2);
  assert.equal(await type(client.sortedSetDelete("z")), "success");
  assert.equal(await type(client.sortedSetLength("z")), "miss");
});

test("a change of a collection sets its time to live if it creates it or refreshes", async () => {
  const after = async (options) => {
    await client.setAddElements("s", ["a"], options);
    return (await client.getTtl("s")).remainingMs;
  };
  assert.ok((await after({ ttlSeconds: 60, refreshTtl: false })) > 50_000);
  assert.ok((await after({ ttlSeconds: 5, refreshTtl: false })) > 50_000);
  assert.ok((await after({ ttlSeconds: 5 })) <= 5_000);
});

test("types of items", async () => {
  await client.set("v", "1");
  await client.dictionarySetField("d", "f", "1");
  await client.setAddElements("s", ["a"]);
  await client.listPushBack("l", "a");
  await client.sortedSetPutElements("z", [["a", 1]]);
  const types = [];
  for (const key of "vdslz") types.push((await client.getType(key)).itemType);
  assert.deepEqual(types, ["value", "dictionary", "set", "list", "sorted_set"]);
  assert.equal(await type(client.getType("none")), "miss");
});

test("caches", async () => {
  assert.equal(await type(client.createCache("one")), "success");
  assert.equal(codeOf(await client.createCache("one")), "ALREADY_EXISTS");
  const { names } = await client.listCaches();
  assert.ok(names.includes("default") && names.includes("one"), names.join());
  const one = client.withCache("one");
  assert.equal(await type(one.set("k", "v")), "success");
  assert.equal(await string(one.get("k")), "v");
  assert.equal(await type(client.get("k")), "miss");
  assert.equal(await type(client.flushCache("one")), "success");
  assert.equal(await type(one.get("k")), "miss");
  assert.equal(await type(client.deleteCache("one")), "success");
  assert.equal(codeOf(await one.get("k")), "NOT_FOUND_CACHE");
});

test("arguments of a wrong type or range reject", async () => {
  await assert.rejects(client.get(7), { name: "TypeError", message: /neither a string nor a Uint8Array/ });
  await assert.rejects(client.set("k", undefined), { name: "TypeError" });
  await assert.rejects(client.keysExist("abc"), { name: "TypeError", message: /pass an array/ });
  await assert.rejects(client.increment("k", 1.5), { name: "RangeError", message: /give a whole number/ });
  await assert.rejects(client.set("k", "v", { ttlSeconds: NaN }),
    { name: "RangeError", message: /give one such as 60/ });
  await assert.rejects(client.listFetch("k", { first: 2 ** 31 }), { name: "RangeError" });
  await assert.rejects(client.get("k", { deadlineMs: NaN }), { name: "RangeError", message: /deadlineMs NaN/ });
  assert.equal(client.metrics().inFlight, 0);
});

test("a number that does not fit its field is refused, and never cut", async () => {
  const refused = { name: "RangeError", message: /^cannot use \w+ .*: it is out of range; give a whole number from/ };
  for (const amount of [2n ** 63n, 2n ** 64n, 2n ** 64n + 5n, -(2n ** 63n) - 1n, 2 ** 53, 0.5, Infinity, "3"]) {
    await assert.rejects(client.increment("i", amount), refused, `${amount}`);
    await assert.rejects(client.dictionaryIncrement("d", "f", amount), refused, `${amount}`);
  }
  assert.equal((await client.increment("i", 2n ** 63n - 1n)).valueBigInt(), 2n ** 63n - 1n);
  assert.equal((await client.dictionaryIncrement("d", "f", -(2n ** 63n))).valueBigInt(), -(2n ** 63n));
  for (const token of [-1n, 2n ** 64n, 2n ** 64n + 3n, 1.5, undefined]) {
    await assert.rejects(client.leases.set("k", token, "v"), refused, `${token}`);
  }
  for (const lengthMax of [-1, 1.5, NaN, Infinity, 2 ** 32, 2 ** 32 + 1, "3"]) {
    await assert.rejects(client.listPushBack("l", "x", { lengthMax }), refused, `${lengthMax}`);
    await assert.rejects(client.listConcatenateFront("l", ["x"], { lengthMax }), refused, `${lengthMax}`);
  }
  assert.equal((await client.listPushBack("l", "x", { lengthMax: 2 ** 32 - 1 })).length, 1);
  for (const offset of [-1, 0.5, 2 ** 32, 2 ** 32 + 1]) {
    await assert.rejects(client.sortedSetFetchByScore("z", { offset }), refused, `${offset}`);
  }
  for (const revision of [-1, 0.5, 2 ** 32 + 1]) {
    await assert.rejects(client.records.put("r", { a: 1n }, { ifRevision: revision }), refused, `${revision}`);
    await assert.rejects(client.records.delete("r", { ifRevisionAbove: revision }), refused, `${revision}`);
  }
  await assert.rejects(client.records.scan("s", { countMax: 2 ** 32 + 1 }), refused);
  await assert.rejects(client.setPop("s", 2 ** 53), refused);
});

test("a text that UTF-8 does not express is refused, and not the key of another text", async () => {
  const { retries } = client.metrics();
  const refused = { name: "RangeError", message: /it has a lone surrogate.*; correct the text, or pass a Uint8Array$/ };
  for (const bad of ["\ud83d", "a\ud83d", "\udc00a", "\udc00\ud83d", "\u00fc\ud83d"]) {
    await assert.rejects(client.set(bad, "v"), refused);
    await assert.rejects(client.set("k", bad), refused);
    await assert.rejects(client.topics.publish(bad, "v"), refused);
    await assert.rejects(client.topics.publish("t", bad), refused);
    await assert.rejects(client.topics.subscribe(bad), refused);
    await assert.rejects(client.leaderboard(bad).length(), refused);
    await assert.rejects(client.records.get("r", { filter: bad }), refused);
    await assert.rejects(client.records.put("r", { a: bad }), refused);
    await assert.rejects(client.createCache(bad), refused);
  }
  assert.equal(await type(client.set("\ud83d\ude00", "v")), "success");
  assert.equal(await string(client.get(bytes(0xf0, 0x9f, 0x98, 0x80))), "v");
  for (const cache of ["Köln", "\ud83d", "a\n"]) {
    const other = client.withCache(cache);
    for (const result of [await other.get("k"), await other.topics.subscribe("t"), await other.nearCache()]) {
      assert.equal(codeOf(result), "INVALID_ARGUMENT");
      assert.match(result.message, /: the name of the cache is not printable ASCII; correct the name$/);
    }
  }
  assert.throws(() => client.withCache(undefined), { name: "TypeError", message: /give a string/ });
  assert.deepEqual([client.metrics().retries, client.metrics().streams, client.metrics().inFlight], [retries, 0, 0]);
  assert.equal(client.engine.pending.size, 0);
});

test("a time that has passed is refused, and is no default of the server", async () => {
  const refused = { name: "RangeError", message: /below 1 ms; give at least 0.001/ };
  for (const seconds of [0, -1, 0.0001]) {
    await assert.rejects(client.leases.markStale("k", { ttlSeconds: seconds }), refused);
    await assert.rejects(client.leases.get("k", { recacheSeconds: seconds }), refused);
    await assert.rejects(client.leases.get("k", { leaseSeconds: seconds }), refused);
  }
});

test("a deletion ignores no condition of a change", async () => {
  await client.records.put("kept", { stock: 7n });
  const options = [{ filter: "stock = 0" }, { set: "s" }, { when: "create" }, { ttlSeconds: 1 }, { persist: true }];
  for (const option of options) {
    const refused = { name: "RangeError", message: /; read the record, and pass ifRevision$/ };
    await assert.rejects(client.records.delete("kept", option), refused);
  }
  assert.equal(await type(client.records.get("kept")), "hit");
  assert.equal(await type(client.records.delete("kept", { ifRevision: 1 })), "success");
});
