// Starts one server through ../serve and ends it by its process id; has helpers that wait for a condition.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createConnection, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const SERVE = fileURLToPath(new URL("../serve", import.meta.url));

export async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

export async function connect(port) {
  const socket = createConnection(port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
}

// With `resp`, the server also serves Redis clients, on `respPort` or a free port. `more`: variables for `serve`.
export async function startServer(port, { resp = false, respPort, more = {} } = {}) {
  port ??= await freePort();
  if (resp) respPort ??= await freePort();
  const env = { ...process.env, ...(resp ? { RESP_PORT: String(respPort) } : {}), ...more };
  const child = spawn(SERVE, [String(port)], { stdio: ["ignore", "ignore", "inherit"], env });
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  };
  // Ends the server at once, as a crash does.
  const kill = async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  for (let attempt = 0; attempt < 500 && child.exitCode === null; attempt++) {
    try {
      (await connect(respPort ?? port)).destroy();
      return { port, respPort, stop, kill };
    } catch {
      await sleep(20);
    }
  }
  await stop();
  throw new Error(`the server does not listen on ${port}`);
}

export async function until(what, holds) {
  for (let attempt = 0; attempt < 1000; attempt++) {
    if (await holds()) return;
    await sleep(20);
  }
  throw new Error(`${what} did not happen`);
}
