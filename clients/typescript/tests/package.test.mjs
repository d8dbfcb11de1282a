// The package: generated files, presets, types, contents, the programs of the README, examples, and the load program.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import protobuf from "protobufjs";
import { parse } from "smol-toml";
import ts from "typescript";

import { Configuration, Configurations, FixedCount, VERSION } from "../dist/index.js";
import * as messages from "../dist/generated/messages.js";
import { BadReply, Reader, sizeOfInteger, sizeOfVarint, Writer } from "../dist/wire.js";
import { generated, schemas } from "../scripts/generate.mjs";
import { PACKAGE, Server } from "./server.mjs";

const execute = promisify(execFile);
const PRESETS = fileURLToPath(new URL("../../presets.toml", import.meta.url));
const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
// Programs start slowly on a busy machine.
const PATIENT = { timeout: 60_000 };

let server, folder;

before(async () => {
  server = await Server.start();
  folder = mkdtempSync(join(tmpdir(), "gannet-node-package-"));
  mkdirSync(join(folder, "node_modules", "@gannet"), { recursive: true });
  symlinkSync(PACKAGE, join(folder, "node_modules", "@gannet", "client"));
});

after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

test("the generated files are those of their sources", () => {
  for (const [path, text] of Object.entries(generated())) assert.equal(readFileSync(path, "utf8"), text, path);
});

function presetsOf(name, node) {
  if (typeof node.latest !== "string") {
    return Object.entries(node).flatMap(([part, child]) => presetsOf(name ? `${name}.${part}` : part, child));
  }
  const { latest, ...versions } = node;
  return Object.entries(versions).map(([version, values]) => ({ name, version, latest, values }));
}

const camel = (name) => name.replaceAll(/_(\w)/g, (_, letter) => letter.toUpperCase());

test("presets have the values of clients/presets.toml", () => {
  const presets = presetsOf("", parse(readFileSync(PRESETS, "utf8")));
  assert.deepEqual(presets.map(({ name }) => name), ["Laptop", "InRegion.Default", "InRegion.LowLatency", "Lambda"]);
  for (const { name, version, latest, values } of presets) {
    const configuration = Configurations.named(`${name}.${version}`);
    const object = name.split(".").reduce((at, part) => at[part], Configurations);
    assert.deepEqual(object[version](), configuration);
    if (version === latest)
      assert.deepEqual([object.latest(), Configurations.named(name)], [configuration, configuration]);
    const { connections_max, retry_strategy, retry_count, retry_budget_percent, retry_budget_burst, ...rest } = values;
    const { retryStrategy, retryBudget, hedgingDelayMs, middleware, metrics, ...settings } = configuration.settings;
    assert.deepEqual(settings, Object.fromEntries(Object.entries(rest).map(([key, value]) => [camel(key), value])));
    assert.equal(configuration.connectionsMax, connections_max);
    assert.equal(retry_strategy, "fixed_count");
    assert.deepEqual(retryStrategy, new FixedCount(retry_count));
    assert.deepEqual({ ...retryBudget }, { percent: retry_budget_percent, burst: retry_budget_burst });
    assert.deepEqual([hedgingDelayMs, middleware, metrics], [undefined, [], false]);
  }
  for (const name of ["Desktop", "Laptop.v9", "InRegion", "constructor"]) {
    assert.throws(() => Configurations.named(name), /cannot find preset/, name);
  }
});

test("configurations are immutable and checked", () => {
  const preset = Configurations.InRegion.LowLatency.v1();
  const mine = preset.withDeadlineMs(2000).withRequestsInFlightMax(150).withKeepalive(0);
  const { deadlineMs, keepaliveTimeMs } = mine.settings;
  assert.deepEqual([deadlineMs, mine.connectionsMax, keepaliveTimeMs], [2000, 2, 0]);
  assert.deepEqual(preset, Configurations.InRegion.LowLatency.v1());
  assert.ok(mine instanceof Configuration);
  assert.throws(() => (preset.settings.deadlineMs = 1), { name: "TypeError" });
  assert.throws(() => preset.settings.middleware.push({}), { name: "TypeError" });
  assert.throws(() => preset.withRequestsInFlightMax(0), /give a whole number of at least 1/);
  assert.throws(() => preset.withRequestsInFlightMax(1.5), /give a whole number of at least 1/);
  for (const deadline of [0, -1, NaN, Infinity])
    assert.throws(() => preset.withDeadlineMs(deadline), /give a positive/);
  assert.throws(() => preset.withRequestsQueuedMax(-1), { name: "RangeError" });
  assert.throws(() => preset.withHedging(-1), { name: "RangeError" });
  // Node would wait 1 ms instead.
  for (const ms of [Infinity, 2 ** 31, NaN]) {
    assert.throws(() => preset.withHedging(ms), { name: "RangeError", message: /give 0 to 2147483647 ms/ });
    assert.throws(() => preset.withKeepalive(ms), { name: "RangeError" });
    assert.throws(() => preset.with({ reconnectDelayMaxMs: ms }), { name: "RangeError" });
  }
  // Each connection has memory of its own.
  for (const most of [1e12, 1000 * preset.settings.streamsPerConnection + 1]) {
    assert.throws(() => preset.withRequestsInFlightMax(most), { name: "RangeError", message: /1000 connections/ });
  }
  assert.equal(preset.withRequestsInFlightMax(1000 * preset.settings.streamsPerConnection).connectionsMax, 1000);
  assert.throws(() => preset.with({ reconnectDelayMaxMs: 1 }), /give at least reconnectDelayMinMs/);
});

