/** Code of the user that runs before and after each call. */

/** A call that begins. */
export interface CallStart {
  /** Name of the call in the schema, such as `Get`. */
  readonly method: string;
  /** Name of the cache, or an empty string for calls on no cache. */
  readonly cache: string;
  /** Size of the request in bytes. */
  readonly requestBytes: number;
}

/** A call that has ended. */
export interface CallEnd {
  readonly method: string;
  readonly cache: string;
  /** `OK`, or the `ErrorCode`. */
  readonly status: string;
  /** Milliseconds from the start of the call to its result, with the wait in the client's queue. */
  readonly durationMs: number;
  /** Milliseconds in the client's queue. */
  readonly queuedMs: number;
  /** Number of times that the request was repeated after a failure. */
  readonly retries: number;
  /** True if the request was sent a second time because its reply was slow. */
  readonly hedged: boolean;
  /** The message of the error, or undefined. */
  readonly error: string | undefined;
}

/** Functions that see each call. An exception of one rejects the promise of the call. */
export interface Middleware {
  /** Runs when a call begins, before it waits in the client's queue. */
  before?(start: CallStart): void;
  /** Runs when a call has ended. Its place in flight is already free. */
  after?(end: CallEnd): void;
}
