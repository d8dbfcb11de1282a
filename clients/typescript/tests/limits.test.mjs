// The cap on requests in flight, its queue, connections, cancellation, middleware and metrics, on a real server.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import { after, before, test } from "node:test";

import { Configurations, FixedTimeout, NoRetry } from "../dist/index.js";
import { Limiter, Waiter } from "../dist/limiter.js";
import { Histogram } from "../dist/metrics.js";
import { clientOf, codeOf, CONFIGURATION, freePort, ownServer, Server, sleep, until } from "./server.mjs";

let server;

before(async () => {
  server = await Server.start();
});
after(() => server.stop());

const codes = (results) => results.map(codeOf);

test("requests beyond the cap wait, and all are served", async (context) => {
  const client = await clientOf(context, server.address, CONFIGURATION.withRequestsInFlightMax(7));
  let most = 0;
  const work = async (number) => {
    assert.equal((await client.set(`t${number}`, `${number}`)).type, "success");
    most = Math.max(most, client.metrics().inFlight);
    return (await client.get(`t${number}`)).valueString();
  };
  const numbers = Array.from({ length: 1000 }, (_, number) => number);
  assert.deepEqual(await Promise.all(numbers.map(work)), numbers.map(String));
  const { inFlight, queued, methods } = client.metrics();
  assert.deepEqual([inFlight, queued, most], [0, 0, 7]);
  assert.equal(methods.Get.calls, 1000);
  assert.deepEqual(methods.Get.errors, {});
  assert.ok(0 < methods.Get.p50Us && methods.Get.p50Us <= methods.Get.p99Us && methods.Get.p99Us <= methods.Get.p999Us);
});

test("connections are as many as the cap needs", async (context) => {
  const own = await ownServer(context);
  for (const [inFlight, connections] of [[100, 1], [101, 2], [250, 3]]) {
    const configuration = CONFIGURATION.withRequestsInFlightMax(inFlight).withEagerConnect(true);
    assert.equal(configuration.connectionsMax, connections);
    const client = await clientOf(context, own.address, configuration);
    assert.equal(own.connections(), connections);
    await Promise.all(Array.from({ length: 1000 }, () => client.get("k")));
    assert.equal(own.connections(), connections);
    assert.equal(client.metrics().connections, connections);
    client.close();
    await until("the connections are closed", () => own.connections() === 0);
  }
});

test("few requests use one connection", async (context) => {
  const own = await ownServer(context);
  const client = await clientOf(context, own.address, CONFIGURATION.withEagerConnect(false));
  for (let at = 0; at < 20; at++) await client.get("k");
  assert.equal(client.metrics().connections, 2);
  assert.equal(own.connections(), 1);
});

test("eager connect opens all connections before the first call", async (context) => {
  const own = await ownServer(context);
  await clientOf(context, own.address, Configurations.InRegion.Default.v1());
  assert.equal(own.connections(), 4);
});

test("eager connect does not wait for a server that is not there", async (context) => {
  const started = performance.now();
  const configuration = Configurations.InRegion.Default.v1().with({ connectTimeoutMs: 20_000 });
  const client = await clientOf(context, `127.0.0.1:${await freePort()}`, configuration);
  assert.ok(performance.now() - started < 10_000);
  assert.equal(await client.connect(100), false);
});

test("a host that does not answer the handshake fails after the time for connecting", async (context) => {
  const sockets = new Set();
  const silent = createServer((socket) => {
    sockets.add(socket.resume());
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  });
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  context.after(() => silent.close());
  const configuration = CONFIGURATION.with({ connectTimeoutMs: 150 }).withRetryStrategy(new NoRetry());
  const client = await clientOf(context, `127.0.0.1:${silent.address().port}`, configuration);
  for (let at = 0; at < 2; at++) {
    const started = performance.now();
    const result = await client.get("k");
    assert.equal(codeOf(result), "UNAVAILABLE");
    assert.ok(result.message.includes("no connection was opened within 150 ms"), result.message);
    assert.ok(performance.now() - started < 5000);
  }
  client.close();
  await until("no socket is left open", () => sockets.size === 0);
  const other = await clientOf(context, `127.0.0.1:${silent.address().port}`);
  const late = await other.get("k", { deadlineMs: 50 });
  assert.equal(codeOf(late), "TIMEOUT");
  assert.ok(late.message.includes("the deadline of 50 ms passed before a connection was open"), late.message);
  assert.ok(late.remedy.startsWith("raise the deadline of the configuration, or check the address"), late.remedy);
  other.close();
  await until("no socket is left open", () => sockets.size === 0);
});

