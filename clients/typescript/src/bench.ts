/**
 * A load program: measures the client against a running server, in a closed loop, and prints one JSON object.
 *
 * `--client stub` measures a stub of the gRPC library without this one, with the same keys, metadata and deadline on
 * one channel. `--compare ROUNDS` measures both in turn, so that other load of the machine meets both alike, and adds
 * the ratio of their medians: the cost of the library.
 */

import { parseArgs } from "node:util";

import { Client, credentials as grpcCredentials, Metadata, type ServiceError } from "@grpc/grpc-js";

import { CacheClient } from "./client.js";
import { Configurations, type Configuration } from "./configuration.js";
import { CredentialProvider } from "./credentials.js";
import * as m from "./generated/messages.js";
import { Histogram } from "./metrics.js";

// Keys that each batch of the preparation stores.
const BATCH_KEYS = 1000;
// Number of keys that are drawn in advance, so that the measured loop draws none.
const CHOICES = 100_000;
const TTL_SECONDS = 3600;

const USAGE = `Measures the client library.

  gannet-bench --address HOST:PORT [options]

  --address HOST:PORT   of \`gannet serve --grpc\`
  --cache NAME          the cache (default: default)
  --token TOKEN         the token, if the server needs one
  --preset NAME         preset of the client (default: InRegion.LowLatency)
  --in-flight-max N     cap of requests in flight (default: that of the preset)
  --client sdk|stub     the library, or a stub of the gRPC library (default: sdk)
  --compare ROUNDS      measure stub and library in turn, ROUNDS times
  --concurrency N       requests that are offered at once (default: 16)
  --seconds N           measured time, after a warm-up (default: 5)
  --key-space N         number of keys (default: 1000)
  --value-bytes N       size of each value (default: 100)
  --get-ratio N         share of gets; the others are sets (default: 1)
`;

interface Options {
  readonly address: string;
  readonly cache: string;
  readonly token: string | undefined;
  readonly preset: string;
  /** The cap of requests in flight; 0 for that of the preset. */
  readonly inFlightMax: number;
  readonly client: "sdk" | "stub";
  readonly compare: number;
  readonly concurrency: number;
  readonly seconds: number;
  readonly keySpace: number;
  readonly valueBytes: number;
  readonly getRatio: number;
}

/** One end of the measurement: sends a request and resolves to the code of its error, or undefined. */
interface Sender {
  get(key: string): Promise<string | undefined>;
  set(key: string): Promise<string | undefined>;
  connections(): number;
  close(): void;
}

