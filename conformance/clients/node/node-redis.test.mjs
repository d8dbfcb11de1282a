// Tests the published, unmodified node-redis and the session store connect-redis through the Redis protocol.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { RedisStore } from "connect-redis";
import session from "express-session";
import { createClient, WatchError } from "redis";

import { startServer, until } from "./server.mjs";

const PATIENT = { timeout: 60_000 };

let server;

before(async () => {
  server = await startServer(undefined, { resp: true });
});

after(async () => {
  await server.stop();
  // Connections left open by a failed test would keep this process alive.
  setTimeout(() => process.exit(), 500).unref();
});

async function open(options) {
  return createClient({ url: `redis://127.0.0.1:${server.respPort}`, ...options }).connect();
}

function eachVersion(name, check) {
  for (const RESP of [2, 3]) {
    test(`node-redis, version ${RESP}: ${name}`, PATIENT, async () => {
      const client = await open({ RESP, name: `node-${RESP}` });
      await check(client, (key) => `node:${RESP}:${key}`);
      await client.close();
    });
  }
}

eachVersion("commands and walks", async (client, key) => {
  assert.equal(await client.set(key("k"), "v", { EX: 100 }), "OK");
  assert.equal(await client.get(key("k")), "v");
  assert.equal(await client.incrBy(key("n"), 3), 3);
  assert.deepEqual(await client.mGet([key("k"), key("none")]), ["v", null]);
  assert.match(await client.clientGetName(), /^node-[23]$/);
  const sums = await Promise.all(Array.from({ length: 500 }, () => client.incr(key("many"))));
  assert.deepEqual(sums, Array.from({ length: 500 }, (_, at) => at + 1));
  await Promise.all(Array.from({ length: 300 }, (_, at) => client.set(key(`walk:${at}`), "x")));
  const met = new Set();
  for await (const keys of client.scanIterator({ MATCH: key("walk:*"), COUNT: 50 })) {
    for (const one of keys) met.add(one);
  }
  assert.equal(met.size, 300);
  await assert.rejects(client.sendCommand(["NOSUCHCOMMAND"]), /unknown command/);
});

eachVersion("subscribers", async (client, key) => {
  const subscriber = await client.duplicate().connect();
  const told = [];
  await subscriber.subscribe(key("news"), (text, channel) => told.push([channel, text]));
  await subscriber.pSubscribe(key("n*"), (text, channel) => told.push([channel, text]));
  assert.equal(await client.publish(key("news"), "hello"), 2);
  await until("both messages", () => told.length === 2);
  assert.deepEqual(told, [[key("news"), "hello"], [key("news"), "hello"]]);
  await subscriber.unsubscribe(key("news"));
  await subscriber.pUnsubscribe(key("n*"));
  assert.equal(await client.publish(key("news"), "nobody"), 0);
  await subscriber.close();
});

eachVersion("hashes", async (client, key) => {
  assert.equal(await client.hSet(key("user"), { name: "Ada", visits: 1 }), 2);
  assert.equal(await client.hSet(key("user"), "name", "Ada L."), 0);
  assert.equal(await client.hIncrBy(key("user"), "visits", 4), 5);
  assert.deepEqual({ ...(await client.hGetAll(key("user"))) }, { name: "Ada L.", visits: "5" });
  assert.deepEqual(await client.hmGet(key("user"), ["name", "none"]), ["Ada L.", null]);
  assert.equal(await client.hDel(key("user"), ["visits", "none"]), 1);
  assert.equal(await client.hLen(key("user")), 1);
  await assert.rejects(client.hIncrBy(key("user"), "name", 1), /not an integer/);
  await assert.rejects(client.get(key("user")), /WRONGTYPE/);
  assert.deepEqual({ ...(await client.hGetAll(key("nobody"))) }, {});
  const fields = Array.from({ length: 300 }, (_, at) => [`f${at}`, `v${at}`]);
  assert.equal(await client.hSet(key("wide"), new Map(fields)), 300);
  const met = new Map();
  for await (const part of client.hScanIterator(key("wide"), { COUNT: 20 })) {
    for (const { field, value } of part) met.set(field, value);
  }
  assert.deepEqual([...met].sort(), fields.sort());
});

eachVersion("a transaction is done whole or not at all", async (client, key) => {
  const other = await client.duplicate().connect();
  const done = await client.multi().set(key("t"), 1).incr(key("t")).hSet(key("th"), "f", "1").hGetAll(key("th")).exec();
  assert.deepEqual(done.slice(0, 3), ["OK", 2, 1]);
  assert.deepEqual({ ...done[3] }, { f: "1" });
  const failed = await client.multi().set(key("w"), "x").incr(key("w")).get(key("w")).exec().catch((error) => error);
  assert.deepEqual(failed.errorIndexes, [1]);
  assert.equal(failed.replies[2], "x");
  const wrong = client.multi().set(key("t"), "lost").addCommand(["SET", key("t")]).exec();
  await assert.rejects(wrong, /wrong number of arguments/);
  assert.equal(await client.get(key("t")), "2");
  await client.watch(key("t"));
  await other.incr(key("t"));
  await assert.rejects(client.multi().set(key("t"), "lost").exec(), WatchError);
  await client.watch(key("t"));
  assert.deepEqual(await client.multi().incr(key("t")).exec(), [4]);
  await other.close();
});

