/** Counters and latencies of a client's calls. */

const STEPS_BITS = 6;
const VALUE_BITS_MAX = 40;
const BUCKETS = (VALUE_BITS_MAX - STEPS_BITS + 1) << STEPS_BITS;

/**
 * Latencies in nanoseconds, in buckets of at most 1/64 of their value.
 *
 * A value below 64 has a bucket of its own. Larger ones have 64 buckets for each power of two:
 *
 *     64..127 in steps of 1, 128..255 in steps of 2, 256..511 in steps of 4, ...
 *
 * The memory is fixed: values of 2^40 ns (18 minutes) and more share the last bucket.
 */
export class Histogram {
  count = 0;
  private readonly buckets = new Float64Array(BUCKETS);

  /** Adds one value, a whole number. */
  record(valueNs: number): void {
    const high = valueNs < 2 ** 31 ? 31 - Math.clz32(valueNs) : 62 - Math.clz32(Math.floor(valueNs / 2 ** 31));
    const shift = high - STEPS_BITS;
    const at = shift < 0 ? valueNs : (shift << STEPS_BITS) + Math.floor(valueNs / 2 ** shift);
    this.buckets[Math.min(at, BUCKETS - 1)]! += 1;
    this.count += 1;
  }

  /** Adds the values of another histogram. */
  add(other: Histogram): void {
    for (let at = 0; at < BUCKETS; at++) this.buckets[at]! += other.buckets[at]!;
    this.count += other.count;
  }

  /** Returns the upper end of the bucket below which `share` of the values are, or 0 without values. */
  quantileNs(share: number): number {
    const wanted = share * this.count;
    let passed = 0;
    for (let at = 0; at < BUCKETS; at++) {
      const count = this.buckets[at]!;
      passed += count;
      if (count > 0 && passed >= wanted) {
        if (at < 128) return at;
        const shift = (at >> STEPS_BITS) - 1;
        return (at - (shift << STEPS_BITS) + 1) * 2 ** shift - 1;
      }
    }
    return 0;
  }
}

/** The calls of one method so far. */
export interface MethodMetrics {
  readonly calls: number;
  /** Number of failed calls by their `ErrorCode`. */
  readonly errors: Readonly<Record<string, number>>;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly p999Us: number;
}

/** A snapshot of a client's metrics. Counters are those since the client was created. */
export interface Metrics {
  /** Number of requests that were sent and whose replies are awaited. */
  readonly inFlight: number;
  /** Number of requests that wait in the client's queue. */
  readonly queued: number;
  /** Number of connections that the client uses. */
  readonly connections: number;
  /** Number of open subscriptions to topics and watches of near caches. They have connections of their own. */
  readonly streams: number;
  readonly retries: number;
  readonly hedges: number;
  /** Number of times that a subscription was continued on a new stream. */
  readonly resumes: number;
  /** Calls and latencies by the name of the call in the schema. Empty unless the configuration enables metrics. */
  readonly methods: Readonly<Record<string, MethodMetrics>>;
}

/** Collects the metrics of one client. */
export class Recorder {
  private readonly byMethod = new Map<string, { latencies: Histogram; errors: Record<string, number> }>();

  /** Adds one call that has ended. */
  record(method: string, durationMs: number, status: string): void {
    let each = this.byMethod.get(method);
    if (each === undefined) this.byMethod.set(method, (each = { latencies: new Histogram(), errors: {} }));
    each.latencies.record(Math.round(durationMs * 1e6));
    if (status !== "OK") each.errors[status] = (each.errors[status] ?? 0) + 1;
  }

  /** Returns the metrics of each method that was called. */
  methods(): Record<string, MethodMetrics> {
    const methods: Record<string, MethodMetrics> = {};
    for (const [method, { latencies, errors }] of this.byMethod) {
      methods[method] = {
        calls: latencies.count,
        errors: { ...errors },
        p50Us: latencies.quantileNs(0.5) / 1000,
        p99Us: latencies.quantileNs(0.99) / 1000,
        p999Us: latencies.quantileNs(0.999) / 1000,
      };
    }
    return methods;
  }
}
