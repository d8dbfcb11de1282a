/**
 * Streams of events: subscriptions to topics, and watches of keys.
 *
 *     open -> (first event) -> read -> read -> ... -> close
 *                  ^            |
 *                  +-- delay <--+ the stream broke
 *
 * Streams have connections of their own, so that they take no places of the requests in flight. Events wait in a queue
 * of 64 KiB for their consumer. Above that, the stream asks for no message: a slow consumer holds back the server and
 * not memory, because the window of an HTTP/2 stream (64 KiB) bounds the bytes that were sent and not read.
 */

import { status as Status, type Channel, type Metadata, type StatusObject } from "@grpc/grpc-js";

import { signalOf } from "./arguments.js";
import type { StreamCall } from "./calls.js";
import type { Settings } from "./configuration.js";
import { Connection } from "./connection.js";
import type { Cancellable, Engine, Scope } from "./engine.js";
import { CacheError, ErrorCode, errorOfCacheName, errorOfClient, errorOfStatus } from "./errors.js";
import { ExponentialBackoff } from "./retry.js";
import { isCacheName, type Target } from "./target.js";
import { BadReply } from "./wire.js";

type GrpcCall = ReturnType<Channel["createCall"]>;

/** Maximum number of streams of one client. */
export const STREAMS_MAX = 1000;

/**
 * Milliseconds without an event after which a stream counts as broken: three times the interval of the server's
 * heartbeats.
 */
export const SILENCE_MS_MAX = 15_000;

/** Maximum of bytes of events that wait for their consumer; one event may exceed it. */
const QUEUE_BYTES_MAX = 64 * 1024;
/** Memory of an event besides its message. */
const EVENT_BYTES = 200;

/** After these statuses, the same request fails again until a person changes something, as in clients/streams.toml. */
export const LASTING: ReadonlySet<Status> = new Set([
  Status.ALREADY_EXISTS,
  Status.FAILED_PRECONDITION,
  Status.INVALID_ARGUMENT,
  Status.NOT_FOUND,
  Status.OUT_OF_RANGE,
  Status.PERMISSION_DENIED,
  Status.RESOURCE_EXHAUSTED,
  Status.UNAUTHENTICATED,
  Status.UNIMPLEMENTED,
]);

/** The connections of the streams of one client. A connection without streams is closed. */
export class StreamPool {
  /** Number of open streams. */
  open = 0;
  readonly streams = new Set<EventStream<unknown>>();
  /** The connections whose streams keep the process alive, and those whose streams do not. */
  private readonly connections = { true: new Set<Connection>(), false: new Set<Connection>() };

  constructor(
    private readonly target: Target,
    private readonly settings: Settings,
  ) {}

  /** Returns a connection with a free stream, which the caller releases, or undefined beyond the maximum. */
  acquire(keepsAlive: boolean): Connection | undefined {
    if (this.open >= STREAMS_MAX) return undefined;
    this.open++;
    const connections = this.connections[`${keepsAlive}`];
    let connection = [...connections].find((each) => each.inFlight < this.settings.streamsPerConnection);
    if (connection === undefined) {
      connection = new Connection(this.target, this.settings);
      connections.add(connection);
    }
    connection.inFlight++;
    return connection;
  }

  release(connection: Connection): void {
    this.open--;
    if (--connection.inFlight > 0) return;
    this.retire(connection);
    connection.close();
  }

  /** Gives no further streams to a connection, which is closed after its last one. */
  retire(connection: Connection): void {
    for (const each of Object.values(this.connections)) each.delete(connection);
  }

  /** Ends all streams. */
  close(): void {
    for (const each of [...this.streams]) each.close();
  }
}

/** One stream on a connection. After its status it is over; `EventStream` begins another one. */
class Attempt {
  /** True while the message that was asked for has not arrived. */
  asks = false;
  private readonly sent: GrpcCall;

  constructor(
    private readonly owner: EventStream<unknown>,
    readonly connection: Connection,
    path: string,
    request: Buffer,
    metadata: Metadata,
  ) {
    this.sent = connection.channel.createCall(path, Infinity, null, null, null);
    this.sent.start(metadata, this);
    this.sent.sendMessageWithContext({}, request);
    this.sent.halfClose();
  }

  /** Asks for one message, unless one is asked for. */
  read(): void {
    if (this.asks) return;
    this.asks = true;
    this.sent.startRead();
  }

  onReceiveMetadata(): void {}

  onReceiveMessage(message: Buffer): void {
    this.asks = false;
    this.owner.onMessage(this, message);
  }

  onReceiveStatus(status: StatusObject): void {
    this.owner.onStatus(this, status);
  }

  cancel(): void {
    this.sent.cancelWithStatus(Status.CANCELLED, "cancelled by the caller");
  }
}

