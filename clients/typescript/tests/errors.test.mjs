// Common mistakes: each gives an error whose message names the remedy.

import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { CacheClient, CacheError, Configurations, CredentialProvider, NoRetry } from "../dist/index.js";
import { errorOfStatus } from "../dist/errors.js";
import { certificates, clientOf, codeOf, freePort, ownServer, Proxy, redis, Server } from "./server.mjs";

const ONCE = Configurations.Laptop.v1().withRetryStrategy(new NoRetry()).withDeadlineMs(5000);

let server, tlsServer, folder;

before(async () => {
  folder = certificates();
  [server, tlsServer] = await Promise.all([Server.start(), Server.start({ TLS: folder })]);
});

after(async () => {
  await Promise.all([server.stop(), tlsServer.stop()]);
  rmSync(folder, { recursive: true });
});

async function failure(context, address, code, ...parts) {
  const more = typeof parts.at(-1) === "object" ? parts.pop() : {};
  const client = await clientOf(context, address, ONCE, more);
  const result = await client.get("k");
  assert.equal(codeOf(result), code, result.message);
  for (const part of parts) assert.ok(result.message.includes(part), result.message);
  client.close();
  return result;
}

test("no server", async (context) => {
  const address = `127.0.0.1:${await freePort()}`;
  const start = `no server listens there; start one with \`gannet serve --grpc ${address}\``;
  const result = await failure(context, address, "UNAVAILABLE", start);
  assert.ok(result.retryable);
});

test("the port of another protocol", async (context) => {
  for (const port of [server.port, server.respPort]) {
    const parts = ["does not speak gRPC", "`gannet serve --grpc`, not the port of memcached, Redis"];
    await failure(context, `127.0.0.1:${port}`, "UNAVAILABLE", ...parts);
  }
});

test("a port that closes each connection at once", async (context) => {
  const mapping = await Proxy.start(context, server.grpcPort);
  mapping.isClosed = true;
  await failure(context, mapping.address, "UNAVAILABLE", "does not speak gRPC", "pass the address of");
});

test("an unknown host", async (context) => {
  await failure(context, "gannet.invalid:1", "UNAVAILABLE", "the host name is unknown; correct it", { tls: false });
});

test("TLS to a port without TLS", async (context) => {
  const address = `localhost:${server.grpcPort}`;
  await failure(context, address, "UNAVAILABLE", "does not use TLS; pass tls: false", { tls: true });
});

test("plain to a port with TLS", async (context) => {
  await failure(context, tlsServer.address, "UNAVAILABLE", "if the port uses TLS, pass tls: true");
});

test("a certificate of an unknown CA", async (context) => {
  const address = `localhost:${tlsServer.grpcPort}`;
  await failure(context, address, "UNAVAILABLE", "was not signed by a known CA", "pass caFile: PATH", { tls: true });
});

test("TLS with the CA of the server", async (context) => {
  const caFile = join(folder, "ca.crt");
  const client = await clientOf(context, `localhost:${tlsServer.grpcPort}`, ONCE, { caFile });
  assert.equal((await client.set("tls", "v")).type, "success");
  assert.equal((await client.get("tls")).valueString(), "v");
  await assert.rejects(CacheClient.create({ address: "localhost:1", caFile: join(folder, "none") }),
    { code: "ENOENT" });
});

test("TLS is on unless the address is local", async (context) => {
  await failure(context, `localhost:${tlsServer.grpcPort}`, "UNAVAILABLE", "does not speak gRPC");
  // This name is never resolved.
  const client = await clientOf(context, "gannet.invalid:1", ONCE);
  assert.equal(client.engine.target.tls, true);
});

test("tokens", async (context) => {
  const own = await ownServer(context);
  await redis(own, "ACL", "SETUSER", "reader", "on", ">word", "~*", "+get");
  await redis(own, "ACL", "SETUSER", "default", "resetpass", ">secret");
  const token = (text) => ({ credentials: CredentialProvider.fromString(text) });
  await failure(context, own.address, "UNAUTHENTICATED", "none was passed; pass credentials:");
  const wrong = await failure(context, own.address, "UNAUTHENTICATED", "does not accept the token", token("nope!"));
  assert.ok(!wrong.message.includes("nope!") && !wrong.retryable);
  const client = await clientOf(context, own.address, ONCE, token("secret"));
  assert.ok(!inspect(client, { depth: 9 }).includes("secret") && !JSON.stringify(client).includes("secret"));
  assert.equal((await client.set("k", "v")).type, "success");
  assert.equal((await client.listCaches()).type, "success");
  const reader = await clientOf(context, own.address, ONCE, token("reader:word"));
  assert.equal((await reader.get("k")).valueString(), "v");
  const denied = await reader.set("k", "v");
  assert.equal(codeOf(denied), "PERMISSION_DENIED");
  assert.equal(denied.retryable, false);
  for (const part of ["gannet user token", "tokens.generateDisposableToken", "ACL SETUSER"]) {
    assert.ok(denied.remedy.includes(part), denied.remedy);
  }
});

