/** Configurations of a client, and the presets. */

import { LATEST, VERSIONS, type Preset } from "./generated/presets.js";
import type { Middleware } from "./middleware.js";
import {
  ExponentialBackoff,
  FixedCount,
  FixedTimeout,
  NoRetry,
  RetryBudget,
  type RetryStrategy,
} from "./retry.js";

/** The settings of a `Configuration`. */
export interface Settings {
  /** Milliseconds for one call, from its start to its result, with the wait in the client's queue and all retries. */
  readonly deadlineMs: number;
  /** Maximum number of requests that were sent and whose replies are awaited. Further ones wait in the client. */
  readonly requestsInFlightMax: number;
  /** Maximum number of requests that wait in the client. Further ones fail at once. */
  readonly requestsQueuedMax: number;
  /** Maximum number of requests at once on one connection. */
  readonly streamsPerConnection: number;
  /** True to open all connections when the client is created. */
  readonly eagerConnect: boolean;
  /** Milliseconds between two pings of a connection; 0 turns pings off. */
  readonly keepaliveTimeMs: number;
  /** Milliseconds without an answer to a ping after which the connection is closed. */
  readonly keepaliveTimeoutMs: number;
  /** True to ping connections without requests too. */
  readonly keepaliveWithoutCalls: boolean;
  /** Milliseconds for opening a connection, after which the attempt has failed. */
  readonly connectTimeoutMs: number;
  /** Milliseconds before the first attempt to reconnect. */
  readonly reconnectDelayMinMs: number;
  /** Longest delay between two attempts to reconnect, in milliseconds. */
  readonly reconnectDelayMaxMs: number;
  /** The strategy by which calls are repeated whose repetition changes nothing. */
  readonly retryStrategy: RetryStrategy;
  /** The bound of retries and hedges together. */
  readonly retryBudget: RetryBudget;
  /**
   * Milliseconds after which a `get` without a reply is sent a second time; undefined turns hedging off.
   *
   * A good delay is the p99 of `get`: then 1 % of the requests are sent twice. The second request uses another
   * connection if there is one, never waits in the client's queue, and takes a token of the retry budget.
   */
  readonly hedgingDelayMs: number | undefined;
  /** Maximum size in bytes of a request and of a reply. */
  readonly messageBytesMax: number;
  /** Objects that are called before and after each call, the first one outermost. */
  readonly middleware: readonly Middleware[];
  /** True to count and time the calls. */
  readonly metrics: boolean;
}

/** Maximum number of connections of one client, which are opened when it is created. */
const CONNECTIONS_MAX = 1000;
const WHOLE_AT_LEAST_ONE = ["requestsInFlightMax", "streamsPerConnection", "messageBytesMax"] as const;
const POSITIVE = ["deadlineMs", "keepaliveTimeoutMs", "connectTimeoutMs", "reconnectDelayMinMs"] as const;
// The longest timer of Node.
const TIMER_MS_MAX = 2 ** 31 - 1;

function check(settings: Settings): void {
  const refuse = (name: keyof Settings, remedy: string): never => {
    throw new RangeError(`cannot use configuration: ${name} is ${String(settings[name])}; ${remedy}`);
  };
  for (const name of WHOLE_AT_LEAST_ONE) {
    if (!Number.isSafeInteger(settings[name]) || settings[name] < 1) refuse(name, "give a whole number of at least 1");
  }
  if (settings.requestsInFlightMax > CONNECTIONS_MAX * settings.streamsPerConnection) {
    const most = CONNECTIONS_MAX * settings.streamsPerConnection;
    const remedy = `give at most ${most}: ${CONNECTIONS_MAX} connections with streamsPerConnection requests each`;
    refuse("requestsInFlightMax", remedy);
  }
  for (const name of POSITIVE) {
    if (!(settings[name] > 0 && settings[name] <= TIMER_MS_MAX)) refuse(name, "give a positive number of milliseconds");
  }
  const queued = settings.requestsQueuedMax;
  if (!Number.isSafeInteger(queued) || queued < 0) refuse("requestsQueuedMax", "give a whole number of at least 0");
  if (!(settings.keepaliveTimeMs >= 0 && settings.keepaliveTimeMs <= TIMER_MS_MAX)) {
    refuse("keepaliveTimeMs", "give 0 or a positive number of milliseconds");
  }
  const longest = settings.reconnectDelayMaxMs;
  if (!(longest >= settings.reconnectDelayMinMs && longest <= TIMER_MS_MAX)) {
    refuse("reconnectDelayMaxMs", `give at least reconnectDelayMinMs, and at most ${TIMER_MS_MAX} ms`);
  }
  const hedging = settings.hedgingDelayMs;
  if (hedging !== undefined && !(hedging >= 0 && hedging <= TIMER_MS_MAX)) {
    refuse("hedgingDelayMs", `give 0 to ${TIMER_MS_MAX} ms, or undefined to turn hedging off`);
  }
}

/**
 * All settings of a client. Immutable: each `with` method returns a changed copy.
 *
 * `Configurations` has presets; `new Configuration(settings)` and `with(changes)` make one's own.
 */
export class Configuration {
  readonly settings: Settings;

  /** Throws RangeError if a setting is out of its range. */
  constructor(settings: Settings) {
    check(settings);
    this.settings = Object.freeze({ ...settings, middleware: Object.freeze([...settings.middleware]) });
    Object.freeze(this);
  }

  /** Maximum number of connections: as many as `requestsInFlightMax` needs. */
  get connectionsMax(): number {
    return Math.ceil(this.settings.requestsInFlightMax / this.settings.streamsPerConnection);
  }

