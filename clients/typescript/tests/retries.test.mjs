// Retries by verb, their strategies and budget, and hedged reads, against a real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Configurations, ExponentialBackoff, FixedCount, FixedTimeout, NoRetry, RetryBudget } from "../dist/index.js";
import { TokenBucket } from "../dist/retry.js";
import { clientOf, codeOf, CONFIGURATION, freePort, ownServer, Proxy, Server, sleep } from "./server.mjs";

let server;

before(async () => {
  server = await Server.start();
});
after(() => server.stop());

const nowhere = async () => `127.0.0.1:${await freePort()}`;

test("only idempotent calls are repeated", async (context) => {
  const client = await clientOf(context, await nowhere());
  const steps = [
    [() => client.get("k"), 3],
    [() => client.set("k", "v"), 6],
    [() => client.getBatch(["k"]), 9],
    [() => client.increment("k"), 9],
    [() => client.listPushBack("k", "v"), 9],
    [() => client.setIfAbsent("k", "v"), 9],
    [() => client.updateTtl("k", 1), 9],
    [() => client.setPop("k"), 9],
  ];
  for (const [call, retries] of steps) {
    assert.equal(codeOf(await call()), "UNAVAILABLE");
    assert.equal(client.metrics().retries, retries, `${call}`);
  }
});

test("samples are repeated, and no token is issued twice", async (context) => {
  const client = await clientOf(context, await nowhere());
  assert.equal(codeOf(await client.setSample("k", 1)), "UNAVAILABLE");
  assert.equal(client.metrics().retries, 3);
  const { tokens } = client;
  for (const call of [
    () => tokens.generateApiToken("all", "never"),
    () => tokens.refreshApiToken("token", "refresh token"),
    () => tokens.generateDisposableToken("all", 60),
  ]) {
    assert.equal(codeOf(await call()), "UNAVAILABLE", `${call}`);
    assert.equal(client.metrics().retries, 3, `${call}`);
  }
});

test("no retry", async (context) => {
  const client = await clientOf(context, await nowhere(), CONFIGURATION.withRetryStrategy(new NoRetry()));
  assert.equal(codeOf(await client.get("k")), "UNAVAILABLE");
  assert.equal(client.metrics().retries, 0);
});

test("an exception of a strategy reaches the caller and leaks no place", async (context) => {
  const broken = {
    delayMs() {
      throw new RangeError("broken");
    },
  };
  const client = await clientOf(context, await nowhere(), CONFIGURATION.withRetryStrategy(broken));
  await assert.rejects(client.get("k"), { name: "RangeError", message: "broken" });
  assert.equal(codeOf(await client.increment("k")), "UNAVAILABLE");
  assert.equal(client.metrics().inFlight, 0);
});

test("errors of the server are not repeated", async (context) => {
  const client = await clientOf(context, server.address);
  await client.listPushBack("l", "a");
  assert.equal(codeOf(await client.get("l")), "FAILED_PRECONDITION");
  assert.equal(client.metrics().retries, 0);
});

for (const strategy of [new FixedTimeout({ retryDelayMs: 20 }), new ExponentialBackoff({ maxDelayMs: 50 })]) {
  test(`a call outlasts a restart of the server with ${strategy.constructor.name}`, async (context) => {
    const own = await ownServer(context);
    const configuration = CONFIGURATION.withRetryStrategy(strategy).withRetryBudget(new RetryBudget(10, 1000));
    const client = await clientOf(context, own.address, configuration);
    assert.equal((await client.set("k", "v")).type, "success");
    await own.kill();
    const call = client.set("k", "w");
    await sleep(100);
    await own.restart();
    assert.equal((await call).type, "success");
    assert.ok(client.metrics().retries > 0);
    assert.equal((await client.get("k")).valueString(), "w");
  });
}

test("the budget bounds the retries", async (context) => {
  const configuration = CONFIGURATION.withRetryBudget(new RetryBudget(10, 5));
  const client = await clientOf(context, await nowhere(), configuration);
  for (let at = 0; at < 100; at++) assert.equal((await client.get("k")).type, "error");
  const { retries } = client.metrics();
  assert.ok(retries >= 5 + 8 && retries <= 5 + 10, `${retries}`);
});

