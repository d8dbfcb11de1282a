// Tests the published, unmodified ioredis and node-redis over TLS.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import Redis from "ioredis";
import { createClient } from "redis";

import { startServer } from "./server.mjs";

const CERTIFICATES = fileURLToPath(new URL("../certificates", import.meta.url));
const PATIENT = { timeout: 60_000 };

let folder, server, ca;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "gannet-tls-"));
  execFileSync(CERTIFICATES, [folder], { stdio: "ignore" });
  ca = readFileSync(join(folder, "ca.crt"));
  server = await startServer(undefined, { resp: true, more: { TLS: folder } });
});

after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
  // Connections left open by a failed test would keep this process alive.
  setTimeout(() => process.exit(), 500).unref();
});

test("ioredis over TLS", PATIENT, async () => {
  const client = new Redis(server.respPort, "127.0.0.1", { tls: { ca } });
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 256));
  await client.set("io:bytes", bytes);
  assert.deepEqual(await client.getBuffer("io:bytes"), bytes);
  const pipeline = client.pipeline();
  for (let number = 0; number < 2000; number++) pipeline.set(`io:${number}`, number);
  assert.ok((await pipeline.exec()).every(([error]) => error === null));
  await client.quit();
});

test("node-redis over TLS", PATIENT, async () => {
  const client = createClient({ socket: { host: "localhost", port: server.respPort, tls: true, ca } });
  await client.connect();
  assert.equal(await client.set("nr:k", "v".repeat(100_000)), "OK");
  assert.equal((await client.get("nr:k")).length, 100_000);
  await client.close();
});
