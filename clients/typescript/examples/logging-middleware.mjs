// Logs each call that fails or takes longer than 10 ms.
//
//     node logging-middleware.mjs 127.0.0.1:7000

import { CacheClient, Configurations } from "@gannet/client";

const SLOW_MS = 10;

/** @type {import("@gannet/client").Middleware} */
const slowCalls = {
  after({ method, durationMs, queuedMs, error }) {
    if (error !== undefined) console.warn(`${method} failed: ${error}`);
    else if (durationMs > SLOW_MS) console.info(`${method} took ${durationMs} ms, ${queuedMs} of them in the queue`);
  },
};

const client = await CacheClient.create({
  address: process.argv[2] ?? "127.0.0.1:7000",
  configuration: Configurations.Laptop.latest().withMiddleware(slowCalls),
});
await client.listPushBack("tasks", "first");
console.log("a call on an item of another type fails:", (await client.get("tasks")).type);
client.close();
