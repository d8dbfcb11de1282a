// The tables of the README on errors and refused arguments, compared with the library.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { CacheClient, Configurations, ErrorCode, GraphQuery } from "../dist/index.js";
import { CONFIGURATION, PACKAGE, Server } from "./server.mjs";

const README = readFileSync(join(PACKAGE, "README.md"), "utf8");
const SURROGATE = "\ud800";

let server, client;

before(async () => {
  server = await Server.start();
  client = await CacheClient.create({ address: server.address, configuration: CONFIGURATION });
  assert.equal((await client.graph("readme").declareType("t")).type, "success");
});

after(async () => {
  client.close();
  await server.stop();
});

/** Returns the rows of the first table after a text, with its header. */
function tableAfter(text) {
  const lines = README.slice(README.indexOf(text)).split("\n");
  const first = lines.findIndex((line) => line.startsWith("|"));
  const end = lines.findIndex((line, at) => at > first && !line.startsWith("|"));
  const [header, , ...rows] = lines.slice(first, end).map((line) =>
    line.split("|").slice(1, -1).map((cell) => cell.trim()));
  return { header, rows };
}

const namesIn = (cell) => [...cell.matchAll(/`(\w+)`/g)].map((match) => match[1]);

test("the table of codes has all of them", () => {
  const { rows } = tableAfter("An error is a `CacheError`");
  assert.deepEqual(rows.flatMap(([cell]) => namesIn(cell)).sort(), Object.keys(ErrorCode).sort());
});

// Calls that are refused before a request is sent, by the start of the row that describes them.
const REFUSED = {
  "the default time to live of a client": [
    () => CacheClient.create({ address: server.address, defaultTtlSeconds: 0 }),
    () => client.records.put("k", { a: 1 }, { ttlSeconds: 0 }),
    () => client.leases.get("k", { recacheSeconds: 0 }),
    () => client.leases.get("k", { leaseSeconds: -1 }),
  ],
  "the name of a cache that is not printable ASCII": [() => client.withCache("caché").get("k")],
  "a text that UTF-8 does not express": [
    () => client.set(SURROGATE, "v"),
    () => client.set("k", SURROGATE),
    () => client.records.get("k", { filter: SURROGATE }),
    () => client.graph("g").count(1, SURROGATE),
  ],
  "a configuration that needs more than 1,000 connections": [
    () => Configurations.Laptop.v1().withRequestsInFlightMax(100_001),
  ],
  "a whole number beyond its field": [
    () => client.increment("k", 2n ** 63n),
    () => client.listFetch("k", { first: 2 ** 31 }),
    () => client.records.delete("k", { ifRevision: -1 }),
    () => client.graph("g").count(2n ** 64n, "t"),
  ],
  "the deletion of a record with other conditions": [() => client.records.delete("k", { filter: "a > 1" })],
  "the name of a graph that is empty": [() => client.graph(""), () => GraphQuery.count(1, "t").inGraph("")],
  "0 for a limit, a budget or another bound": [
    () => client.graph("g").neighbours(1, "t", { limit: 0 }),
    () => client.graph("g").mutual(1, 2, "t", { budget: 0 }),
    () => client.graph("g").paths(1, 2, "t", { distanceMax: 0 }),
    () => client.graph("g").suggest(1, "t", { k: 0 }),
  ],
};

/** Returns the name of the exception that a case throws, or INVALID if it returns that error. */
async function outcome(run) {
  try {
    const result = await run();
    return result.code === ErrorCode.INVALID_ARGUMENT ? "INVALID" : result.type;
  } catch (exception) {
    return exception.name;
  }
}

test("each row of refused arguments is what the library does", async () => {
  const { header, rows } = tableAfter("### Refused arguments");
  const unchecked = new Set(Object.keys(REFUSED));
  for (const row of rows) {
    const starts = Object.keys(REFUSED).filter((start) => row[0].startsWith(start));
    assert.equal(starts.length, 1, row[0]);
    assert.ok(unchecked.delete(starts[0]), row[0]);
    const [expected] = namesIn(row[header.indexOf("Node")]);
    for (const run of REFUSED[starts[0]]) assert.equal(await outcome(run), expected, `${row[0]}: ${run}`);
  }
  assert.deepEqual([...unchecked], []);
});

test("the server refuses further arguments", async () => {
  const graph = client.graph("readme");
  const cases = [
    () => client.get(""),
    () => client.set("k", "v", { ttlSeconds: 0 }),
    () => client.setPop("k", 0),
    () => client.records.put("k", { a: 1 }, { ifRevision: 1, ifRevisionAbove: 1 }),
    () => graph.count(0, "t"),
    () => graph.count(2n ** 64n - 1n, "t"),
    () => graph.neighbours(1, "t", { limit: 4097 }),
  ];
  for (const run of cases) assert.equal(await outcome(run), "INVALID", `${run}`);
});
