/**
 * The engine of a client: sends requests within the cap, repeats failed ones, and observes calls.
 *
 *     caller -> before (middleware) -> queue -> connection -> reply -> result
 *                                        ^                      |
 *                                        +---- delay <- retry <-+
 */

import { status as Status, type Channel, type Metadata, type StatusObject } from "@grpc/grpc-js";

import { signalOf } from "./arguments.js";
import type { Call } from "./calls.js";
import type { Configuration, Settings } from "./configuration.js";
import { Connection, wallTimeOf } from "./connection.js";
import { CacheError, ErrorCode, errorOfCacheName, errorOfClient, errorOfStatus } from "./errors.js";
import { Limiter, Waiter } from "./limiter.js";
import { Recorder, type Metrics } from "./metrics.js";
import { TokenBucket } from "./retry.js";
import { StreamPool } from "./streams.js";
import { isCacheName, type Target } from "./target.js";
import { BadReply } from "./wire.js";

type GrpcCall = ReturnType<Channel["createCall"]>;

/** Settings that all calls of one client object share. */
export interface Scope {
  readonly cache: string;
  readonly metadata: Metadata;
}

/** An object that has copies of values. */
export interface ChangeListener {
  /** Runs when a call of this client that may have changed values has ended, even with an error. */
  onChange(call: Call<unknown>, request: Buffer): void;
}

/** The calls that may change or delete a value. Those of collections and records refuse keys with values. */
const CHANGES: ReadonlySet<string> = new Set([
  "Set",
  "SetBatch",
  "SetIf",
  "SetIfHash",
  "Delete",
  "Increment",
  "UpdateTtl",
  "LeaseSet",
  "LeaseStale",
  "FlushCache",
  "DeleteCache",
]);

/** Options of every call. */
export interface CallOptions {
  /** Cancels the call. A request that waits in the client's queue leaves it, and the server never receives it. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for this call, instead of those of the configuration. */
  readonly deadlineMs?: number | undefined;
}

// The longest timer of Node.
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Sends requests of one client, all of them from one thread. */
export class Engine {
  readonly connections: Connection[] = [];
  readonly limiter: Limiter<Connection>;
  readonly settings: Settings;
  readonly budget: TokenBucket;
  /** The calls that have no result yet. */
  readonly pending = new Set<Execution<unknown>>();
  readonly signals = new Signals();
  readonly streams: StreamPool;
  readonly listeners = new Set<ChangeListener>();
  closed = false;
  retries = 0;
  hedges = 0;
  resumes = 0;
  private readonly recorder: Recorder | undefined;

  constructor(
    readonly target: Target,
    configuration: Configuration,
  ) {
    this.settings = configuration.settings;
    while (this.connections.length < configuration.connectionsMax) {
      this.connections.push(new Connection(target, this.settings));
    }
    const { requestsInFlightMax, requestsQueuedMax, streamsPerConnection, metrics, retryBudget } = this.settings;
    this.limiter = new Limiter(this.connections, requestsInFlightMax, requestsQueuedMax, streamsPerConnection);
    this.budget = new TokenBucket(retryBudget);
    this.streams = new StreamPool(target, this.settings);
    this.recorder = metrics ? new Recorder() : undefined;
  }

  /** Opens all connections, and resolves to whether they are open before the time has passed, or one has failed. */
  async connect(timeoutMs: number, failureEnds: boolean): Promise<boolean> {
    if (this.closed) return false;
    const opened = await Promise.all(this.connections.map((each) => each.connect(timeoutMs, failureEnds)));
    return opened.every(Boolean);
  }

  /** Ends all calls, and closes the connections. */
  close(): void {
    this.closed = true;
    for (const each of [...this.pending]) each.end();
    this.streams.close();
    for (const each of this.connections) each.close();
  }

  /** Returns a snapshot of the metrics. */
  metrics(): Metrics {
    return {
      inFlight: this.limiter.inFlight,
      queued: this.limiter.queued,
      connections: this.closed ? 0 : this.connections.length,
      streams: this.streams.open,
      retries: this.retries,
      hedges: this.hedges,
      resumes: this.resumes,
      methods: this.recorder?.methods() ?? {},
    };
  }