test("a subscription names the remedies that a call names", async (context) => {
  const locked = await ownServer(context);
  await redis(locked, "ACL", "SETUSER", "default", "resetpass", ">secret");
  const wrong = { credentials: CredentialProvider.fromString("guess") };
  const mistakes = [
    [`127.0.0.1:${await freePort()}`, "UNAVAILABLE", "start one with `gannet serve --grpc", {}],
    [`127.0.0.1:${server.port}`, "UNAVAILABLE", "not the port of memcached, Redis or HTTP", {}],
    [tlsServer.address, "UNAVAILABLE", "if the port uses TLS, pass tls: true", {}],
    [`localhost:${server.grpcPort}`, "UNAVAILABLE", "pass tls: false", { tls: true }],
    [`localhost:${tlsServer.grpcPort}`, "UNAVAILABLE", "pass caFile: PATH", { tls: true }],
    [locked.address, "UNAUTHENTICATED", "none was passed; pass credentials:", {}],
    [locked.address, "UNAUTHENTICATED", "does not accept the token", wrong],
  ];
  for (const [address, code, part, more] of mistakes) {
    const client = await clientOf(context, address, ONCE, more);
    const results = [await client.topics.subscribe("t"), await client.topics.publish("t", "v")];
    const near = await client.nearCache({ deadlineMs: 300 });
    results.push(near.type === "error" ? near : near.failure);
    for (const result of results) {
      assert.equal(codeOf(result), code, result.message);
      assert.ok(result.message.includes(part), result.message);
    }
    client.close();
  }
});

test("a cache that does not exist", async (context) => {
  const client = await clientOf(context, server.address);
  const result = await client.withCache("absent").get("k");
  assert.equal(codeOf(result), "NOT_FOUND_CACHE");
  assert.ok(result.remedy.includes("createCache") && !result.retryable);
});

test("arguments and limits", async (context) => {
  const client = await clientOf(context, server.address);
  assert.equal(codeOf(await client.get("")), "INVALID_ARGUMENT");
  assert.equal((await client.get("long")).type, "miss");
  await client.set("text", "v");
  const result = await client.listLength("text");
  assert.equal(codeOf(result), "FAILED_PRECONDITION");
  assert.ok(result.remedy.includes("getType"));
  assert.equal(client.metrics().retries, 0);
});

async function tooLong(result, cause, remedy) {
  const error = await result;
  assert.equal(codeOf(error), "LIMIT_EXCEEDED", error.message);
  assert.ok(error.message.includes(cause) && !error.retryable, error.message);
  assert.equal(error.remedy, remedy);
}

test("an item above the maximum names its size and the option of the server", async (context) => {
  const client = await clientOf(context, server.address);
  const remedy = "store less in one item, or raise the limit by --item-max of the server";
  await tooLong(client.set("long", new Uint8Array(2_000_000)), "and the request has 20000", remedy);
  assert.equal((await client.get("long")).type, "miss");
});

test("a message above the fixed maximum of the server is not blamed on a setting", async (context) => {
  const client = await clientOf(context, server.address);
  const call = client.set("longer", new Uint8Array(12_000_000));
  await tooLong(call, "bytes, above the maximum of 10485760 bytes", "send less in one call");
});

test("a message above the own maximum names the setting", async (context) => {
  const small = await clientOf(context, server.address, ONCE.with({ messageBytesMax: 100_000 }));
  const raise = "send less in one call, or raise messageBytesMax to at most 10485760 bytes";
  await tooLong(small.set("own", new Uint8Array(200_000)), "above the maximum of 100000 bytes", raise);
  const client = await clientOf(context, server.address);
  assert.equal((await client.set("own", new Uint8Array(200_000))).type, "success");
  const remedy = "read less in one call, or raise messageBytesMax";
  await tooLong(small.get("own"), "the reply is longer than the maximum of 100000 bytes", remedy);
});

test("calls after close", async (context) => {
  const client = await clientOf(context, server.address);
  assert.notEqual((await client.get("k")).type, "error");
  client.close();
  const result = await client.get("k");
  assert.equal(codeOf(result), "CANCELLED");
  assert.ok(result.message.includes("the client is closed; create a new client"));
  assert.equal(await client.connect(100), false);
});

test("an address that is none", async () => {
  for (const address of ["localhost", "http://localhost:7000", ":7000", "localhost:0", "localhost:x", "a b:1"]) {
    const wrong = { name: "RangeError", message: /it is not HOST:PORT; give one/ };
    await assert.rejects(CacheClient.create({ address }), wrong, address);
  }
  await assert.rejects(CacheClient.create({ address: "localhost:1", defaultTtlSeconds: 0 }), { name: "RangeError" });
});

test("an address of IPv6", async (context) => {
  const client = await clientOf(context, "[::1]:7", ONCE);
  assert.equal(codeOf(await client.get("k")), "UNAVAILABLE");
});

test("credentials", () => {
  delete process.env.GANNET_TOKEN;
  assert.throws(() => CredentialProvider.fromEnvironment(), /export GANNET_TOKEN=TOKEN/);
  process.env.GANNET_TOKEN = "user:word";
  const provider = CredentialProvider.fromEnvironment();
  assert.equal(provider.token, "user:word");
  assert.ok(!inspect(provider, { showHidden: true, depth: 9 }).includes("word"));
  assert.ok(!JSON.stringify(provider).includes("word"));
  assert.throws(() => CredentialProvider.fromString(""), /it is empty/);
  assert.throws(() => CredentialProvider.fromString("a\nb"), /not printable ASCII/);
  assert.equal(CredentialProvider.none().token, undefined);
});

test("an error can be thrown", () => {
  const facts = { bytes: 1, bytesMax: 2 };
  const error = errorOfStatus(12, "Received HTTP status code 404", "Get", { address: "h:1", tls: false }, facts);
  assert.ok(error instanceof CacheError && error.code === "UNAVAILABLE");
  assert.ok(error.message.includes("does not speak gRPC"));
  const exception = error.toException();
  assert.ok(exception instanceof Error && exception.cause === error && exception.message === error.message);
  assert.equal(`${error}`, `UNAVAILABLE: ${error.message}`);
});
