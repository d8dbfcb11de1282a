/**
 * Topics: messages to all subscribers of a name, with sequence numbers.
 *
 * A topic is the channel of Redis clients with its name, in one cache.
 */

import { whole } from "./arguments.js";
import { done, stream, unary } from "./calls.js";
import type { CallOptions, Engine, Scope } from "./engine.js";
import { CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import { Opaque } from "./opaque.js";
import type { DoneResult } from "./results.js";
import { EventStream, SILENCE_MS_MAX, type EventSource } from "./streams.js";
import { BadReply, type Bytes } from "./wire.js";

/** A message of a topic. */
export class TopicItem {
  readonly type = "item";
  constructor(
    /** The number of the message within its page. The messages of a topic have consecutive numbers, from 1. */
    readonly sequence: number,
    /** The page of the number: a topic that is created again has a later page, whose numbers begin at 1. */
    readonly page: number,
    /** The id in the token of the publisher, or an empty string. */
    readonly publisherId: string,
    private readonly value: string | Uint8Array,
  ) {}

  /** True if the message was published as text. */
  get isText(): boolean {
    return typeof this.value === "string";
  }

  /** Returns the message as text (UTF-8). */
  valueString(): string {
    return typeof this.value === "string" ? this.value : Buffer.from(this.value).toString("utf8");
  }

  /** Returns the message as bytes. */
  valueBytes(): Uint8Array {
    return typeof this.value === "string" ? Buffer.from(this.value, "utf8") : this.value;
  }
}

/** Messages are missing before the next one: the server does not have them any more. */
export class TopicDiscontinuity {
  readonly type = "discontinuity";
  constructor(
    /** The number of the last message before them; 0 if there was none. */
    readonly lastSequence: number,
    /** The number of the next message. */
    readonly newSequence: number,
    /** The page of the next message. */
    readonly newPage: number,
  ) {}
}

/** A sign of life of the server, which it sends every 5 s if there are no messages. */
export class TopicHeartbeat {
  readonly type = "heartbeat";
  constructor(
    /** The place of the next message; undefined if the server has not named it. */
    readonly next?: TopicPosition | undefined,
  ) {}
}

/** An event of a subscription. An error is the last one. */
export type TopicEvent = TopicItem | TopicDiscontinuity | TopicHeartbeat | CacheError;

/** The place of a message in a topic. */
export interface TopicPosition {
  readonly sequence: number;
  readonly page: number;
}

/** Options of `subscribe`. `signal` ends the subscription at any time, and `deadlineMs` is that for its begin. */
export interface SubscribeOptions extends CallOptions {
  /**
   * The first message; without it, the next one that is published. `{ sequence: 1, page: 0 }` asks for all messages
   * that the server has.
   */
  readonly from?: TopicPosition | undefined;
}

/** Returns an event, or undefined for one of a later schema. */
function eventOf({ item, discontinuity, heartbeat }: m.TopicEventRead): Exclude<TopicEvent, CacheError> | undefined {
  if (item !== undefined) {
    const value = item.value?.text ?? item.value?.binary;
    if (value === undefined) throw new BadReply("a message of a topic has no value");
    return new TopicItem(Number(item.sequence), Number(item.page), item.publisherId, value);
  }
  if (discontinuity !== undefined) {
    const { lastSequence, newSequence, newPage } = discontinuity;
    return new TopicDiscontinuity(Number(lastSequence), Number(newSequence), Number(newPage));
  }
  if (heartbeat === undefined) return undefined;
  const [sequence, page] = [Number(heartbeat.sequence), Number(heartbeat.page)];
  return new TopicHeartbeat(sequence === 0 ? undefined : { sequence, page });
}

const PUBLISH = unary("Topics", "Publish", done, false);
const SUBSCRIBE = stream("Topics", "Subscribe", eventOf);

/** Returns the place after an event, or undefined if it names none. */
function following(event: TopicEvent): TopicPosition | undefined {
  if (event.type === "item") return { sequence: event.sequence + 1, page: event.page };
  if (event.type === "discontinuity") return { sequence: event.newSequence, page: event.newPage };
  return event.type === "heartbeat" ? event.next : undefined;
}

class TopicSource implements EventSource<Exclude<TopicEvent, CacheError>> {
  readonly call = SUBSCRIBE;
  readonly keepsAlive = true;
  readonly failsAtFirst = true;
  silenceMsMax = SILENCE_MS_MAX;

  constructor(
    private readonly engine: Engine,
    private readonly topic: string,
    /** The next message that has not arrived, if it is known. */
    private next: TopicPosition | undefined,
  ) {}

  onArrival(event: Exclude<TopicEvent, CacheError>): void {
    this.next = following(event) ?? this.next;
  }

  isHeartbeat(event: Exclude<TopicEvent, CacheError>): boolean {
    return event.type === "heartbeat";
  }

  onResume(): void {
    this.engine.resumes++;
  }

  request(): Buffer {
    const { sequence = 0, page = 0 } = this.next ?? {};
    return m.encodeSubscribeRequest({ cache: "", topic: this.topic, sequence, page });
  }
}

/**
 * A subscription to a topic: `for await (const event of subscription)`.
 *
 * After a broken connection, it continues behind the last message that has arrived, or where it began: with a message,
 * or with a discontinuity if the server does not have the next message any more.
 *
 * Messages of 64 KiB wait for the loop. Beyond that, a slow loop holds back the server, which has the last messages of
 * a topic, and then sends a discontinuity.
 *
 * The loop ends after `close`, after `break`, when `signal` is aborted, and when the client is closed. It also ends
 * after an event of type `error`: the topic's cache does not exist any more, the token has lost its right or has
 * expired, or the server refuses the request. A later subscription can continue at `position`.
 */
export class TopicSubscription extends Opaque implements AsyncIterableIterator<TopicEvent> {
  readonly type = "subscription";
  private place: TopicPosition | undefined;
  /** Settles when all earlier calls of `next` have. */
  private earlier: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(
    private readonly events: EventStream<Exclude<TopicEvent, CacheError>>,
    private readonly topic: string,
    from: TopicPosition | undefined,
  ) {
    super();
    this.place = from;
  }

  override toJSON(): { topic: string; position: TopicPosition | undefined } {
    return { topic: this.topic, position: this.position };
  }

  /** The place of the next message, for the option `from` of a later subscription; undefined if it is not known. */
  get position(): TopicPosition | undefined {
    return this.place;
  }

  /** Ends the subscription, and the loop over it. */
  close(): void {
    this.events.close();
  }

  /** Returns the subscription itself: each event goes to one loop. */
  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Resolves to the next event, or to the end. Later calls wait for earlier ones. */
  next(): Promise<IteratorResult<TopicEvent, undefined>> {
    const result = this.earlier.then(() => this.read());
    this.earlier = result;
    return result;
  }

  /** Ends the subscription, as `break` in the loop over it does. */
  async return(): Promise<IteratorResult<TopicEvent, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  private async read(): Promise<IteratorResult<TopicEvent, undefined>> {
    const value = await this.events.read();
    if (value === undefined) return { done: true, value };
    this.place = following(value) ?? this.place;
    return { done: false, value };
  }
}

/** Returns the name of a topic. Throws TypeError unless it is a string. */
function nameOf(topic: string): string {
  if (typeof topic === "string") return topic;
  const kind = topic === null ? "null" : typeof topic;
  throw new TypeError(`cannot use topic: ${kind} is no name; give a string`);
}

/** Returns a copy of a position. Throws TypeError or RangeError unless it has two whole numbers. */
function positionOf(from: TopicPosition | undefined): TopicPosition | undefined {
  if (from === undefined) return undefined;
  if (typeof from !== "object" || from === null) {
    throw new TypeError(`cannot use from '${String(from)}': it is no position; give { sequence, page }`);
  }
  const part = (name: "sequence" | "page"): number => whole(`from.${name}`, from[name], 0, Number.MAX_SAFE_INTEGER);
  return { sequence: part("sequence"), page: part("page") };
}

export type SubscribeResult = TopicSubscription | CacheError;

/** The topics of one cache. */
export class Topics extends Opaque {
  /** @internal */
  constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
  ) {
    super();
  }

  /**
   * Publishes a message: a string as text, a Uint8Array as bytes. It is not repeated after a failure, because it may
   * have reached the subscribers.
   */
  async publish(topic: string, value: Bytes, options?: CallOptions): Promise<DoneResult> {
    const kind = typeof value === "string" ? { text: value } : { binary: value };
    const request = m.encodePublishRequest({ cache: "", topic: nameOf(topic), value: kind });
    return this.engine.call(PUBLISH, request, this.scope, options);
  }

  /**
   * Subscribes to a topic, and resolves when the server has begun the subscription. It takes no place of the requests
   * in flight.
   */
  async subscribe(topic: string, options: SubscribeOptions = {}): Promise<SubscribeResult> {
    const from = positionOf(options.from);
    const source = new TopicSource(this.engine, nameOf(topic), from);
    const events = new EventStream(this.engine, source, this.scope, options.signal);
    const first = await events.begin(options.deadlineMs ?? this.engine.settings.deadlineMs);
    return first.type === "error" ? first : new TopicSubscription(events, topic, from);
  }
}