  /** Executes a call. `replies` is the number of replies that a batch has to get. */
  call<R>(
    call: Call<R>,
    request: Buffer,
    scope: Scope,
    options: CallOptions | undefined,
    replies = 1,
  ): Promise<R | CacheError> {
    const execution = new Execution(this, call, request, scope, options, replies);
    if (this.listeners.size > 0 && CHANGES.has(call.method)) return this.announce(execution);
    return this.execute(execution);
  }

  /** Executes a call, and reports it to the objects with copies before its caller continues. */
  private async announce<R>(execution: Execution<R>): Promise<R | CacheError> {
    try {
      return await this.execute(execution);
    } finally {
      // Changes of other caches are reported too: they drop copies without need.
      for (const each of this.listeners) each.onChange(execution.call, execution.request);
    }
  }

  private execute<R>(execution: Execution<R>): Promise<R | CacheError> {
    if (this.recorder !== undefined || this.settings.middleware.length > 0) return this.observe(execution);
    return new Promise((resolve, reject) => execution.begin(resolve, reject));
  }

  private async observe<R>(execution: Execution<R>): Promise<R | CacheError> {
    const { method } = execution.call;
    const { cache } = execution.scope;
    const { middleware } = this.settings;
    const start = { method, cache, requestBytes: execution.request.length };
    for (const each of middleware) each.before?.(start);
    const started = performance.now();
    const result = await new Promise<R | CacheError>((resolve, reject) => execution.begin(resolve, reject));
    const durationMs = performance.now() - started;
    const error = result instanceof CacheError ? result : undefined;
    const status = error?.code ?? "OK";
    this.recorder?.record(method, durationMs, status);
    if (middleware.length > 0) {
      const { queuedMs, retries, hedged } = execution;
      const end = { method, cache, status, durationMs, queuedMs, retries, hedged, error: error?.message };
      for (let at = middleware.length - 1; at >= 0; at--) middleware[at]?.after?.(end);
    }
    return result;
  }
}

/** A call or a subscription that its caller may cancel. */
export interface Cancellable {
  cancel(): void;
}

/** The pending calls of each signal. A signal has one listener, because Node warns about signals with many. */
class Signals {
  private readonly bySignal = new Map<AbortSignal, { calls: Set<Cancellable>; listener: () => void }>();

  add(signal: AbortSignal, call: Cancellable): void {
    const present = this.bySignal.get(signal);
    if (present !== undefined) {
      present.calls.add(call);
      return;
    }
    const calls = new Set([call]);
    const listener = (): void => [...calls].forEach((each) => each.cancel());
    this.bySignal.set(signal, { calls, listener });
    signal.addEventListener("abort", listener, { once: true });
  }

  /** Removes a call that has ended, and with the last one the listener. */
  remove(signal: AbortSignal, call: Cancellable): void {
    const present = this.bySignal.get(signal);
    if (present === undefined || !present.calls.delete(call) || present.calls.size > 0) return;
    this.bySignal.delete(signal);
    signal.removeEventListener("abort", present.listener);
  }
}

/** One request that was sent: receives the replies and the status. */
class Attempt {
  readonly replies: Buffer[] = [];
  private readonly sent: GrpcCall;

  constructor(
    private readonly execution: Execution<unknown>,
    readonly connection: Connection,
    deadline: number,
  ) {
    const { call, request, scope } = execution;
    this.sent = connection.channel.createCall(call.path, wallTimeOf(deadline), null, null, null);
    this.sent.start(scope.metadata, this);
    this.sent.sendMessageWithContext({}, request);
    this.sent.halfClose();
    this.sent.startRead();
  }

  onReceiveMetadata(): void {}

  onReceiveMessage(message: Buffer): void {
    this.replies.push(message);
    if (this.execution.call.streams) this.sent.startRead();
  }

  onReceiveStatus(status: StatusObject): void {
    this.execution.onStatus(this, status);
  }

  cancel(): void {
    this.sent.cancelWithStatus(Status.CANCELLED, "cancelled by the caller");
  }
}

/**
 * One call from its start to its result.
 *
 *     begin -> enter -> (queue) -> grant -> onStatus -> finish
 *                ^                             |
 *                +--------- (delay) <----------+
 *
 * `finish` may follow each state: the deadline passes in the queue, the caller cancels, or the client is closed.
 */