test("a token bucket holds at most its burst", () => {
  const bucket = new TokenBucket(new RetryBudget(10, 2));
  assert.deepEqual([bucket.take(), bucket.take(), bucket.take()], [true, true, false]);
  for (let at = 0; at < 10; at++) bucket.add();
  assert.deepEqual([bucket.take(), bucket.take()], [true, false]);
  for (let at = 0; at < 100; at++) bucket.add();
  assert.deepEqual([bucket.take(), bucket.take(), bucket.take()], [true, true, false]);
});

test("delays of the strategies", () => {
  assert.equal(new NoRetry().delayMs(), undefined);
  assert.deepEqual([0, 1, 2].map((retries) => new FixedCount(2).delayMs(retries)), [0, 0, undefined]);
  for (let at = 0; at < 100; at++) {
    const delay = new FixedTimeout().delayMs();
    assert.ok(delay >= 90 && delay <= 110);
  }
  const backoff = new ExponentialBackoff();
  let [previous, longest] = [0, 0];
  for (let retries = 0; retries < 200; retries++) {
    const delay = backoff.delayMs(retries, previous);
    assert.ok(delay >= 0.5 && delay <= Math.max(0.5, Math.min(1000, 3 * previous)), `${delay} after ${previous}`);
    [previous, longest] = [delay, Math.max(longest, delay)];
  }
  assert.ok(longest > 0.5);
  assert.throws(() => new FixedCount(-1), { name: "RangeError" });
  assert.throws(() => new RetryBudget(-1), { name: "RangeError" });
});

test("an attempt without reply is given up and repeated", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const strategy = new FixedTimeout({ retryDelayMs: 10, responseTimeoutMs: 100 });
  const client = await clientOf(context, proxy.address, CONFIGURATION.withRetryStrategy(strategy));
  assert.equal((await client.set("slow", "v")).type, "success");
  proxy.gates[0].hold();
  setTimeout(() => proxy.gates[0].open(), 250);
  assert.equal((await client.get("slow")).valueString(), "v");
  assert.ok(client.metrics().retries >= 1 && client.metrics().retries <= 4);
});

// One stream for each connection, so that a second request uses another connection.
const hedged = (delayMs) =>
  CONFIGURATION.with({ requestsInFlightMax: 2, streamsPerConnection: 1 }).withHedging(delayMs);

test("a hedged read returns the reply that comes first", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const client = await clientOf(context, proxy.address, hedged(300));
  assert.equal((await client.set("hedged", "v")).type, "success");
  assert.equal((await client.get("hedged")).valueString(), "v");
  assert.equal(client.metrics().hedges, 0);
  proxy.gates[0].hold();
  const started = performance.now();
  assert.equal((await client.get("hedged")).valueString(), "v");
  const tookMs = performance.now() - started;
  assert.ok(tookMs >= 290 && tookMs < 5000, `${tookMs} ms`);
  assert.deepEqual([client.metrics().hedges, client.metrics().inFlight], [1, 0]);
});

test("only get is hedged", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const client = await clientOf(context, proxy.address, hedged(20));
  await client.delete("count");
  proxy.gates[0].hold();
  setTimeout(() => proxy.gates[0].open(), 150);
  assert.equal((await client.increment("count")).value(), 1);
  assert.equal(client.metrics().hedges, 0);
  assert.equal((await client.increment("count")).value(), 2);
});

test("hedges take tokens of the budget", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const client = await clientOf(context, proxy.address, hedged(20).withRetryBudget(new RetryBudget(0, 1)));
  assert.equal((await client.delete("k")).type, "success");
  proxy.gates[0].hold();
  assert.equal((await client.get("k")).type, "miss");
  assert.equal(codeOf(await client.get("k", { deadlineMs: 200 })), "TIMEOUT");
  assert.equal(client.metrics().hedges, 1);
});

test("a hedge never waits in the queue", async (context) => {
  const proxy = await Proxy.start(context, server.grpcPort);
  const client = await clientOf(context, proxy.address, CONFIGURATION.withRequestsInFlightMax(1).withHedging(10));
  assert.equal((await client.delete("k")).type, "success");
  proxy.gates[0].hold();
  assert.equal(codeOf(await client.get("k", { deadlineMs: 100 })), "TIMEOUT");
  assert.equal(client.metrics().hedges, 0);
});

test("presets allow at most a tenth more requests", () => {
  for (const name of ["Laptop", "InRegion.Default", "InRegion.LowLatency", "Lambda"]) {
    assert.equal(Configurations.named(name).settings.retryBudget.percent, 10);
  }
});