/** The parts of a stream that belong to its kind. */
export interface EventSource<E> {
  readonly call: StreamCall<E>;
  /** Returns the request by which the stream begins, or continues after a break. */
  request(): Buffer;
  /** Runs when an event has arrived, before its consumer gets it. The next request continues behind it. */
  onArrival?(event: E): void;
  /** Returns whether an event only shows that the stream works, so that it need not wait for its consumer. */
  isHeartbeat(event: E): boolean;
  /** Runs when the stream has broken, before it begins again. */
  onBreak?(error: CacheError): void;
  /** Runs at the first event after a break. */
  onResume?(): void;
  /** False if the stream alone does not keep the process alive. */
  readonly keepsAlive: boolean;
  /** True if failures that pass end the stream before its first event, unless the retry strategy repeats it. */
  readonly failsAtFirst: boolean;
  /** Milliseconds without an event after which the stream counts as broken. */
  readonly silenceMsMax: number;
}

/**
 * A stream that begins again after a break, until it is closed or the server refuses it for good.
 *
 * At most one `read` waits at a time.
 */
export class EventStream<E> implements Cancellable {
  private attempt: Attempt | undefined;
  /** Receives the next event; undefined unless a `read` waits. */
  private waiting: ((event: E | CacheError | undefined) => void) | undefined;
  /** Events that wait for a `read`, with their memory. */
  private readonly queue: { readonly event: E; readonly bytes: number }[] = [];
  private queuedBytes = 0;
  /** True from a break until the next event. */
  private broken = false;
  /** The error that ended the stream. */
  private failure: CacheError | undefined;
  private closed = false;
  /** True once the first event has arrived. */
  private begun = false;
  private retries = 0;
  private previousMs = 0;
  /** The delay before the next attempt. */
  private delay: NodeJS.Timeout | undefined;
  /** The time without an event, while one is asked for. */
  private silence: NodeJS.Timeout | undefined;
  private readonly backoff: ExponentialBackoff;

  constructor(
    private readonly engine: Engine,
    private readonly source: EventSource<E>,
    private readonly scope: Scope,
    private readonly signal: AbortSignal | undefined,
  ) {
    const { reconnectDelayMinMs, reconnectDelayMaxMs } = engine.settings;
    this.backoff = new ExponentialBackoff({ initialDelayMs: reconnectDelayMinMs, maxDelayMs: reconnectDelayMaxMs });
  }

  /**
   * Begins the stream, and resolves to its first event, or to the error by which the server refuses it. Until the
   * first event, the retry strategy of the configuration decides, as for a call.
   *
   * Rejects with TypeError or RangeError if an argument is wrong. The stream has then taken no place.
   */
  async begin(deadlineMs: number): Promise<E | CacheError> {
    if (!(deadlineMs >= 0)) {
      throw new RangeError(`cannot use deadlineMs ${deadlineMs}: it is out of range; give a number of milliseconds`);
    }
    signalOf(this.signal);
    // A request that cannot be encoded ends here, and not in a timer.
    this.source.request();
    if (this.engine.closed || this.signal?.aborted) return this.cancelled();
    const late = setTimeout(() => this.refuseLate(deadlineMs), Math.min(deadlineMs, 2 ** 31 - 1));
    try {
      this.open();
      return (await this.read()) ?? this.cancelled();
    } catch (exception) {
      this.close();
      throw exception;
    } finally {
      clearTimeout(late);
    }
  }

  /** Begins the stream, whose first event a `read` returns. */
  open(): void {
    if (this.signal !== undefined) this.engine.signals.add(this.signal, this);
    this.engine.streams.streams.add(this as EventStream<unknown>);
    this.engine.budget.add();
    this.start();
  }

  /**
   * Resolves to the next event, to the error that has ended the stream, or to undefined after `close`. Waits while the
   * stream is broken.
   */
  read(): Promise<E | CacheError | undefined> {
    if (this.waiting !== undefined) throw new Error("cannot read stream: another read waits; await it first");
    const first = this.queue.shift();
    if (first !== undefined) {
      this.queuedBytes -= first.bytes;
      this.listen();
      return Promise.resolve(first.event);
    }
    if (this.failure !== undefined || this.closed) {
      const { failure } = this;
      this.failure = undefined;
      return Promise.resolve(failure);
    }
    return new Promise((resolve) => {
      this.waiting = resolve;
      this.listen();
    });
  }

  /** Ends the stream because its caller cancelled it. */
  cancel(): void {
    this.close();
  }

  /** Ends the stream. A `read` that waits resolves to undefined. */
  close(): void {
    this.queue.length = 0;
    this.stop();
  }

  private stop(): void {
    if (this.closed) return;
    this.closed = true;
    clearTimeout(this.delay);
    clearTimeout(this.silence);
    this.abandon();
    this.engine.streams.streams.delete(this as EventStream<unknown>);
    if (this.signal !== undefined) this.engine.signals.remove(this.signal, this);
    this.deliver(undefined);
  }

  private cancelled(): CacheError {
    const { method } = this.source.call;
    if (!this.engine.closed) return errorOfClient(ErrorCode.CANCELLED, method, "the caller cancelled it");
    return errorOfClient(ErrorCode.CANCELLED, method, "the client is closed", "create a new client");
  }