test("closing ends waiting and sent calls", async (context) => {
  const own = await ownServer(context);
  const client = await clientOf(context, own.address, CONFIGURATION.withRequestsInFlightMax(1));
  await client.get("k");
  await own.pause();
  const calls = [client.get("k"), client.getBatch(["k"]), client.get("k")];
  await until("all calls are pending", () => client.metrics().inFlight + client.metrics().queued === 3);
  client.close();
  assert.deepEqual(codes(await Promise.all(calls)), ["CANCELLED", "CANCELLED", "CANCELLED"]);
  assert.deepEqual([client.metrics().inFlight, client.metrics().queued], [0, 0]);
});

test("a step of the computer's clock ends no call that waits", async (context) => {
  const own = await ownServer(context);
  const client = await clientOf(context, own.address, CONFIGURATION.withRequestsInFlightMax(1));
  await client.get("k");
  await own.pause();
  const calls = [client.get("k"), client.get("k")];
  await until("one call waits", () => client.metrics().queued === 1);
  // grpc-js sends the other one in a later turn, with the time that remains by the clock.
  await sleep(50);
  const { now } = Date;
  context.after(() => (Date.now = now));
  Date.now = () => now() + 3_600_000;
  own.resume();
  assert.deepEqual((await Promise.all(calls)).map((each) => each.type), ["miss", "miss"]);
});

test("a sent call is cancelled, and its place is free", async (context) => {
  const own = await ownServer(context);
  const client = await clientOf(context, own.address);
  await client.get("k");
  await own.pause();
  for (const call of [(options) => client.get("k", options), (options) => client.getBatch(["k"], options)]) {
    const controller = new AbortController();
    const result = call({ signal: controller.signal });
    await until("the call is in flight", () => client.metrics().inFlight === 1);
    controller.abort();
    assert.equal(codeOf(await result), "CANCELLED");
    assert.equal(client.metrics().inFlight, 0);
    assert.equal(codeOf(await call({ signal: controller.signal })), "CANCELLED");
  }
  own.resume();
  assert.equal((await client.get("k")).type, "miss");
});

test("half of the waiting calls are cancelled, and the others are served", async (context) => {
  const own = await ownServer(context);
  const client = await clientOf(context, own.address, CONFIGURATION.withRequestsInFlightMax(2));
  await client.get("k");
  await own.pause();
  const controller = new AbortController();
  const options = (at) => (at % 2 === 0 ? { signal: controller.signal } : {});
  const calls = Array.from({ length: 50 }, (_, at) => client.get("k", options(at)));
  await until("all calls are pending", () => client.metrics().inFlight + client.metrics().queued === 50);
  controller.abort();
  own.resume();
  const types = (await Promise.all(calls)).map((result) => result.type);
  assert.deepEqual(types, Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? "error" : "miss")));
  assert.deepEqual([client.metrics().inFlight, client.metrics().queued], [0, 0]);
});

test("calls that wait when their deadline passes end one after another, and lose no place", async (context) => {
  const configuration = CONFIGURATION.withRequestsInFlightMax(20).withDeadlineMs(1000);
  const client = await clientOf(context, server.address, configuration);
  await client.get("k", { deadlineMs: 10_000 });
  const calls = Array.from({ length: 12_000 }, () => client.get("late"));
  const first = client.get("k", { deadlineMs: 10_000 });
  assert.ok(client.metrics().queued > 11_000);
  // The thread is busy until all deadlines are past: the next reply finds only late calls in the queue.
  await calls[0];
  const end = performance.now() + 1000;
  while (performance.now() < end);
  const results = await Promise.all(calls);
  const late = results.filter((result) => result.type === "error");
  assert.ok(late.length > 11_000, `${late.length}`);
  assert.ok(late.every((result) => ["CLIENT_QUEUE_TIMEOUT", "TIMEOUT"].includes(codeOf(result))));
  assert.equal((await first).type, "miss");
  assert.deepEqual([client.metrics().inFlight, client.metrics().queued], [0, 0]);
});

