// Shows the differences that docs/momento.md lists to users of Momento's published client for Node.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import momento from "@gomomento/sdk";

import { CACHE, fails, is, keyOf, methods, MomentoServer } from "./momento.mjs";

const { BAD_REQUEST_ERROR, FAILED_PRECONDITION_ERROR, INVALID_ARGUMENT_ERROR, LIMIT_EXCEEDED_ERROR, PERMISSION_ERROR } =
  momento.MomentoErrorCode;
const MINUTES = momento.ExpiresIn.minutes(5);
const PATIENT = { timeout: 60_000 };

let server;
let plain;
let cache;

before(async () => {
  server = await MomentoServer.start();
  plain = server.plain;
  cache = server.cacheClient();
});

afterEach(() => plain.flushall());

after(() => server.stop());

test("momento differences: webhooks and functions are refused", PATIENT, async () => {
  const topics = server.topicClient();
  const destination = "http://127.0.0.1:1/";
  await fails(BAD_REQUEST_ERROR, topics.listWebhooks(CACHE));
  await fails(BAD_REQUEST_ERROR, topics.putWebhook(CACHE, "w", { topicName: "t", destination }));
  await fails(BAD_REQUEST_ERROR, topics.getWebhookSecret(CACHE, "w"));
  await fails(BAD_REQUEST_ERROR, topics.rotateWebhookSecret(CACHE, "w"));
  await fails(BAD_REQUEST_ERROR, topics.deleteWebhook(CACHE, "w"));
  const functions = server.functionClient();
  await fails(BAD_REQUEST_ERROR, functions.putFunction(CACHE, "f", Uint8Array.of(0)));
  await fails(BAD_REQUEST_ERROR, functions.listFunctions(CACHE));
  await fails(BAD_REQUEST_ERROR, functions.listFunctionVersions("f"));
  await fails(BAD_REQUEST_ERROR, functions.deleteFunction(CACHE, "f"));
  const refused = methods(momento.TopicClient).filter((name) => name.includes("ebhook"));
  const all = [...refused, ...methods(momento.PreviewFunctionClient)].filter((name) => name !== "constructor");
  assert.deepEqual(all.filter((name) => name !== "close" && !server.called.has(name)), []);
  const invoke = momento.PermissionScopes.functionInvoke(CACHE, "f");
  await fails(INVALID_ARGUMENT_ERROR, server.authClient().generateApiKey(invoke, MINUTES));
});

test("momento differences: there are 16 caches, one of which always exists", PATIENT, async () => {
  for (let at = 1; at < 16; at++) await is("Success", cache.createCache(`c${at}`));
  await fails(LIMIT_EXCEEDED_ERROR, cache.createCache("c16"));
  await fails(INVALID_ARGUMENT_ERROR, cache.deleteCache("default"));
  const all = (await is("Success", cache.listCaches())).getCaches();
  assert.equal(all.length, 16);
  assert.equal(all[0].getCacheLimits().maxItemSizeKb, 0);
  for (let at = 1; at < 16; at++) await is("Success", cache.deleteCache(`c${at}`));
});

test("momento differences: the number of a namespace is the name of a cache", PATIENT, async () => {
  await is("Success", cache.set("3", "k", "v"));
  await plain.select(3);
  assert.equal(await plain.get("k"), "v");
  await plain.select(0);
});

test("momento differences: items have one keyspace with those of other protocols", PATIENT, async () => {
  await plain.set("forever", "v");
  const found = await is("Hit", cache.itemGetTtl(CACHE, "forever"));
  assert.equal(found.remainingTtlMillis(), Number(2n ** 63n - 1n));
  await plain.rpush("l", "a");
  await fails(FAILED_PRECONDITION_ERROR, cache.get(CACHE, "l"));
  await is("Success", cache.set(CACHE, "l", "v"));
  assert.equal(await plain.get("l"), "v");
});

test("momento differences: a value may have a longer time to live than a day", PATIENT, async () => {
  const year = 365 * 86_400;
  await is("Success", cache.set(CACHE, "k", "v", { ttl: year }));
  assert.ok((await plain.ttl("k")) > year - 100);
});

test("momento differences: ranges beyond the end are missing for lists alone", PATIENT, async () => {
  await plain.rpush("l", "a");
  await plain.zadd("z", 1, "a");
  await is("Miss", cache.listFetch(CACHE, "l", { startIndex: 5, endIndex: 9 }));
  const empty = await is("Hit", cache.sortedSetFetchByRank(CACHE, "z", { startRank: 5, endRank: 9 }));
  assert.deepEqual(empty.valueArray(), []);
});

test("momento differences: any key is accepted while no user has a password", PATIENT, async () => {
  await is("Miss", server.cacheClient({ key: keyOf("any") }).get(CACHE, "k"));
  await plain.acl("setuser", "default", "on", "resetpass", ">secret");
  const refused = server.cacheClient({ key: keyOf("any") });
  await fails(momento.MomentoErrorCode.AUTHENTICATION_ERROR, refused.get(CACHE, "k"));
  await is("Miss", server.cacheClient({ key: keyOf("secret") }).get(CACHE, "k"));
  await plain.acl("setuser", "default", "nopass");
});

test("momento differences: keys that may only write make no conditional changes", PATIENT, async () => {
  const scope = momento.PermissionScopes.cacheWriteOnly(CACHE);
  const { apiKey } = await is("Success", server.authClient().generateApiKey(scope, MINUTES));
  const writer = server.cacheClient({ key: apiKey });
  await is("Success", writer.set(CACHE, "k", "v"));
  await fails(PERMISSION_ERROR, writer.setIfAbsent(CACHE, "other", "v"));
  await fails(PERMISSION_ERROR, writer.increment(CACHE, "n", 1));
});

test("momento differences: the read concern has no effect", PATIENT, async () => {
  const configuration = (concern) => momento.Configurations.Laptop.latest().withReadConcern(concern);
  for (const concern of Object.values(momento.ReadConcern)) {
    const client = server.cacheClient({ configuration: configuration(concern) });
    await is("Success", client.set(CACHE, concern, "v"));
    assert.equal((await is("Hit", client.get(CACHE, concern))).value(), "v");
  }
  assert.ok(Object.values(momento.ReadConcern).length >= 2);
});