// Another implementation of the wire format checks the generated code, with random messages.
const root = schemas();

let state = 7;
const random = (below) => (state = (state * 48271) % 2147483647) % below;
const pick = (values) => values[random(values.length)];
const TEXTS = ["", "k", "naïve ✓ 漢字 🐦", "x".repeat(127), "y".repeat(128), "z".repeat(20_000)];

function randomValue(field) {
  if (field.resolvedType instanceof protobuf.Enum) return pick(Object.values(field.resolvedType.values));
  if (field.resolvedType) return randomMessage(field.resolvedType);
  switch (field.type) {
    case "bytes":
      return random(2) ? pick(TEXTS) : Uint8Array.from({ length: pick([0, 1, 127, 128, 300]) }, () => random(256));
    case "string":
      return pick(TEXTS);
    case "bool":
      return random(2) === 1;
    case "uint32":
      return pick([0, 1, 127, 128, 2 ** 31, 2 ** 32 - 1]);
    case "sint32":
      return pick([0, 1, -1, 63, -64, 64, 2 ** 31 - 1, -(2 ** 31)]);
    case "uint64":
      return pick([0, 1, 127, 128, 2 ** 32, Number.MAX_SAFE_INTEGER, 2n ** 63n - 1n, 2n ** 64n - 1n]);
    case "int64":
    case "sint64":
      return pick([0, -1, 2 ** 40, -(2 ** 40), 2n ** 63n - 1n, -(2n ** 63n)]);
    case "double":
      return pick([0, -0.5, 1e300, Infinity, -Infinity]);
    default:
      throw new Error(field.type);
  }
}

function randomMessage(type) {
  const message = {};
  for (const field of type.fieldsArray) {
    if (field.repeated) message[field.name] = Array.from({ length: random(3) }, () => randomValue(field));
    else if (field.partOf === null) message[field.name] = randomValue(field);
  }
  for (const oneof of type.oneofsArray) {
    const field = pick(oneof.fieldsArray);
    // A field with presence of its own is a group of one.
    if (oneof.fieldsArray.length === 1 && random(2)) continue;
    message[field.name] = randomValue(field);
  }
  return message;
}

/** Returns a value of any implementation in one form: bytes in hex, integers as text, without unset fields. */
function plain(value, type) {
  const of = (each, field) => {
    if (field.resolvedType instanceof protobuf.Type) return plain(each, field.resolvedType);
    if (field.type === "bytes") return Buffer.from(each).toString("hex");
    return ["uint64", "int64", "sint64"].includes(field.type) ? `${each}` : each;
  };
  const fields = type.fieldsArray.filter((field) => value[field.name] !== undefined && value[field.name] !== null);
  return Object.fromEntries(
    fields.map((field) => {
      const each = value[field.name];
      return [field.name, field.repeated ? each.map((one) => of(one, field)) : of(each, field)];
    }),
  );
}

const namesOf = (prefix) => Object.keys(messages).filter((name) => name.startsWith(prefix));

test("another implementation reads the requests that the package writes", () => {
  const names = namesOf("encode");
  assert.ok(names.length > 20);
  for (const name of names) {
    const type = root.lookupType(`gannet.v1.${name.slice(6)}`);
    for (let round = 0; round < 60; round++) {
      const message = randomMessage(type);
      const read = type.decode(messages[name](message));
      const expected = plain(message, type);
      const actual = plain(type.toObject(read, { longs: String, defaults: false, arrays: true }), type);
      // Values that are the default are absent in the other implementation.
      assert.deepEqual({ ...withDefaults(type), ...actual }, { ...withDefaults(type), ...expected }, name);
    }
  }
});

