// Plays the scenarios that all client libraries share; conformance/clients/scenarios describes them.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";

import { parse } from "smol-toml";

import { Configurations, FixedCount, NoRetry } from "../dist/index.js";
import { clientOf, codeOf, ownServer, Proxy, SCENARIOS, sleep, until } from "./server.mjs";

const STEP_MS_MAX = 30_000;

/** Fails if a table has a key that the player does not know. */
function known(table, keys) {
  for (const key of Object.keys(table)) assert.ok(keys.split(" ").includes(key), `the player does not know '${key}'`);
  return table;
}

function configured(changes) {
  known(changes, "preset deadline_ms requests_in_flight_max requests_queued_max retry_count near_cache");
  let configuration = Configurations.named(changes.preset ?? "Laptop.v1").withMetrics();
  if (changes.deadline_ms) configuration = configuration.withDeadlineMs(changes.deadline_ms);
  if ("requests_in_flight_max" in changes) {
    configuration = configuration.withRequestsInFlightMax(changes.requests_in_flight_max);
  }
  if ("requests_queued_max" in changes)
    configuration = configuration.withRequestsQueuedMax(changes.requests_queued_max);
  if ("retry_count" in changes) {
    configuration = configuration.withRetryStrategy(
      changes.retry_count ? new FixedCount(changes.retry_count) : new NoRetry(),
    );
  }
  return configuration;
}

const camel = (name) => name.replaceAll(/_(\w)/g, (_, letter) => letter.toUpperCase());
const orderOf = ({ order }) => (order === undefined ? {} : { descending: order === "descending" });

// The calls whose arguments are not those of the scenario in its order.
const CALLS = {
  list_fetch: (of, { key }, options) => of.listFetch(key, {}, options),
  sorted_set_fetch_by_index: (of, { key }, options) => of.sortedSetFetchByIndex(key, {}, options),
  update_ttl: (of, { key, ttl_ms }, options) => of.updateTtl(key, ttl_ms / 1000, options),
  increase_ttl: (of, { key, ttl_ms }, options) => of.increaseTtl(key, ttl_ms / 1000, options),
  decrease_ttl: (of, { key, ttl_ms }, options) => of.decreaseTtl(key, ttl_ms / 1000, options),
  topic_publish: (of, { topic, value }, options) => of.topics.publish(topic, value, options),
  lease_get: (of, { key }, options) => of.leases.get(key, options),
  lease_stale: (of, { key }, options) => of.leases.markStale(key, options),
  record_put: (of, { key, bins, only, ...rest }, options) =>
    of.records.put(key, bins, { ...options, when: only, set: rest.set, ifRevision: rest.if_revision }),
  record_add: (of, { key, bins }, options) => of.records.add(key, bins, options),
  record_get: (of, { key, filter }, options) => of.records.get(key, { ...options, filter }),
  record_delete: (of, { key, if_revision: ifRevision }, options) => of.records.delete(key, { ...options, ifRevision }),
  record_scan: (of, { set }, options) => of.records.scan(set, options),
  leaderboard_upsert: (of, { leaderboard, elements }, options) =>
    of.leaderboard(leaderboard).upsertElements(elements, options),
  leaderboard_remove: (of, { leaderboard, ids }, options) => of.leaderboard(leaderboard).removeElements(ids, options),
  leaderboard_length: (of, { leaderboard }, options) => of.leaderboard(leaderboard).length(options),
  leaderboard_delete: (of, { leaderboard }, options) => of.leaderboard(leaderboard).delete(options),
  leaderboard_get_by_rank: (of, { leaderboard, first, end, ...rest }, options) =>
    of.leaderboard(leaderboard).getByRank({ first, end, ...orderOf(rest) }, options),
  leaderboard_get_by_score: (of, { leaderboard, least, end, ...rest }, options) =>
    of.leaderboard(leaderboard).getByScore({ least, end, ...orderOf(rest) }, options),
  leaderboard_get_rank: (of, { leaderboard, ids, ...rest }, options) =>
    of.leaderboard(leaderboard).getRank(ids, orderOf(rest), options),
  leaderboard_get_competition_rank: (of, { leaderboard, ids, ...rest }, options) =>
    of.leaderboard(leaderboard).getCompetitionRank(ids, orderOf(rest), options),
};

const texts = (result) => result.elementsString();
const FIELDS = {
  value: (result) => (result.oldString ? result.oldString() : result.valueString()),
  sequence: (result) => result.sequence,
  last_sequence: (result) => result.lastSequence,
  new_sequence: (result) => result.newSequence,
  number: (result) => result.value(),
  results: (result) => result.results.map((each) => seen(each, ["type", "value"])),
  elements: texts,
  fields: (result) => Object.fromEntries(result.fieldsString()),
  contained: (result) => result.contained,
  scored: texts,
  revision: (result) => result.revision,
  bins: (result) => Object.fromEntries(result.bins),
  keys: (result) => result.records.map((each) => each.keyString()).sort(),
  length: (result) => result.length,
  ranked: (result) => result.elements.map(({ id, rank, score }) => [id, rank, score]),
  code: codeOf,
};