function optionsOf(args: string[]): Options {
  const string = (value: string | undefined) => ({ type: "string" as const, ...(value && { default: value }) });
  const { values } = parseArgs({
    args,
    options: {
      address: string(undefined),
      cache: string("default"),
      token: string(undefined),
      preset: string("InRegion.LowLatency"),
      "in-flight-max": string("0"),
      client: string("sdk"),
      compare: string("0"),
      concurrency: string("16"),
      seconds: string("5"),
      "key-space": string("1000"),
      "value-bytes": string("100"),
      "get-ratio": string("1"),
      help: { type: "boolean" },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  const { address, client, token } = values;
  if (address === undefined) throw new RangeError("cannot start: --address is missing; give HOST:PORT");
  if (client !== "sdk" && client !== "stub") throw new RangeError(`cannot use --client ${client}: give sdk or stub`);
  const number = (name: keyof typeof values, least: number): number => {
    const value = Number(values[name]);
    if (value >= least) return value;
    throw new RangeError(`cannot use --${name} ${values[name]}: it is out of range; give at least ${least}`);
  };
  return {
    address,
    client,
    token,
    cache: values.cache ?? "default",
    preset: values.preset ?? "",
    inFlightMax: number("in-flight-max", 0),
    compare: number("compare", 0),
    concurrency: number("concurrency", 1),
    seconds: number("seconds", 0.01),
    keySpace: number("key-space", 1),
    valueBytes: number("value-bytes", 0),
    getRatio: number("get-ratio", 0),
  };
}

/** The keys of a run, drawn so that the loop only picks them. */
class Plan {
  readonly configuration: Configuration;
  readonly credentials: CredentialProvider;
  readonly keys: string[];
  readonly value: Uint8Array;
  readonly choices: { key: string; reads: boolean }[];

  constructor(readonly options: Options) {
    const preset = Configurations.named(options.preset);
    const { inFlightMax } = options;
    this.configuration = inFlightMax > 0 ? preset.withRequestsInFlightMax(inFlightMax) : preset;
    const { token } = options;
    this.credentials = token === undefined ? CredentialProvider.none() : CredentialProvider.fromString(token);
    this.keys = Array.from({ length: options.keySpace }, (_, at) => `bench:${`${at}`.padStart(8, "0")}`);
    this.value = Uint8Array.from({ length: options.valueBytes }, (_, at) => at % 251);
    // The minimal standard generator: the same keys in each run.
    let state = 1;
    const random = (): number => (state = (state * 48271) % 2147483647) / 2147483647;
    this.choices = Array.from({ length: CHOICES }, () => ({
      key: this.keys[Math.floor(random() * this.keys.length)] ?? "",
      reads: random() < options.getRatio,
    }));
  }
}

async function sdk({ options, configuration, credentials, value }: Plan): Promise<Sender> {
  const { address, cache } = options;
  const defaultTtlSeconds = TTL_SECONDS;
  const client = await CacheClient.create({ address, configuration, credentials, cache, defaultTtlSeconds });
  await client.connect(configuration.settings.deadlineMs);
  const codeOf = (result: { type: string; code?: string }): string | undefined => result.code;
  return {
    get: async (key) => codeOf(await client.get(key)),
    set: async (key) => codeOf(await client.set(key, value)),
    connections: () => client.metrics().connections,
    close: () => client.close(),
  };
}

/** Returns a sender that uses the gRPC library as its generated stubs do. */
function stub({ options, configuration, credentials, value }: Plan): Sender {
  const client = new Client(options.address, grpcCredentials.createInsecure());
  const metadata = new Metadata();
  metadata.set("cache", options.cache);
  if (credentials.token !== undefined) metadata.set("authorization", credentials.token);
  const { deadlineMs } = configuration.settings;
  const send = <M>(
    path: string,
    encode: (request: M) => Buffer,
    decode: (reply: Buffer) => unknown,
    request: M,
  ): Promise<string | undefined> =>
    new Promise((resolve) => {
      const end = (error: ServiceError | null): void => resolve(error === null ? undefined : `${error.code}`);
      client.makeUnaryRequest(path, encode, decode, request, metadata, { deadline: Date.now() + deadlineMs }, end);
    });
  const { Get, Set } = m.CALLS.Cache;
  const ttlMs = TTL_SECONDS * 1000;
  return {
    get: (key) => send(Get.path, m.encodeGetRequest, Get.decode, { key }),
    set: (key) => send(Set.path, m.encodeSetRequest, Set.decode, { key, value, ttlMs }),
    connections: () => 1,
    close: () => client.close(),
  };
}

/** Stores all keys. Throws if the server cannot be reached. */
async function prepare({ options, credentials, keys, value }: Plan): Promise<void> {
  const { address, cache } = options;
  const configuration = Configurations.Laptop.latest();
  const client = await CacheClient.create({ address, configuration, credentials, cache });
  try {
    for (let at = 0; at < keys.length; at += BATCH_KEYS) {
      const pairs = keys.slice(at, at + BATCH_KEYS).map((key) => [key, value] as const);
      const stored = await client.setBatch(pairs, { ttlSeconds: TTL_SECONDS });
      if (stored.type === "error") throw stored.toException();
    }
  } finally {
    client.close();
  }
}

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));

async function run(plan: Plan, kind: "sdk" | "stub") {
  const { options, choices } = plan;
  const sender = kind === "sdk" ? await sdk(plan) : stub(plan);
  const latencies = new Histogram();
  const errors: Record<string, number> = {};
  const windowMs = options.seconds * 1000;
  const warmUntil = performance.now() + Math.min(1000, windowMs / 2);
  // The window begins after the first reply of each caller. The process takes longer than a short window to send the
  // first requests of thousands of callers, and would measure nothing.
  let warming = options.concurrency;
  let begin = Infinity;
  let failed = 0;
  let cpu: NodeJS.CpuUsage | undefined;
  const work = async (worker: number): Promise<void> => {
    let at = Math.floor((worker * choices.length) / options.concurrency) % choices.length;
    for (let isFirst = true; ; isFirst = false) {
      const { key, reads } = choices[at]!;
      at = (at + 1) % choices.length;
      const started = performance.now();
      const error = await (reads ? sender.get(key) : sender.set(key));
      const now = performance.now();
      if (isFirst && --warming === 0) begin = Math.max(now, warmUntil);
      if (now >= begin + windowMs) return;
      if (now < begin) continue;
      cpu ??= process.cpuUsage();
      latencies.record(Math.round((now - started) * 1e6));
      if (error === undefined) continue;
      failed++;
      errors[error] = (errors[error] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: options.concurrency }, (_, worker) => work(worker)));
  const { user, system } = process.cpuUsage(cpu);
  const connections = sender.connections();
  sender.close();
  const requests = latencies.count - failed;
  return {
    client: kind,
    preset: options.preset,
    concurrency: options.concurrency,
    seconds: options.seconds,
    requests,
    requests_per_s: Math.round(requests / options.seconds),
    p50_us: rounded(latencies.quantileNs(0.5) / 1000, 1),
    p99_us: rounded(latencies.quantileNs(0.99) / 1000, 1),
    p999_us: rounded(latencies.quantileNs(0.999) / 1000, 1),
    errors,
    connections,
    cpu_s: rounded((user + system) / 1e6, 3),
    cpu_us_per_request: rounded((user + system) / Math.max(1, requests), 2),
  };
}

type Report = Awaited<ReturnType<typeof run>>;

const FIGURES = ["requests_per_s", "p50_us", "p99_us", "p999_us", "cpu_us_per_request"] as const;

function median(values: number[]): number {
  const sorted = values.sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

function medians(reports: Report[]): Record<(typeof FIGURES)[number], number> {
  const of = (figure: (typeof FIGURES)[number]) => rounded(median(reports.map((report) => report[figure])), 2);
  return Object.fromEntries(FIGURES.map((figure) => [figure, of(figure)])) as ReturnType<typeof medians>;
}

/** Measures the stub and the library in turn, and returns the medians of both and the ratio of their CPU time. */
async function compare(plan: Plan) {
  const reports: { stub: Report[]; sdk: Report[] } = { stub: [], sdk: [] };
  const errors: Record<string, number> = {};
  for (let round = 0; round < plan.options.compare; round++) {
    for (const kind of ["stub", "sdk"] as const) {
      const report = await run(plan, kind);
      reports[kind].push(report);
      for (const [code, count] of Object.entries(report.errors)) errors[code] = (errors[code] ?? 0) + count;
    }
  }
  const { preset, concurrency, seconds, compare: rounds } = plan.options;
  const connections = reports.sdk[0]?.connections;
  const [ofStub, ofSdk] = [medians(reports.stub), medians(reports.sdk)];
  const ratio = rounded(ofSdk.cpu_us_per_request / ofStub.cpu_us_per_request, 3);
  return { preset, concurrency, seconds, connections, rounds, stub: ofStub, sdk: ofSdk, errors, cpu_ratio: ratio };
}

/** Runs the program, and resolves to its exit status: 1 if a request failed. */
export async function main(args: string[]): Promise<number> {
  try {
    const plan = new Plan(optionsOf(args));
    await prepare(plan);
    const report = plan.options.compare > 0 ? await compare(plan) : await run(plan, plan.options.client);
    console.log(JSON.stringify(report));
    return Object.keys(report.errors).length > 0 ? 1 : 0;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }
}
