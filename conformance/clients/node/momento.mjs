// Starts a server for Momento's published client, opens clients aimed at it, and notes which of their methods were
// called.

import assert from "node:assert/strict";

import momento from "@gomomento/sdk";
import Redis from "ioredis";

import { connect, freePort, startServer, until } from "./server.mjs";

export const CACHE = "default";
// Longer than that of the presets, for a busy host.
const TIMEOUT_MS = 30_000;

// Waits for replies and fails unless they have this type; returns the last one.
export async function is(type, ...calls) {
  let reply;
  for (const call of calls) {
    reply = await call;
    assert.equal(reply.type, type, String(reply));
  }
  return reply;
}

// Waits for an error with this code. `limit`: the limit that the metadata `err` names.
export async function fails(code, call, limit) {
  const reply = await is("Error", call);
  assert.equal(reply.errorCode(), code, String(reply));
  if (limit !== undefined) {
    assert.deepEqual(reply.innerException().transportDetails().grpc.metadata.get("err"), [limit]);
  }
  return reply;
}

// Returns an API key with the password or token `secret`, in the form that the client reads.
export function keyOf(secret) {
  return Buffer.from(JSON.stringify({ endpoint: "127.0.0.1", api_key: secret })).toString("base64");
}

// Returns the names of all methods that a client of this class has.
export function methods(type) {
  const names = [];
  for (let at = type.prototype; at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    names.push(...Object.getOwnPropertyNames(at).filter((name) => typeof at[name] === "function"));
  }
  return names;
}

// One server, and clients that are aimed at it.
export class MomentoServer {
  called = new Set();
  clients = [];

  static async start(more = {}) {
    const running = new MomentoServer();
    running.port = await freePort();
    const variables = { GRPC_PORT: String(running.port), ...more };
    running.server = await startServer(undefined, { resp: true, more: variables });
    const listens = () => connect(running.port).then((socket) => Boolean(socket.destroy()), () => false);
    await until("the port for gRPC", listens);
    running.plain = new Redis(running.server.respPort, "127.0.0.1");
    return running;
  }

  async stop() {
    for (const client of this.clients) client.close?.();
    this.plain.disconnect();
    await this.server.stop();
    // The client has no call that ends the connections of topics.
    setTimeout(() => process.exit(), 500).unref();
  }

  // `key`: an API key, without which calls carry no `authorization`; `port`: another port than that of the server.
  credentials({ key, port = this.port } = {}) {
    if (key === undefined) return momento.CredentialProvider.forMomentoLocal({ hostname: "127.0.0.1", port });
    const endpoint = `127.0.0.1:${port}`;
    const endpoints = { controlEndpoint: endpoint, cacheEndpoint: endpoint, tokenEndpoint: endpoint };
    return momento.CredentialProvider.fromString({
      apiKey: key,
      endpointOverrides: { ...endpoints, secureConnection: false },
    });
  }

  cacheClient({ configuration = momento.Configurations.Laptop.latest().withNumConnections(1), ...at } = {}) {
    configuration = configuration.withClientTimeoutMillis(TIMEOUT_MS);
    const credentialProvider = this.credentials(at);
    return this.#opened(new momento.CacheClient({ configuration, credentialProvider, defaultTtlSeconds: 60 }));
  }

  topicClient(at) {
    const configuration = momento.TopicConfigurations.Default.latest()
      .withNumConnections(1)
      .withClientTimeoutMillis(TIMEOUT_MS)
      .withSubscriptionRetryStrategy({ determineWhenToResubscribe: () => 20 });
    return this.#opened(new momento.TopicClient({ configuration, credentialProvider: this.credentials(at) }));
  }

  authClient(at) {
    const configuration = momento.AuthClientConfigurations.Default.latest();
    return this.#opened(new momento.AuthClient({ configuration, credentialProvider: this.credentials(at) }));
  }

  leaderboard(name) {
    const configuration = momento.LeaderboardConfigurations.Laptop.latest();
    const client = new momento.PreviewLeaderboardClient({ configuration, credentialProvider: this.credentials() });
    return this.#opened(client).leaderboard(CACHE, name);
  }

  functionClient() {
    const configuration = momento.FunctionConfigurations.Laptop.latest();
    return this.#opened(new momento.PreviewFunctionClient({ configuration, credentialProvider: this.credentials() }));
  }

  #opened(client) {
    this.clients.push(client);
    return this.#noting(client);
  }

  // Returns the object, whose methods note their names, as do those of the objects that belong to it.
  #noting(object) {
    const { called } = this;
    const noting = (belonging) => this.#noting(belonging);
    return new Proxy(object, {
      get(target, name) {
        const member = target[name];
        if (typeof member !== "function") return member;
        return (...values) => {
          called.add(name);
          const result = member.apply(target, values);
          return name === "leaderboard" || name === "cache" ? noting(result) : result;
        };
      },
    });
  }
}