// Returns the named fields of a result as the scenario writes them; a miss and an error have no value.
function seen(result, fields) {
  const found = { type: result.type };
  for (const field of fields) {
    if (field === "type" || result.type === "miss") continue;
    if ((result.type === "error") === (field === "code")) found[field] = FIELDS[field](result);
  }
  return found;
}

function compare(step, result, tookMs) {
  const { remaining_ms_max: ttlMsMax, remaining_ms_min: ttlMsMin, ...expected } = step.expect;
  if (["lease_stale", "record_delete"].includes(step.call) && expected.type === "hit") expected.type = "success";
  known(expected, `type ${Object.keys(FIELDS).join(" ")}`);
  assert.deepEqual(seen(result, Object.keys(expected)), expected, inspect(result));
  if (ttlMsMax !== undefined) assert.ok(result.remainingMs > 0 && result.remainingMs <= ttlMsMax);
  if (ttlMsMin !== undefined) assert.ok(result.remainingMs >= ttlMsMin);
  assert.ok(tookMs >= (step.at_least_ms ?? 0) && tookMs <= (step.at_most_ms ?? STEP_MS_MAX), `${tookMs} ms`);
}

/** Plays the steps of one scenario. */
class Player {
  #client;
  #server;
  #context;
  #near;
  #other;
  #proxy;
  #faults = {};
  #steps = 0;
  /** Calls that were started, subscriptions, and the last leases by client and key. */
  started = new Map();
  #subscriptions = new Map();
  #leases = new Map();
  #held = [];

  static async begin(context, { client: changes = {}, server = {}, steps }) {
    const player = new Player();
    const { connections_max: most } = known(server, "connections_max");
    player.#context = context;
    player.#server = await ownServer(context, { TEST_FAULTS: "1", ...(most && { CONNECTIONS_MAX: `${most}` }) });
    let { address } = player.#server;
    if (steps.some((step) => "network" in step)) {
      player.#proxy = await Proxy.start(context, player.#server.grpcPort);
      address = player.#proxy.address;
    }
    player.#client = await clientOf(context, address, configured(changes));
    if (changes.near_cache !== undefined) {
      const { entries_max: entriesMax, bytes_max: bytesMax } = known(changes.near_cache, "entries_max bytes_max");
      player.#near = await player.#client.nearCache({ entriesMax, bytesMax });
      assert.ok(player.#near.metrics().watching, inspect(player.#near));
    }
    context.after(() => player.#held.forEach((socket) => socket.destroy()));
    return player;
  }

  /** Returns the object whose calls a step executes, with the present faults in its metadata. */
  async #of(step) {
    let of = this.#client;
    if (step.client !== undefined) {
      assert.equal(step.client, "other");
      this.#other ??= await clientOf(this.#context, this.#server.address, configured({}));
      of = this.#other;
    }
    if (step.cache !== undefined) of = of.withCache(step.cache);
    if (step.client === undefined) this.#setFaults(of);
    return of;
  }

  #setFaults(of, previous = {}) {
    for (const { metadata } of [of.scope, of.cachesScope]) {
      for (const name of Object.keys(previous)) metadata.remove(name);
      for (const [name, value] of Object.entries(this.#faults)) metadata.set(name, `${value}`);
    }
  }

  async #execute(step, signal) {
    const { call, arguments: given = {}, deadline_ms: deadlineMs } = step;
    const of = await this.#of(step);
    const options = { signal, deadlineMs };
    if (call === "lease_set") {
      return of.leases.set(given.key, this.#leases.get(`${step.client} ${given.key}`), given.value, options);
    }
    const special = CALLS[call];
    if (special !== undefined) {
      const result = await special(of, given, options);
      if (result.type === "won") this.#leases.set(`${step.client} ${given.key}`, result.token);
      return result;
    }
    const { ttl_ms: ttlMs, ...rest } = given;
    if (ttlMs !== undefined) options.ttlSeconds = ttlMs / 1000;
    if (call === "get" && this.#near && !step.client && !step.cache) return this.#near.get(rest.key, options);
    return of[camel(call)](...Object.values(rest), options);
  }

  #metrics() {
    const { hits: nearHits, misses: nearMisses, invalidations: nearInvalidations } = this.#near?.metrics() ?? {};
    return { ...this.#client.metrics(), nearHits, nearMisses, nearInvalidations };
  }

  async #subscribe(step) {
    const of = await this.#of(step);
    const subscription = await of.topics.subscribe(known(step.arguments, "topic").topic);
    // A subscription that the server refuses is the error itself.
    const events = subscription.type === "error" ? [subscription].values() : subscription;
    this.#subscriptions.set(step.subscribe, { subscription, events });
  }

  async #receive(step) {
    const { events } = this.#subscriptions.get(step.receive);
    const begun = performance.now();
    const late = AbortSignal.timeout(10_000);
    for (;;) {
      const { value } = await Promise.race([events.next(), once(late, "abort").then(() => ({}))]);
      assert.ok(value, "no event within 10 s");
      if (value.type !== "heartbeat") return compare(step, value, performance.now() - begun);
    }
  }

  async #hold(count) {
    for (const socket of this.#held.splice(count)) socket.destroy();
    while (this.#held.length < count) {
      const socket = createConnection(this.#server.grpcPort, "127.0.0.1");
      await once(socket, "connect");
      this.#held.push(socket.on("error", () => {}));
    }
  }

  #cancel(name) {
    const present = this.started.get(name);
    if (present !== undefined) return present.controller.abort();
    this.#subscriptions.get(name).subscription.close();
  }

  async #signal(action) {
    const actions = { pause: "pause", resume: "resume", kill: "kill", stop: "stop", start: "restart" };
    assert.ok(Object.hasOwn(actions, action), `the player does not know '${action}'`);
    return this.#server[actions[action]]();
  }