test("the server receives no waiting call of a signal or of a client that ends", async (context) => {
  for (const name of ["signal", "close"]) {
    const client = await clientOf(context, server.address, CONFIGURATION.withRequestsInFlightMax(20));
    await client.get("k");
    const controller = new AbortController();
    const options = { signal: controller.signal };
    const keys = Array.from({ length: 2000 }, (_, at) => `never ${name} ${at}`);
    const calls = keys.map((key) => client.set(key, "v", options));
    assert.equal(client.metrics().queued, 1980);
    if (name === "close") client.close();
    else controller.abort();
    assert.ok((await Promise.all(calls)).every((result) => codeOf(result) === "CANCELLED"));
    assert.deepEqual([client.metrics().inFlight, client.metrics().queued], [0, 0]);
    await sleep(200);
    const other = await clientOf(context, server.address);
    const present = [];
    for (const key of keys.slice(20)) if ((await other.get(key)).type === "hit") present.push(key);
    assert.deepEqual(present, []);
  }
});

test("a signal keeps no listeners of calls that have ended", async (context) => {
  const client = await clientOf(context, server.address);
  const { signal } = new AbortController();
  let listeners = 0;
  const [add, remove] = [signal.addEventListener, signal.removeEventListener];
  signal.addEventListener = (...args) => (listeners++, add.apply(signal, args));
  signal.removeEventListener = (...args) => (listeners--, remove.apply(signal, args));
  for (let at = 0; at < 20; at++) await client.get("k", { signal });
  assert.equal(listeners, 0);
});

test("a call is cancelled while it waits for its retry", async (context) => {
  const slow = new FixedTimeout({ retryDelayMs: 5000 });
  const client = await clientOf(context, `127.0.0.1:${await freePort()}`, CONFIGURATION.withRetryStrategy(slow));
  const started = performance.now();
  const result = await client.get("k", { signal: AbortSignal.timeout(100) });
  assert.equal(codeOf(result), "CANCELLED");
  assert.ok(performance.now() - started < 4000);
  assert.equal(client.metrics().retries, 1);
});

test("pings find a server that hangs before the deadline", async (context) => {
  const own = await ownServer(context);
  const configuration = CONFIGURATION.withRetryStrategy(new NoRetry()).withKeepalive(200, 200);
  const client = await clientOf(context, own.address, configuration);
  await client.get("k");
  await own.pause();
  const started = performance.now();
  const result = await client.get("k");
  assert.equal(codeOf(result), "UNAVAILABLE", result.message);
  assert.ok(performance.now() - started < 5000);
  own.resume();
  await until("the client connects again", async () => (await client.get("k")).type === "miss");
});

function recording(name, events) {
  return {
    before: (start) => events.push([name, "before", start.method, start.cache, start.requestBytes]),
    after: (end) => events.push([name, "after", end.method, end.status, end.durationMs > 0]),
  };
}

test("middleware runs around each call", async (context) => {
  const events = [];
  const configuration = CONFIGURATION.withMiddleware(recording("a", events), recording("b", events));
  const client = await clientOf(context, server.address, configuration);
  await client.listPushBack("middleware", "v");
  events.length = 0;
  assert.equal(codeOf(await client.get("middleware")), "FAILED_PRECONDITION");
  assert.deepEqual(events, [
    ["a", "before", "Get", "default", 12],
    ["b", "before", "Get", "default", 12],
    ["b", "after", "Get", "FAILED_PRECONDITION", true],
    ["a", "after", "Get", "FAILED_PRECONDITION", true],
  ]);
  assert.deepEqual(client.metrics().methods.Get.errors, { FAILED_PRECONDITION: 1 });
});

test("an exception of middleware reaches the caller and leaks no place", async (context) => {
  const broken = {
    after() {
      throw new RangeError("broken");
    },
  };
  const client = await clientOf(context, server.address, CONFIGURATION.withMiddleware(broken));
  await assert.rejects(client.get("k"), { name: "RangeError" });
  assert.equal(client.metrics().inFlight, 0);
});

test("metrics by method are off unless enabled", async (context) => {
  const client = await clientOf(context, server.address, Configurations.Laptop.latest());
  await client.get("k");
  assert.deepEqual(client.metrics().methods, {});
});