eachVersion("a limit of a rate lets through as many as it says", async (client, key) => {
  const clients = [client, await client.duplicate().connect()];
  const rate = key("rate");
  const allowed = async (one) => {
    const [count] = await one.multi().incr(rate).expire(rate, 60, "NX").exec();
    return count <= 10;
  };
  const answers = await Promise.all(Array.from({ length: 100 }, (_, at) => allowed(clients[at % 2])));
  assert.equal(answers.filter(Boolean).length, 10);
  const left = await client.ttl(rate);
  assert.ok(left > 0 && left <= 60, `${left}`);
  await client.pExpire(rate, 1);
  await until("the next window", () => allowed(client));
  assert.equal(await client.get(rate), "1");
  await clients[1].close();
});

test("node-redis: a server that was started again", PATIENT, async () => {
  const first = await startServer(undefined, { resp: true });
  const client = createClient({ socket: { port: first.respPort, host: "127.0.0.1", reconnectStrategy: 50 } });
  client.on("error", () => {});
  await client.connect();
  await client.set("k", "v");
  await first.stop();
  const second = await startServer(first.port, { resp: true, respPort: first.respPort });
  await until("an answer", async () => (await client.get("k").catch(() => "error")) === null);
  client.destroy();
  await second.stop();
});

test("connect-redis: every call of a session store", PATIENT, async () => {
  const client = await open();
  const store = new RedisStore({ client, prefix: "store:", ttl: 100 });
  assert.ok(store instanceof session.Store);
  const call = (name) => promisify(store[name]).bind(store);
  const cookie = { originalMaxAge: null };
  for (let number = 0; number < 20; number++) await call("set")(`id-${number}`, { cookie, user: `user-${number}` });
  assert.deepEqual(await call("get")("id-7"), { cookie, user: "user-7" });
  assert.ok((await client.ttl("store:id-7")) > 90);
  await client.expire("store:id-7", 10);
  await call("touch")("id-7", { cookie, user: "user-7" });
  assert.ok((await client.ttl("store:id-7")) > 90);
  assert.equal(await call("length")(), 20);
  assert.equal((await call("ids")()).length, 20);
  assert.equal((await call("all")()).length, 20);
  await call("destroy")("id-7");
  assert.ok(!(await call("get")("id-7")));
  await call("clear")();
  assert.equal(await call("length")(), 0);
  await client.close();
});

// A web server that counts the visits of each of its visitors.
async function startWeb() {
  const client = await open();
  const store = new RedisStore({ client, prefix: "web:" });
  const options = { secret: "of the test", resave: false, saveUninitialized: false, cookie: { maxAge: 100_000 } };
  const keep = session({ store, ...options });
  const act = (request, response) => {
    const end = (error) => {
      response.writeHead(error ? 500 : 200).end(String(error ?? request.session?.visits ?? "left"));
    };
    if (request.url === "/leave") return request.session.destroy(end);
    request.session.visits = (request.session.visits ?? 0) + 1;
    return end();
  };
  const web = createServer((request, response) => {
    keep(request, response, (error) => (error ? response.writeHead(500).end(String(error)) : act(request, response)));
  });
  await once(web.listen(0, "127.0.0.1"), "listening");
  const visit = async (path, cookie) => {
    const answer = await fetch(`http://127.0.0.1:${web.address().port}${path}`, { headers: cookie ? { cookie } : {} });
    const told = answer.headers.get("set-cookie")?.split(";")[0];
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    return { text, cookie: told ?? cookie };
  };
  const stop = async () => {
    web.closeAllConnections();
    web.close();
    await client.close();
  };
  return { client, visit, stop };
}

// The key of the session that a cookie names: `connect.sid=s%3AID.SIGNATURE`.
function keyOf(cookie) {
  return `web:${decodeURIComponent(cookie).match(/=s:([^.]+)\./)[1]}`;
}

test("connect-redis: visitors of two web servers keep their sessions", PATIENT, async () => {
  const webs = [await startWeb(), await startWeb()];
  const visits = Array.from({ length: 20 }, async () => {
    let { text, cookie } = await webs[0].visit("/");
    for (let number = 2; number <= 6; number++) {
      assert.equal(text, String(number - 1));
      ({ text, cookie } = await webs[number % 2].visit("/", cookie));
    }
    assert.equal(text, "6");
    return cookie;
  });
  const cookies = await Promise.all(visits);
  const keys = cookies.map(keyOf);
  assert.equal(new Set(keys).size, 20);
  assert.equal(JSON.parse(await webs[0].client.get(keys[0])).visits, 6);
  const left = await webs[0].client.ttl(keys[0]);
  assert.ok(left > 0 && left <= 100, `${left}`);
  for (const web of webs) await web.stop();
});

test("connect-redis: a session that was left, or whose time is over, begins again", PATIENT, async () => {
  const web = await startWeb();
  const left = await web.visit("/");
  assert.equal((await web.visit("/leave", left.cookie)).text, "left");
  assert.equal(await web.client.exists(keyOf(left.cookie)), 0);
  const again = await web.visit("/", left.cookie);
  assert.equal(again.text, "1");
  assert.notEqual(again.cookie, left.cookie);
  await web.client.pExpire(keyOf(again.cookie), 1);
  await until("its end", async () => (await web.client.exists(keyOf(again.cookie))) === 0);
  assert.equal((await web.visit("/", again.cookie)).text, "1");
  await web.stop();
});