  async play(step) {
    this.#steps++;
    known(step, "call start finish cancel wait_ms server network metrics faults subscribe receive hold_connections " +
      "arguments expect cache client deadline_ms within_ms at_least_ms at_most_ms");
    if ("server" in step) return this.#signal(step.server);
    if ("network" in step) return this.#proxy.network(step.network);
    if ("wait_ms" in step) return sleep(step.wait_ms);
    if ("subscribe" in step) return this.#subscribe(step);
    if ("receive" in step) return this.#receive(step);
    if ("hold_connections" in step) return this.#hold(step.hold_connections);
    if ("cancel" in step) return this.#cancel(step.cancel);
    if ("faults" in step) {
      const previous = this.#faults;
      const isNone = Object.keys(step.faults).length === 0;
      this.#faults = isNone ? {} : { "request-id": `step ${this.#steps}`, ...step.faults };
      return this.#setFaults(this.#client, previous);
    }
    if ("metrics" in step) {
      const names = "in_flight queued retries resumes near_hits near_misses near_invalidations";
      const metrics = Object.entries(known(step.metrics, names));
      const differs = ([key, value]) => this.#metrics()[camel(key)] !== value;
      const equal = () => until("the metrics are equal", () => !metrics.some(differs), 2000);
      return equal().catch((error) => assert.fail(`${error.message}: ${inspect(this.#metrics())}`));
    }
    if ("finish" in step) {
      const each = this.started.get(step.finish);
      this.started.delete(step.finish);
      const result = await each.promise;
      return compare({ call: each.call, ...step }, result, each.ended - each.begun);
    }
    if ("start" in step) {
      const pending = () => this.#client.metrics().inFlight + this.#client.metrics().queued;
      const before = pending();
      const each = { call: step.call, controller: new AbortController(), begun: performance.now() };
      each.promise = this.#execute(step, each.controller.signal).finally(() => (each.ended = performance.now()));
      this.started.set(step.start, each);
      return until("the call is in flight or queued", () => pending() === before + 1);
    }
    const end = performance.now() + (step.within_ms ?? 0);
    for (;;) {
      const begun = performance.now();
      const result = await this.#execute(step);
      try {
        return compare(step, result, performance.now() - begun);
      } catch (error) {
        if (performance.now() >= end) throw error;
        await sleep(20);
      }
    }
  }
}

// Only bins distinguish integers from other numbers.
function numbers(value, isBins = false) {
  if (typeof value === "bigint") return isBins ? value : Number(value);
  if (Array.isArray(value)) return value.map((each) => numbers(each, isBins));
  if (typeof value !== "object") return value;
  // The tables of the parser have no prototype; those of the results have one.
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, numbers(each, isBins || key === "bins")]));
}

for (const file of readdirSync(SCENARIOS).filter((name) => name.endsWith(".toml")).sort()) {
  const scenario = numbers(parse(readFileSync(join(SCENARIOS, file), "utf8"), { integersAsBigInt: true }));
  test(scenario.name, { timeout: 60_000 }, async (context) => {
    const player = await Player.begin(context, known(scenario, "name client server steps"));
    for (const [at, step] of scenario.steps.entries()) {
      try {
        await player.play(step);
      } catch (error) {
        error.message = `step ${at + 1} ${inspect(step)}: ${error.message}`;
        throw error;
      }
    }
    assert.equal(player.started.size, 0, "a started call is not finished");
  });
}
