// Plays the scenarios that all client libraries share; conformance/clients/scenarios describes them.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";

import { parse } from "smol-toml";

import { Configurations, FixedCount, NoRetry } from "../dist/index.js";
import { clientOf, codeOf, ownServer, SCENARIOS, sleep, until } from "./server.mjs";

const STEP_MS_MAX = 30_000;

function configured(changes) {
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

// Executes a call: its options follow its arguments, some of which may be left out.
function execute(client, { call, arguments: { ttl_ms, ...given } = {}, cache, deadline_ms }, signal) {
  const of = cache === undefined ? client : client.withCache(cache);
  const args = Object.values(given);
  if (call === "list_fetch" || call === "sorted_set_fetch_by_index") args.push({});
  const options = { signal, deadlineMs: deadline_ms };
  if (ttl_ms !== undefined) options.ttlSeconds = ttl_ms / 1000;
  return of[camel(call)](...args, options);
}

const FIELDS = {
  value: (result) => result.valueString(),
  number: (result) => result.value(),
  results: (result) => result.results.map((each) => seen(each, ["type", "value"])),
  elements: (result) => result.elementsString(),
  fields: (result) => Object.fromEntries(result.fieldsString()),
  contained: (result) => result.contained,
  scored: (result) => result.elementsString(),
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
  const { remaining_ms_max: ttlMsMax, ...expected } = step.expect;
  assert.deepEqual(seen(result, Object.keys(expected)), expected, inspect(result));
  if (ttlMsMax !== undefined) assert.ok(result.remainingMs > 0 && result.remainingMs <= ttlMsMax);
  assert.ok(tookMs >= (step.at_least_ms ?? 0) && tookMs <= (step.at_most_ms ?? STEP_MS_MAX), `${tookMs} ms`);
}

async function play(step, client, server, started) {
  if ("server" in step) {
    const actions = { pause: "pause", resume: "resume", kill: "kill", start: "restart" };
    return server[actions[step.server]]();
  }
  if ("wait_ms" in step) return sleep(step.wait_ms);
  if ("metrics" in step) {
    const metrics = Object.entries(step.metrics);
    return until("the metrics are equal",
      () => metrics.every(([key, value]) => client.metrics()[camel(key)] === value), 2000);
  }
  if ("cancel" in step) return started.get(step.cancel).controller.abort();
  if ("finish" in step) {
    const each = started.get(step.finish);
    started.delete(step.finish);
    const result = await each.promise;
    return compare(step, result, each.ended - each.begun);
  }
  if ("start" in step) {
    const pending = () => client.metrics().inFlight + client.metrics().queued;
    const before = pending();
    const each = { controller: new AbortController(), begun: performance.now() };
    each.promise = execute(client, step, each.controller.signal).finally(() => (each.ended = performance.now()));
    started.set(step.start, each);
    return until("the call is in flight or queued", () => pending() === before + 1);
  }
  const end = performance.now() + (step.within_ms ?? 0);
  for (;;) {
    const begun = performance.now();
    const result = await execute(client, step);
    try {
      return compare(step, result, performance.now() - begun);
    } catch (error) {
      if (performance.now() >= end) throw error;
      await sleep(20);
    }
  }
}

for (const file of readdirSync(SCENARIOS).filter((name) => name.endsWith(".toml")).sort()) {
  // The tables of the parser have no prototype; those of the results have one.
  const scenario = structuredClone(parse(readFileSync(join(SCENARIOS, file), "utf8")));
  test(scenario.name, { timeout: 60_000 }, async (context) => {
    const server = await ownServer(context);
    const client = await clientOf(context, server.address, configured(scenario.client ?? {}));
    const started = new Map();
    for (const [at, step] of scenario.steps.entries()) {
      try {
        await play(step, client, server, started);
      } catch (error) {
        error.message = `step ${at + 1} ${JSON.stringify(step)}: ${error.message}`;
        throw error;
      }
    }
    assert.equal(started.size, 0, "a started call is not finished");
  });
}