test("the deadline reaches the server", async (context) => {
  // A call whose deadline is past is not executed: the key does not exist afterwards.
  const client = await clientOf(context, server.address);
  await client.delete("late");
  const late = await client.set("late", "v", { deadlineMs: 0 });
  assert.ok(["TIMEOUT", "CLIENT_QUEUE_TIMEOUT"].includes(codeOf(late)));
  assert.equal((await client.get("late")).type, "miss");
});

test("an idle client does not keep the process alive", async () => {
  const { execFileSync } = await import("node:child_process");
  const program =
    `import { CacheClient, Configurations } from ` +
    `${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)};` +
    `const client = await CacheClient.create({ address: "${server.address}", ` +
    `configuration: Configurations.InRegion.Default.v1() }); console.log((await client.get("none")).type);`;
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 20_000 });
  assert.equal(output.toString().trim(), "miss");
});

class Recorder extends Waiter {
  constructor(name, granted) {
    super();
    Object.assign(this, { name, granted });
  }
  grant(connection) {
    this.granted.push([this.name, connection]);
    return true;
  }
}

test("the queue agrees with a model under random changes", () => {
  let state = 12345;
  const random = (below) => (state = (state * 48271) % 2147483647) % below;
  const connections = Array.from({ length: 3 }, () => ({ inFlight: 0 }));
  const limiter = new Limiter(connections, 5, 8, 2);
  const [held, granted, model] = [[], [], []];
  let [refused, removed] = [0, 0];
  for (let at = 0; at < 20_000; at++) {
    const choice = random(4);
    if (choice < 2 || random(8) === 0) {
      const connection = limiter.acquire();
      const free = connections.findIndex((each) => each === connection);
      if (connection !== undefined) {
        assert.ok(model.length === 0 && connections.slice(0, free).every((each) => each.inFlight === 2));
        held.push(connection);
      } else {
        const waiter = new Recorder(at, granted);
        if (limiter.enqueue(waiter)) model.push(waiter);
        else refused += 1;
      }
    } else if (choice === 2 && held.length > 0) {
      const [connection] = held.splice(random(held.length), 1);
      const first = model.shift();
      limiter.release(connection);
      if (first !== undefined) {
        assert.deepEqual(granted.pop(), [first.name, connection]);
        held.push(connection);
      }
    } else if (choice === 3 && model.length > 0) {
      const [waiter] = model.splice(random(model.length), 1);
      limiter.remove(waiter);
      limiter.remove(waiter);
      removed += 1;
    }
    assert.deepEqual([limiter.inFlight, limiter.queued, granted.length], [held.length, model.length, 0]);
    assert.ok(held.length <= 5 && model.length <= 8);
    for (const each of connections) assert.equal(each.inFlight, held.filter((other) => other === each).length);
  }
  assert.ok(refused > 100 && removed > 100);
});

test("a place passes over waiters that refuse it", () => {
  class Refusing extends Waiter {
    grant() {
      return false;
    }
  }
  const connection = { inFlight: 0 };
  const limiter = new Limiter([connection], 1, 200_000, 1);
  assert.equal(limiter.acquire(), connection);
  for (let at = 0; at < 100_000; at++) limiter.enqueue(new Refusing());
  const granted = [];
  limiter.enqueue(new Recorder("accepts", granted));
  limiter.enqueue(new Refusing());
  limiter.release(connection);
  assert.deepEqual(granted, [["accepts", connection]]);
  assert.deepEqual([limiter.inFlight, limiter.queued], [1, 1]);
  limiter.release(connection);
  assert.deepEqual([limiter.inFlight, limiter.queued, connection.inFlight], [0, 0, 0]);
});

test("quantiles are within a bucket of the exact ones", () => {
  const histogram = new Histogram();
  const values = Array.from({ length: 20_000 }, (_, at) => ((at + 1) * 7_919_003) % 9_000_000_011);
  for (const value of values) histogram.record(value);
  values.sort((a, b) => a - b);
  for (const share of [0.5, 0.99, 0.999]) {
    const exact = values[Math.floor(share * values.length)];
    assert.ok(Math.abs(histogram.quantileNs(share) - exact) <= exact / 64 + 1, `${share}`);
  }
  assert.equal(new Histogram().quantileNs(0.5), 0);
  const both = new Histogram();
  both.add(histogram);
  both.record(2 ** 45);
  assert.equal(both.count, 20_001);
});