function withDefaults(type) {
  return plain(type.toObject(type.create(), { longs: String, defaults: true, oneofs: false }), type);
}

test("the package reads the replies that another implementation writes", () => {
  const names = namesOf("decode");
  assert.ok(names.length > 15);
  for (const name of names) {
    const type = root.lookupType(`gannet.v1.${name.slice(6)}`);
    for (let round = 0; round < 60; round++) {
      const message = randomMessage(type);
      const bytes = Buffer.from(type.encode(type.fromObject(forOther(message, type))).finish());
      assert.deepEqual(plain(messages[name](bytes), type), { ...withDefaults(type), ...plain(message, type) }, name);
      // Each prefix of a reply is read without another exception than BadReply.
      for (const end of [1, bytes.length >> 1, bytes.length - 1]) {
        try {
          messages[name](bytes.subarray(0, Math.max(0, end)));
        } catch (error) {
          assert.ok(error instanceof BadReply, `${name}: ${error}`);
        }
      }
    }
  }
});

/** Returns a message with bytes and integers as the other implementation takes them. */
function forOther(message, type) {
  const of = (each, field) => {
    if (field.resolvedType instanceof protobuf.Type) return forOther(each, field.resolvedType);
    if (field.type === "bytes") return Buffer.from(each);
    return typeof each === "bigint" ? protobuf.util.Long.fromString(`${each}`, field.type === "uint64") : each;
  };
  return Object.fromEntries(
    Object.entries(message).map(([name, value]) => {
      const field = type.fields[name];
      return [name, field.repeated ? value.map((each) => of(each, field)) : of(value, field)];
    }),
  );
}

test("random bytes are read or are a BadReply", () => {
  const seen = { read: 0, refused: 0 };
  for (const name of namesOf("decode")) {
    for (let round = 0; round < 300; round++) {
      const bytes = Buffer.from(Array.from({ length: random(24) }, () => pick([random(256), 10, 2, 8, 18, 0])));
      try {
        messages[name](bytes);
        seen.read++;
      } catch (error) {
        assert.ok(error instanceof BadReply, `${name} ${bytes.toString("hex")}: ${error}`);
        seen.refused++;
      }
    }
  }
  assert.ok(seen.read > 500 && seen.refused > 500, JSON.stringify(seen));
});

test("a reply of very many levels is refused before the stack is used up", () => {
  // A record with a bin whose value is a list in a list in a list ...
  const nested = (levels, tags) => {
    let bytes = Buffer.alloc(0);
    for (let at = 0; at < levels; at++) {
      const out = new Writer(1 + sizeOfVarint(bytes.length));
      out.varint(tags[at % tags.length]);
      out.varint(bytes.length);
      bytes = Buffer.concat([out.buffer, bytes]);
    }
    return bytes;
  };
  const reply = (levels) => {
    let bytes = nested(2 * levels, [6 << 3 | 2, 1 << 3 | 2]);
    for (const field of [6, 2, 4, 1]) {
      const out = new Writer(1 + sizeOfVarint(bytes.length));
      out.varint(field << 3 | 2);
      out.varint(bytes.length);
      bytes = Buffer.concat([out.buffer, bytes]);
    }
    return bytes;
  };
  assert.ok(messages.decodeRecordGetReply(reply(20)).found.bins[0].value.list.values[0].list);
  assert.throws(() => messages.decodeRecordGetReply(reply(5_000)), BadReply);
});

test("varints have the size that is computed for them", () => {
  const powers = Array.from({ length: 53 }, (_, bits) => 2 ** bits).flatMap((power) => [power - 1, power, power + 1]);
  for (const value of powers.filter(Number.isSafeInteger)) {
    const out = new Writer(sizeOfVarint(value));
    out.varint(value);
    assert.equal(new Reader(out.buffer).varint(), value);
    assert.equal(sizeOfInteger(BigInt(value)), sizeOfVarint(value));
  }
});

test("a program that uses the package compiles, and so do the declarations of the package", PATIENT, () => {
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const consumer = join(folder, "consumer.ts");
  writeFileSync(consumer, readFileSync(join(PACKAGE, "tests", "types", "consumer.ts")));
  const { options } = ts.convertCompilerOptionsFromJson({
    noEmit: true,
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    module: "Node16",
    target: "ES2022",
    types: ["node"],
    typeRoots: [join(PACKAGE, "node_modules", "@types")],
    preserveSymlinks: true,
  });
  const program = ts.createProgram([consumer], options);
  // Only these files are checked: the declarations of Node alone would take several seconds.
  const checked = program.getSourceFiles().filter(({ fileName }) => /consumer\.ts$|@gannet\/client\//.test(fileName));
  assert.ok(checked.length > 10, `${checked.length} files`);
  const faults = [...program.getOptionsDiagnostics(), ...program.getGlobalDiagnostics()].concat(
    checked.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
  );
  const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => folder, getNewLine: () => "\n" };
  assert.equal(ts.formatDiagnostics(faults, host), "");
});

