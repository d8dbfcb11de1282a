// Starts real servers through conformance/clients/serve, ends them by their process id; helpers of the tests.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";

import { CacheClient, Configurations } from "../dist/index.js";
import { connect, freePort } from "../../../conformance/clients/node/server.mjs";

const CLIENTS = fileURLToPath(new URL("../../../conformance/clients/", import.meta.url));

export { freePort, sleep };
export const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
export const SCENARIOS = join(CLIENTS, "scenarios");
export const CONFIGURATION = Configurations.Laptop.v1().withDeadlineMs(10_000).withMetrics();

const STARTS_MAX = 3;

/** A server with ports for memcached, Redis and gRPC clients. */
export class Server {
  /** Starts a server; `more` has variables for `serve`, and `CONNECTIONS_MAX`. */
  static async start(more = {}) {
    const server = new Server();
    server.more = more;
    for (let attempt = 1; ; attempt++) {
      [server.port, server.respPort, server.grpcPort] = [await freePort(), await freePort(), await freePort()];
      try {
        await server.restart();
        return server;
      } catch (error) {
        // Another process took a port between its choice and its use. The server has waited 1 s for it.
        if (attempt === STARTS_MAX) throw error;
      }
    }
  }

  get address() {
    return `127.0.0.1:${this.grpcPort}`;
  }

  /** Starts a server on the ports of this one, which has ended. */
  async restart() {
    const env = { ...process.env, RESP_PORT: `${this.respPort}`, GRPC_PORT: `${this.grpcPort}`, ...this.more };
    const most = this.more.CONNECTIONS_MAX;
    const args = [`${this.port}`, ...(most ? [most] : [])];
    this.child = spawn(join(CLIENTS, "serve"), args, { stdio: ["ignore", "ignore", "inherit"], env });
    for (let attempt = 0; attempt < 500 && this.child.exitCode === null; attempt++) {
      try {
        (await connect(this.grpcPort)).destroy();
        return;
      } catch {
        await sleep(20);
      }
    }
    await this.end("SIGKILL");
    throw new Error(`the server does not listen on ${this.grpcPort}`);
  }

  async end(signal) {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill(signal);
    await once(this.child, "exit");
  }

  /** Ends the server at once, as a crash does. */
  kill() {
    return this.end("SIGKILL");
  }

  async stop() {
    this.resume();
    await this.end("SIGTERM");
  }

  /** Stops all threads of the server, until `resume`. */
  async pause() {
    this.child.kill("SIGSTOP");
    const folder = `/proc/${this.child.pid}/task`;
    const stopped = (thread) => readFileSync(`${folder}/${thread}/stat`, "utf8").split(") ").at(-1).startsWith("T");
    await until("the server stopped", () => readdirSync(folder).every(stopped));
  }

  resume() {
    this.child.kill("SIGCONT");
  }

  /** Returns the number of open gRPC connections. */
  connections() {
    const port = `:${this.grpcPort.toString(16).toUpperCase().padStart(4, "0")}`;
    const rows = readFileSync(`/proc/${this.child.pid}/net/tcp`, "utf8").split("\n")
      .map((row) => row.trim().split(/\s+/));
    return rows.filter((row) => row[1]?.endsWith(port) && row[3] === "01").length;
  }
}

/** Waits until a condition holds, for at most 10 s. */
export async function until(what, holds, ms = 10_000) {
  const end = Date.now() + ms;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `${what}: not within ${ms} ms`);
    await sleep(5);
  }
}

/** Creates a client that is closed after the test. */
export async function clientOf(context, address, configuration = CONFIGURATION, more = {}) {
  const client = await CacheClient.create({ address, configuration, ...more });
  context.after(() => client.close());
  return client;
}

/** Starts a server that the test may pause or kill. */
export async function ownServer(context, more) {
  const server = await Server.start(more);
  context.after(() => server.stop());
  return server;
}

/** Returns the code of a result that has to be an error whose message names its remedy. */
export function codeOf(result) {
  assert.equal(result.type, "error", inspect(result));
  assert.ok(result.remedy && result.message.endsWith(`; ${result.remedy}`), result.message);
  assert.ok(result.message.startsWith("cannot execute "), result.message);
  return result.code;
}

/** Sends one command to the port for Redis clients, and returns the bytes of its reply, which is one line. */
export async function redis(server, ...words) {
  const socket = createConnection(server.respPort, "127.0.0.1");
  socket.write(`*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`);
  const [reply] = await once(socket, "data");
  socket.destroy();
  return reply.toString();
}

/** Creates a folder with a certificate for localhost and its CA. */
export function certificates() {
  const folder = mkdtempSync(join(tmpdir(), "gannet-node-tls-"));
  execFileSync(join(CLIENTS, "certificates"), [folder], { stdio: "ignore" });
  return folder;
}

/** A TCP proxy to a port: the network between a client and a server. Each connection may hold back its replies. */
export class Proxy {
  /** Each connection, in order of arrival: `hold()` and `open()` its replies, or `cut()` it. */
  gates = [];
  /** True to close each new connection at once. */
  isClosed = false;
  #sockets = new Set();
  #path = "forward";
  /** The number of the first connections that have lost bytes, and stay silent. */
  #lost = 0;

  static async start(context, port) {
    const proxy = new Proxy();
    proxy.server = createServer((client) => proxy.#serve(client, port));
    proxy.server.listen(0, "127.0.0.1");
    await once(proxy.server, "listening");
    proxy.address = `127.0.0.1:${proxy.server.address().port}`;
    context.after(() => {
      proxy.server.close();
      for (const socket of proxy.#sockets) socket.destroy();
    });
    return proxy;
  }

  /** Changes the network as a step of a scenario does: `hold`, `swallow` or `forward`. */
  network(action) {
    assert.ok(["hold", "swallow", "forward"].includes(action), `the proxy does not know '${action}'`);
    if ([this.#path, action].includes("swallow")) this.#lost = this.gates.length;
    this.#path = action;
    for (const socket of this.#sockets) action === "hold" ? socket.pause() : socket.resume();
  }

  #serve(client, port) {
    if (this.isClosed) {
      client.on("error", () => {}).destroy();
      return;
    }
    const server = createConnection(port, "127.0.0.1");
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true).on("error", () => {});
      socket.on("close", () => [client, server].forEach((each) => each.destroy()));
    }
    const number = this.gates.length;
    const passes = () => this.#path !== "swallow" && number >= this.#lost;
    client.on("data", (data) => passes() && server.write(data));
    server.on("data", (data) => passes() && client.write(data));
    if (this.#path === "hold") [client, server].forEach((socket) => socket.pause());
    this.gates.push({ hold: () => server.pause(), open: () => server.resume(), cut: () => client.destroy() });
  }
}