class Execution<R> extends Waiter<Connection> {
  retries = 0;
  queuedMs = 0;
  hedged = false;
  /** The instant of `performance.now()` that ends the call. A change of the computer's clock does not move it. */
  private deadline = 0;
  private deadlineMs = 0;
  /** The time that ends the latest attempt: that of the call, or of the retry strategy for one attempt. */
  private limitMs = 0;
  private entered = 0;
  private previousMs = 0;
  private resolve: ((result: R | CacheError) => void) | undefined;
  private reject: ((exception: unknown) => void) | undefined;
  /** The wait in the queue, for a retry, or for a hedge: never two of them at once. */
  private timer: NodeJS.Timeout | undefined;
  private first: Attempt | undefined;
  private second: Attempt | undefined;

  constructor(
    private readonly engine: Engine,
    readonly call: Call<R>,
    readonly request: Buffer,
    readonly scope: Scope,
    private readonly options: CallOptions | undefined,
    private readonly expected: number,
  ) {
    super();
  }

  /**
   * Starts the call. `resolve` receives its result, and `reject` an exception of the retry strategy. Throws RangeError
   * if the deadline is not a number, and TypeError if the signal is none.
   */
  begin(resolve: (result: R | CacheError) => void, reject: (exception: unknown) => void): void {
    const { engine, options } = this;
    const deadlineMs = options?.deadlineMs ?? engine.settings.deadlineMs;
    if (!(deadlineMs >= 0)) {
      throw new RangeError(`cannot use deadlineMs ${deadlineMs}: it is out of range; give a number of milliseconds`);
    }
    const signal = signalOf(options?.signal);
    this.deadlineMs = deadlineMs;
    this.deadline = performance.now() + Math.min(deadlineMs, TIMER_MS_MAX);
    this.resolve = resolve;
    this.reject = reject;
    engine.pending.add(this as Execution<unknown>);
    if (signal !== undefined) {
      if (signal.aborted) return this.cancel();
      engine.signals.add(signal, this);
    }
    if (!isCacheName(this.scope.cache)) return this.finish(errorOfCacheName(this.call.method));
    engine.budget.add();
    this.enter();
  }

  /** Ends the call because its caller cancelled it. */
  cancel(): void {
    this.refuse(ErrorCode.CANCELLED, "the caller cancelled it");
  }

  /** Ends the call because the client is closed. */
  end(): void {
    this.refuse(ErrorCode.CANCELLED, "the client is closed", "create a new client");
  }

  private enter(): void {
    const { engine } = this;
    if (engine.closed) return this.end();
    this.entered = performance.now();
    const connection = engine.limiter.acquire();
    if (connection !== undefined) {
      if (!this.grant(connection)) engine.limiter.release(connection);
      return;
    }
    if (engine.limiter.enqueue(this)) {
      this.timer = setTimeout(() => this.refuseLate(), Math.max(0, this.deadline - this.entered));
    } else {
      const most = engine.settings.requestsQueuedMax;
      this.refuse(ErrorCode.CLIENT_QUEUE_FULL, `${most} requests wait in the client's queue, which is its maximum`);
    }
  }

  private refuseLate(): void {
    const cause = "the deadline passed while the request waited in the client's queue";
    this.refuse(ErrorCode.CLIENT_QUEUE_TIMEOUT, cause);
  }

  /** Sends the request, and returns true. A call that is late, cancelled or of a closed client ends: false. */
  grant(connection: Connection): boolean {
    const { settings } = this.engine;
    const now = performance.now();
    clearTimeout(this.timer);
    this.queuedMs += now - this.entered;
    // A signal or a close ends its calls one by one, and each passes its place to a call that ends next.
    if (this.engine.closed) this.end();
    else if (this.options?.signal?.aborted) this.cancel();
    else if (now >= this.deadline) this.refuseLate();
    if (this.resolve === undefined) return false;
    const attemptMs = settings.retryStrategy.responseTimeoutMs;
    const isShort = attemptMs !== undefined && now + attemptMs < this.deadline;
    this.limitMs = isShort ? attemptMs : this.deadlineMs;
    const deadline = isShort ? now + attemptMs : this.deadline;
    this.first = new Attempt(this as Execution<unknown>, connection, deadline);
    if (settings.hedgingDelayMs !== undefined && this.call.hedges) {
      this.timer = setTimeout(() => this.hedge(connection, deadline), settings.hedgingDelayMs);
    }
    return true;
  }