test("the package has its files, its licence and one dependency", PATIENT, async () => {
  const { stdout } = await execute("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: PACKAGE });
  const files = JSON.parse(stdout)[0].files.map((file) => file.path);
  const needed = ["LICENSE", "README.md", "bin/gannet-bench.mjs", "dist/index.js", "dist/index.d.ts", "package.json"];
  for (const name of needed) assert.ok(files.includes(name), name);
  assert.ok(!files.some((name) => /^(src|tests|scripts|node_modules)\//.test(name)));
  assert.equal(manifest.version, VERSION);
  assert.equal(manifest.license, "Apache-2.0");
  assert.deepEqual(Object.keys(manifest.dependencies), ["@grpc/grpc-js"]);
  const lock = readFileSync(join(PACKAGE, "package-lock.json"), "utf8");
  for (const [url] of lock.matchAll(/https?:\/\/[^"]+\.tgz/g)) assert.ok(url.startsWith("https://registry.npmjs.org/"));
});

const run = (args) =>
  execute(process.execPath, args, { cwd: folder, timeout: 30_000, env: { ...process.env, GANNET_TOKEN: "t" } });

test("the programs of the README run", PATIENT, async () => {
  const text = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const programs = [...text.matchAll(/```js\n(.*?)```/gs)].map((match) => match[1]);
  assert.ok(programs.length >= 10);
  await Promise.all(programs.map(async (program, at) => {
    const path = join(folder, `readme-${at}.mjs`);
    writeFileSync(path, program.replaceAll("127.0.0.1:7000", server.address));
    const { stdout } = await run(["--preserve-symlinks", path]);
    if (at === 0) assert.equal(stdout.trim(), "hello");
    if (program.includes(".nearCache(")) assert.match(stdout, /hits: 2,\s+misses: 1,/);
    if (program.includes("generateDisposableToken(")) assert.equal(stdout.trim(), "miss error");
    assert.ok(stdout.length > 0, program);
  }));
});

for (const name of readdirSync(join(PACKAGE, "examples"))) {
  test(`example ${name}`, PATIENT, async () => {
    const { stdout } = await run([join(PACKAGE, "examples", name), server.address]);
    assert.ok(stdout.length > 0);
  });
}

const BENCH = join(PACKAGE, "bin", "gannet-bench.mjs");

for (const client of ["sdk", "stub"]) {
  test(`the load program reports the requests of the ${client}`, PATIENT, async () => {
    const options = ["--seconds", "0.4", "--client", client, "--get-ratio", "0.5", "--concurrency", "4"];
    const { stdout } = await run([BENCH, "--address", server.address, ...options]);
    const report = JSON.parse(stdout);
    assert.deepEqual(report.errors, {});
    assert.ok(report.requests > 10 && report.cpu_s > 0);
    assert.ok(0 < report.p50_us && report.p50_us <= report.p99_us && report.p99_us <= report.p999_us);
  });
}

test("the load program measures callers whose first requests take longer than the window", PATIENT, async () => {
  const callers = ["--concurrency", "2000", "--in-flight-max", "2000", "--preset", "Laptop", "--seconds", "0.1"];
  const { stdout } = await run([BENCH, "--address", server.address, ...callers]);
  const report = JSON.parse(stdout);
  assert.ok(report.requests > 0 && report.requests_per_s > 0 && report.p50_us > 0, stdout);
  assert.equal(report.connections, 20);
});

test("the load program compares the library with the stub", PATIENT, async () => {
  const { stdout } = await run([BENCH, "--address", server.address, "--seconds", "0.2", "--compare", "2"]);
  const { stub, sdk, cpu_ratio: ratio } = JSON.parse(stdout);
  assert.ok(Math.abs(ratio - sdk.cpu_us_per_request / stub.cpu_us_per_request) < 0.001);
});

test("the load program names the remedy if there is no server", PATIENT, async () => {
  const failed = await run([BENCH, "--address", `127.0.0.1:${server.respPort}`]).catch((error) => error);
  assert.equal(failed.code, 1);
  assert.ok(failed.stderr.includes("does not speak gRPC"), failed.stderr);
  const usage = await run([BENCH, "--addres"]).catch((error) => error);
  assert.equal(usage.code, 1);
});