  private start(): void {
    const { engine, source, scope } = this;
    if (!isCacheName(scope.cache)) return this.end(errorOfCacheName(source.call.method));
    const connection = engine.streams.acquire(source.keepsAlive);
    if (connection === undefined) {
      const cause = `${STREAMS_MAX} subscriptions are open, which is the maximum of a client`;
      return this.end(errorOfClient(ErrorCode.LIMIT_EXCEEDED, source.call.method, cause, "close some of them"));
    }
    const owner = this as EventStream<unknown>;
    try {
      this.attempt = new Attempt(owner, connection, source.call.path, source.request(), scope.metadata);
    } catch (exception) {
      engine.streams.release(connection);
      throw exception;
    }
    this.listen();
  }

  /** Asks for the next event if there is room for it, and bounds the time until it arrives. */
  private listen(): void {
    if (this.attempt === undefined || this.queuedBytes >= QUEUE_BYTES_MAX) return;
    this.attempt.read();
    if (this.silence !== undefined) this.silence.refresh();
    else this.silence = setTimeout(() => this.onSilence(), this.source.silenceMsMax).unref();
  }

  private onSilence(): void {
    if (this.attempt === undefined || !this.attempt.asks) return;
    // Other streams of the connection may notice its silence later.
    this.engine.streams.retire(this.attempt.connection);
    this.abandon();
    const cause = `the server has sent nothing for ${this.source.silenceMsMax} ms`;
    const remedy = "check the network, and that the server runs";
    this.onBreak(errorOfClient(ErrorCode.TIMEOUT, this.source.call.method, cause, remedy));
  }

  /** Ends the present attempt, whose messages and status are ignored from now on. */
  private abandon(): void {
    const { attempt } = this;
    if (attempt === undefined) return;
    this.attempt = undefined;
    attempt.cancel();
    this.engine.streams.release(attempt.connection);
  }

  private deliver(event: E | CacheError | undefined): void {
    const { waiting } = this;
    this.waiting = undefined;
    waiting?.(event);
  }

  /** Ends the stream with an error, which the next `read` returns. */
  private end(error: CacheError): void {
    if (this.closed) return;
    if (this.waiting === undefined) this.failure = error;
    else this.deliver(error);
    this.stop();
  }

  private refuseLate(deadlineMs: number): void {
    if (!this.begun) this.end(this.errorOf(Status.DEADLINE_EXCEEDED, "", deadlineMs));
  }

  private errorOf(status: Status, details: string, deadlineMs?: number): CacheError {
    const { engine, source } = this;
    const facts = { bytes: source.request().length, bytesMax: engine.settings.messageBytesMax, deadlineMs };
    return errorOfStatus(status, details, source.call.method, engine.target, facts);
  }

  onMessage(attempt: Attempt, message: Buffer): void {
    if (attempt !== this.attempt) return;
    let event: E | undefined;
    try {
      event = this.source.call.decode(message);
    } catch (error) {
      if (!(error instanceof BadReply)) throw error;
      const remedy = "use a server and a client of one version";
      return this.end(errorOfClient(ErrorCode.INTERNAL, this.source.call.method, error.message, remedy));
    }
    this.begun = true;
    this.retries = this.previousMs = 0;
    if (!this.source.keepsAlive) attempt.connection.unref();
    if (this.broken) this.source.onResume?.();
    this.broken = false;
    if (event === undefined) return this.listen();
    this.source.onArrival?.(event);
    if (this.waiting !== undefined) {
      this.deliver(event);
    } else if (!this.source.isHeartbeat(event)) {
      const bytes = message.length + EVENT_BYTES;
      this.queue.push({ event, bytes });
      this.queuedBytes += bytes;
    }
    this.listen();
  }

  onStatus(attempt: Attempt, status: StatusObject): void {
    if (attempt !== this.attempt) return;
    this.attempt = undefined;
    this.engine.streams.release(attempt.connection);
    const error = (): CacheError => this.errorOf(status.code, status.details);
    if (LASTING.has(status.code)) return this.end(error());
    if (this.begun || !this.source.failsAtFirst) return this.onBreak(error());
    const { retryStrategy } = this.engine.settings;
    const mayRepeat = status.code === Status.UNAVAILABLE || status.code === Status.INTERNAL;
    const delayMs = mayRepeat ? retryStrategy.delayMs(this.retries, this.previousMs) : undefined;
    if (delayMs === undefined || !this.engine.budget.take()) return this.end(error());
    this.engine.retries++;
    this.again(delayMs);
  }

  private onBreak(error: CacheError): void {
    this.broken = this.begun;
    this.source.onBreak?.(error);
    this.again(this.backoff.delayMs(this.retries, this.previousMs));
  }

  private again(delayMs: number): void {
    if (this.closed) return;
    this.retries++;
    this.previousMs = delayMs;
    this.delay = setTimeout(() => this.start(), delayMs);
    if (!this.source.keepsAlive) this.delay.unref();
  }
}
