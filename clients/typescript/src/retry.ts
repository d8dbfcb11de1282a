/** Retry strategies, the budget that bounds all retries, and hedging. */

/** Decides when a failed request is repeated. Objects with these members may be used besides those of this module. */
export interface RetryStrategy {
  /** Milliseconds that one attempt may take; undefined for the rest of the call's deadline. */
  readonly responseTimeoutMs?: number | undefined;
  /**
   * Returns the milliseconds before the next retry, or undefined if there is none.
   *
   * @param retries number of retries of this call so far
   * @param previousMs delay before the latest of them, or 0
   */
  delayMs(retries: number, previousMs: number): number | undefined;
}

function requireAtLeast(name: string, value: number, least: number): void {
  if (!(value >= least)) throw new RangeError(`cannot use ${name} ${value}: it is too low; give at least ${least}`);
}

/** Never repeats a request. */
export class NoRetry implements RetryStrategy {
  delayMs(): undefined {
    return undefined;
  }
}

/** Repeats a failed request at once, at most `count` times. */
export class FixedCount implements RetryStrategy {
  constructor(readonly count = 3) {
    requireAtLeast("count", count, 0);
    Object.freeze(this);
  }

  delayMs(retries: number): number | undefined {
    return retries < this.count ? 0 : undefined;
  }
}

/**
 * Repeats a failed request after about `retryDelayMs`, until the deadline of the call.
 *
 * `responseTimeoutMs` bounds each attempt: an attempt without a reply is given up and repeated. A server that hangs
 * then costs this time, and not the whole deadline. The delay varies by 10 % in both directions.
 */
export class FixedTimeout implements RetryStrategy {
  readonly retryDelayMs: number;
  readonly responseTimeoutMs: number;

  constructor(options: { retryDelayMs?: number; responseTimeoutMs?: number } = {}) {
    this.retryDelayMs = options.retryDelayMs ?? 100;
    this.responseTimeoutMs = options.responseTimeoutMs ?? 1000;
    requireAtLeast("retryDelayMs", this.retryDelayMs, 0);
    requireAtLeast("responseTimeoutMs", this.responseTimeoutMs, 1);
    Object.freeze(this);
  }

  delayMs(): number {
    return this.retryDelayMs * (0.9 + 0.2 * Math.random());
  }
}

/**
 * Repeats a failed request after delays that grow, until the deadline of the call.
 *
 * Each delay is a random time between `initialDelayMs` and three times the previous delay, at most `maxDelayMs`
 * (decorrelated jitter). Clients that failed at the same instant therefore do not return at the same instant. Node
 * rounds a delay below 1 ms up to 1 ms.
 */
export class ExponentialBackoff implements RetryStrategy {
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;

  constructor(options: { initialDelayMs?: number; maxDelayMs?: number } = {}) {
    this.initialDelayMs = options.initialDelayMs ?? 0.5;
    this.maxDelayMs = options.maxDelayMs ?? 1000;
    requireAtLeast("initialDelayMs", this.initialDelayMs, 0.001);
    requireAtLeast("maxDelayMs", this.maxDelayMs, this.initialDelayMs);
    Object.freeze(this);
  }

  delayMs(_retries: number, previousMs: number): number {
    const longest = Math.max(this.initialDelayMs, 3 * previousMs);
    return Math.min(this.maxDelayMs, this.initialDelayMs + (longest - this.initialDelayMs) * Math.random());
  }
}

/**
 * The bound of retries and hedges together: `percent` of the requests, plus `burst`.
 *
 * A token bucket that holds at most `burst` tokens. Each request adds `percent` / 100 of a token, and each retry or
 * hedge takes one. Without a token, a failed request is not repeated, and a slow one is not hedged.
 */
export class RetryBudget {
  constructor(
    readonly percent = 10,
    readonly burst = 10,
  ) {
    requireAtLeast("percent", percent, 0);
    requireAtLeast("burst", burst, 0);
    Object.freeze(this);
  }
}

/** The state of a `RetryBudget`. */
export class TokenBucket {
  private readonly burst: number;
  private readonly share: number;
  private tokens: number;

  constructor(budget: RetryBudget) {
    this.burst = budget.burst;
    this.share = budget.percent / 100;
    this.tokens = budget.burst;
  }

  /** Adds the share of one request. */
  add(): void {
    if (this.tokens < this.burst) this.tokens = Math.min(this.burst, this.tokens + this.share);
  }

  /** Takes a token, and returns whether there was one. */
  take(): boolean {
    // The sum of many shares is inexact: ten of 0.1 make slightly less than 1.
    if (this.tokens < 1 - 1e-9) return false;
    this.tokens -= 1;
    return true;
  }
}
