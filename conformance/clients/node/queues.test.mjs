// Runs published, unmodified job queues of Redis: BullMQ and bee-queue.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";

import BeeQueue from "bee-queue";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import Redis from "ioredis";

import { startServer, until } from "./server.mjs";

const PATIENT = { timeout: 60_000 };

let server;
let connection;

before(async () => {
  server = await startServer(undefined, { resp: true, more: { WORKERS: "2" } });
  connection = { host: "127.0.0.1", port: server.respPort, maxRetriesPerRequest: null };
});

after(async () => {
  await server.stop();
  // Connections left open by a failed test would keep this process alive.
  setTimeout(() => process.exit(), 500).unref();
});

test("bee-queue: jobs, retries and failures", PATIENT, async () => {
  const queue = new BeeQueue("bee", { redis: { ...connection }, activateDelayedJobs: true });
  queue.process(3, async (job) => {
    if (job.data.fails) throw new Error("as intended");
    return 2 * job.data.number;
  });
  const results = await Promise.all(
    Array.from({ length: 20 }, async (_, number) => {
      const job = queue.createJob({ number });
      const done = once(job, "succeeded");
      await job.save();
      return (await done)[0];
    }),
  );
  assert.deepEqual(results, Array.from({ length: 20 }, (_, number) => 2 * number));
  const failing = queue.createJob({ fails: true }).retries(1);
  const failed = once(failing, "failed");
  await failing.save();
  assert.equal((await failed)[0].message, "as intended");
  const health = await queue.checkHealth();
  assert.deepEqual([health.waiting, health.active, health.succeeded, health.failed], [0, 0, 20, 1]);
  await queue.close(1000);
});

test("BullMQ: no warning where nothing is evicted", PATIENT, async (t) => {
  const warnings = t.mock.method(console, "warn", () => {});
  const client = new Redis(connection);
  const warned = async () => {
    const queue = new Queue("policy", { connection });
    await queue.add("job", {});
    await queue.close();
    return warnings.mock.calls.some((call) => `${call.arguments}`.includes("Eviction policy"));
  };
  assert.equal(await warned(), true);
  await client.config("SET", "maxmemory-policy", "noeviction");
  warnings.mock.resetCalls();
  assert.equal(await warned(), false);
  client.disconnect();
});

test("BullMQ: jobs by priority, delays, failures and flows", PATIENT, async () => {
  const queue = new Queue("bull", { connection });
  const events = new QueueEvents("bull", { connection });
  await events.waitUntilReady();
  const order = [];
  const run = async (job) => {
    order.push(job.name);
    if (job.name === "failing") throw new Error("as intended");
    if (job.name === "parent") return Object.values(await job.getChildrenValues()).reduce((sum, one) => sum + one);
    return job.data.number;
  };
  const jobs = await queue.addBulk([
    { name: "low", data: { number: 1 }, opts: { priority: 10 } },
    { name: "high", data: { number: 2 }, opts: { priority: 1 } },
    { name: "delayed", data: { number: 3 }, opts: { delay: 200 } },
    { name: "failing", data: {}, opts: { attempts: 2, priority: 20 } },
  ]);
  assert.deepEqual(await queue.getJobCounts("prioritized", "delayed"), { prioritized: 3, delayed: 1 });
  const worker = new Worker("bull", run, { connection });
  assert.deepEqual(await Promise.all(jobs.slice(0, 3).map((job) => job.waitUntilFinished(events, 20_000))), [1, 2, 3]);
  await assert.rejects(jobs[3].waitUntilFinished(events, 20_000), /as intended/);
  assert.ok(order.indexOf("high") < order.indexOf("low"), `${order}`);
  const flow = await new FlowProducer({ connection }).add({
    name: "parent",
    queueName: "bull",
    children: [1, 2, 3].map((number) => ({ name: "child", queueName: "bull", data: { number } })),
  });
  assert.equal(await flow.job.waitUntilFinished(events, 20_000), 6);
  assert.deepEqual(await queue.getJobCounts("completed", "failed", "active"), { completed: 7, failed: 1, active: 0 });
  await Promise.all([worker.close(true), events.close(), queue.close()]);
});

test("BullMQ: a worker that asks for each job", PATIENT, async () => {
  const queue = new Queue("asked", { connection });
  const job = (_, number) => ({ name: "job", data: { number }, opts: { priority: 9 - number } });
  await queue.addBulk(Array.from({ length: 6 }, job));
  await queue.add("later", {}, { delay: 30 });
  const worker = new Worker("asked", null, { connection, autorun: false });
  const order = [];
  for (const end = Date.now() + 20_000; order.length < 7 && Date.now() < end; ) {
    const job = await worker.getNextJob("token", { block: false });
    if (!job) continue;
    order.push(job.name === "later" ? "later" : job.data.number);
    if (job.data.number === 3) await job.moveToFailed(new Error("as intended"), "token", false);
    else await job.moveToCompleted(2 * job.data.number, "token", false);
  }
  assert.deepEqual(order.filter((one) => one !== "later"), [5, 4, 3, 2, 1, 0]);
  assert.deepEqual(await queue.getJobCounts("completed", "failed", "active"), { completed: 6, failed: 1, active: 0 });
  assert.equal((await queue.getFailed())[0].failedReason, "as intended");
  await queue.retryJobs();
  assert.equal(await queue.getJobCountByTypes("wait", "prioritized"), 1);
  await queue.obliterate({ force: true });
  const client = new Redis(connection);
  assert.deepEqual(await client.keys("bull:asked:*"), []);
  client.disconnect();
  await Promise.all([worker.close(true), queue.close()]);
});

test("BullMQ: a worker goes on after a kill of the server, and no job is lost", PATIENT, async () => {
  const folder = await mkdtemp("/dev/shm/gannet-queues-");
  const more = { WORKERS: "2", FILE: join(folder, "memory") };
  let running = await startServer(undefined, { resp: true, more });
  const connection = { host: "127.0.0.1", port: running.respPort, maxRetriesPerRequest: null, retryStrategy: () => 50 };
  const queue = new Queue("killed", { connection });
  await queue.addBulk(Array.from({ length: 200 }, (_, number) => ({ name: "job", data: { number } })));
  const done = new Set();
  const run = async (job) => {
    await new Promise((resume) => setTimeout(resume, 5));
    done.add(job.data.number);
  };
  const patience = { lockDuration: 1000, stalledInterval: 300, maxStalledCount: 10 };
  const worker = new Worker("killed", run, { connection, concurrency: 5, ...patience });
  // While the server is away, each attempt to connect is reported.
  for (const one of [queue, worker]) one.on("error", () => {});
  try {
    await until("some jobs are done", () => done.size > 50);
    await running.kill();
    running = await startServer(running.port, { resp: true, respPort: running.respPort, more });
    await until("all jobs are done", async () => (await queue.getJobCounts("completed")).completed === 200);
    assert.equal(done.size, 200);
    const left = await queue.getJobCounts("waiting", "active", "failed", "delayed");
    assert.deepEqual(left, { waiting: 0, active: 0, failed: 0, delayed: 0 });
  } finally {
    await Promise.all([worker.close(true), queue.close()]);
    await running.stop();
    await rm(folder, { recursive: true });
  }
});