  private hedge(connection: Connection, deadline: number): void {
    const { limiter, budget } = this.engine;
    if (limiter.inFlight >= this.engine.settings.requestsInFlightMax || !budget.take()) return;
    const other = limiter.acquireBeside(connection);
    if (other === undefined) return;
    this.engine.hedges++;
    this.hedged = true;
    this.second = new Attempt(this as Execution<unknown>, other, deadline);
  }

  /** Receives the end of an attempt. The first good one of two decides, or the last bad one. */
  onStatus(attempt: Attempt, status: StatusObject): void {
    if (attempt === this.first) this.first = undefined;
    else if (attempt === this.second) this.second = undefined;
    else return;
    const isLast = this.first === undefined && this.second === undefined;
    this.engine.limiter.release(attempt.connection);
    if (status.code === Status.OK) this.finish(this.parse(attempt.replies));
    else if (isLast) this.fail(status);
  }

  private parse(replies: readonly Buffer[]): R | CacheError {
    const { call } = this;
    try {
      if (replies.length !== this.expected) {
        throw new BadReply(`${replies.length} replies arrived instead of ${this.expected}`);
      }
      return call.parse(replies);
    } catch (error) {
      if (!(error instanceof BadReply)) throw error;
      return errorOfClient(ErrorCode.INTERNAL, call.method, error.message, "use a server and a client of one version");
    }
  }

  private fail(status: StatusObject): void {
    clearTimeout(this.timer);
    const { engine, call, reject } = this;
    const facts = {
      bytes: this.request.length,
      bytesMax: engine.settings.messageBytesMax,
      deadlineMs: this.limitMs,
      ofGraph: call.service === "Graph",
    };
    const error = (): CacheError => errorOfStatus(status.code, status.details, call.method, engine.target, facts);
    let delayMs: number | undefined;
    try {
      delayMs = this.retryDelayMs(status.code);
    } catch (exception) {
      // The strategy is code of the user: its caller gets the exception instead of the result.
      this.resolve = () => reject?.(exception);
      return this.finish(error());
    }
    if (delayMs === undefined || !engine.budget.take()) return this.finish(error());
    this.retries++;
    this.previousMs = delayMs;
    engine.retries++;
    if (delayMs > 0) this.timer = setTimeout(() => this.enter(), delayMs);
    else this.enter();
  }

  /** Returns the milliseconds after which the call is repeated, or undefined if it is not. */
  private retryDelayMs(status: Status): number | undefined {
    const strategy = this.engine.settings.retryStrategy;
    const gaveUp = strategy.responseTimeoutMs !== undefined && status === Status.DEADLINE_EXCEEDED;
    // After these statuses, the server did not execute the request, or failed.
    const mayRepeat = status === Status.UNAVAILABLE || status === Status.INTERNAL || gaveUp;
    if (!this.call.idempotent || !mayRepeat) return undefined;
    const delayMs = strategy.delayMs(this.retries, this.previousMs);
    return delayMs === undefined || performance.now() + delayMs >= this.deadline ? undefined : delayMs;
  }

  private refuse(code: ErrorCode, cause: string, remedy?: string): void {
    this.finish(errorOfClient(code, this.call.method, cause, remedy));
  }

  private finish(result: R | CacheError): void {
    const { resolve, engine, first, second } = this;
    if (resolve === undefined) return;
    this.resolve = this.first = this.second = undefined;
    clearTimeout(this.timer);
    engine.pending.delete(this as Execution<unknown>);
    if (this.options?.signal !== undefined) engine.signals.remove(this.options.signal, this);
    engine.limiter.remove(this);
    for (const attempt of [first, second]) {
      if (attempt === undefined) continue;
      attempt.cancel();
      engine.limiter.release(attempt.connection);
    }
    resolve(result);
  }
}