  /** Returns a copy in which these settings have other values. */
  with(changes: Partial<Settings>): Configuration {
    return new Configuration({ ...this.settings, ...changes });
  }

  /** Returns a copy with another time for one call. */
  withDeadlineMs(deadlineMs: number): Configuration {
    return this.with({ deadlineMs });
  }

  /** Returns a copy with another maximum of requests in flight, and as many connections as it needs. */
  withRequestsInFlightMax(requestsInFlightMax: number): Configuration {
    return this.with({ requestsInFlightMax });
  }

  /** Returns a copy with another maximum of requests that wait in the client. */
  withRequestsQueuedMax(requestsQueuedMax: number): Configuration {
    return this.with({ requestsQueuedMax });
  }

  /** Returns a copy with another retry strategy. */
  withRetryStrategy(retryStrategy: RetryStrategy): Configuration {
    return this.with({ retryStrategy });
  }

  /** Returns a copy with another bound of retries and hedges. */
  withRetryBudget(retryBudget: RetryBudget): Configuration {
    return this.with({ retryBudget });
  }

  /** Returns a copy that sends a `get` again if its reply takes longer; undefined turns hedging off. */
  withHedging(hedgingDelayMs: number | undefined): Configuration {
    return this.with({ hedgingDelayMs });
  }

  /** Returns a copy with other pings of connections; `timeMs` 0 turns them off. */
  withKeepalive(timeMs: number, timeoutMs = 1000, withoutCalls = true): Configuration {
    return this.with({
      keepaliveTimeMs: timeMs,
      keepaliveTimeoutMs: timeoutMs,
      keepaliveWithoutCalls: withoutCalls,
    });
  }

  /** Returns a copy that opens its connections at once, or with the first requests. */
  withEagerConnect(eagerConnect: boolean): Configuration {
    return this.with({ eagerConnect });
  }

  /** Returns a copy with these objects after the present middleware. */
  withMiddleware(...middleware: Middleware[]): Configuration {
    return this.with({ middleware: [...this.settings.middleware, ...middleware] });
  }

  /** Returns a copy whose client counts and times its calls, or does not. */
  withMetrics(metrics = true): Configuration {
    return this.with({ metrics });
  }
}

function strategyOf(preset: Preset): RetryStrategy {
  switch (preset.retry_strategy) {
    case "fixed_count":
      return new FixedCount(preset.retry_count);
    case "fixed_timeout":
      return new FixedTimeout();
    case "exponential_backoff":
      return new ExponentialBackoff();
    case "no_retry":
      return new NoRetry();
    default:
      throw new RangeError(`cannot read preset: retry_strategy '${preset.retry_strategy}' is unknown; regenerate it`);
  }
}

function find(name: string, version: string): Configuration {
  const preset = VERSIONS[name]?.[version];
  if (preset === undefined) throw new RangeError(unknownPreset(`${name}.${version}`));
  return new Configuration({
    deadlineMs: preset.deadline_ms,
    requestsInFlightMax: preset.requests_in_flight_max,
    requestsQueuedMax: preset.requests_queued_max,
    streamsPerConnection: preset.streams_per_connection,
    eagerConnect: preset.eager_connect,
    keepaliveTimeMs: preset.keepalive_time_ms,
    keepaliveTimeoutMs: preset.keepalive_timeout_ms,
    keepaliveWithoutCalls: preset.keepalive_without_calls,
    connectTimeoutMs: preset.connect_timeout_ms,
    reconnectDelayMinMs: preset.reconnect_delay_min_ms,
    reconnectDelayMaxMs: preset.reconnect_delay_max_ms,
    retryStrategy: strategyOf(preset),
    retryBudget: new RetryBudget(preset.retry_budget_percent, preset.retry_budget_burst),
    hedgingDelayMs: undefined,
    messageBytesMax: preset.message_bytes_max,
    middleware: [],
    metrics: false,
  });
}

function unknownPreset(name: string): string {
  return `cannot find preset '${name}': it does not exist; use one of ${Object.keys(VERSIONS).join(", ")}`;
}

/** One preset with its versions. */
export interface PresetVersions {
  /** Returns version 1, which never changes. */
  v1(): Configuration;
  /** Returns the newest version. A later release may return other values. */
  latest(): Configuration;
}

function versionsOf(name: keyof typeof LATEST): PresetVersions {
  return Object.freeze({ v1: () => find(name, "v1"), latest: () => find(name, LATEST[name]) });
}

/** The presets. `v1()` never changes; `latest()` may return other values in a later release. */
export const Configurations = Object.freeze({
  /** Development on one machine, and clients far from the server. */
  Laptop: versionsOf("Laptop"),
  /** Services in the same region as the server. */
  InRegion: Object.freeze({
    /** Services that need throughput. */
    Default: versionsOf("InRegion.Default"),
    /** Services that need a low p999. */
    LowLatency: versionsOf("InRegion.LowLatency"),
  }),
  /** Functions that the platform freezes between two invocations. */
  Lambda: versionsOf("Lambda"),

  /**
   * Returns the preset with this name, such as `InRegion.LowLatency` (the latest) or `Laptop.v1`. Throws RangeError if
   * there is none.
   */
  named(name: string): Configuration {
    if (Object.hasOwn(LATEST, name)) return find(name, LATEST[name as keyof typeof LATEST]);
    const at = name.lastIndexOf(".");
    if (at < 0) throw new RangeError(unknownPreset(name));
    return find(name.slice(0, at), name.slice(at + 1));
  },
});
