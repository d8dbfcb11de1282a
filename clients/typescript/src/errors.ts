/** Errors as results: codes, and the remedy of each common mistake. */

import { status as Status } from "@grpc/grpc-js";

/** The kinds of errors. */
export const ErrorCode = {
  /** An argument is not allowed, such as an empty key. */
  INVALID_ARGUMENT: "INVALID_ARGUMENT",
  /** The cache does not exist. */
  NOT_FOUND_CACHE: "NOT_FOUND_CACHE",
  /** The record that the call changes does not exist. */
  NOT_FOUND_RECORD: "NOT_FOUND_RECORD",
  /** The graph or the edge type is not declared. */
  NOT_FOUND_GRAPH: "NOT_FOUND_GRAPH",
  /** The cache or the record exists already. */
  ALREADY_EXISTS: "ALREADY_EXISTS",
  /**
   * The item has another type, its value is not a number, or a filter is false. Of a graph: the edge type has another
   * form, its cap is reached, or the server has no graph store.
   */
  FAILED_PRECONDITION: "FAILED_PRECONDITION",
  /** The token is missing or wrong. */
  UNAUTHENTICATED: "UNAUTHENTICATED",
  /** The user of the token may not execute the call. */
  PERMISSION_DENIED: "PERMISSION_DENIED",
  /** A limit of the server: memory, quota, size of a message or value, number of caches, graphs or nodes. */
  LIMIT_EXCEEDED: "LIMIT_EXCEEDED",
  /** The record has another revision than the call requires: another client has changed it. */
  ABORTED: "ABORTED",
  /** The deadline passed before a reply arrived. The server may have executed the call. */
  TIMEOUT: "TIMEOUT",
  /** The deadline passed while the request waited in the client. The server did not receive it. */
  CLIENT_QUEUE_TIMEOUT: "CLIENT_QUEUE_TIMEOUT",
  /** Too many requests wait in the client. The server did not receive this one. */
  CLIENT_QUEUE_FULL: "CLIENT_QUEUE_FULL",
  /** The caller cancelled the call, or the client was closed. */
  CANCELLED: "CANCELLED",
  /** The server cannot be reached, or does not speak the protocol of the client. */
  UNAVAILABLE: "UNAVAILABLE",
  /** The server does not have the call. */
  UNIMPLEMENTED: "UNIMPLEMENTED",
  /** The server failed, or a reply contradicts the protocol. */
  INTERNAL: "INTERNAL",
  /** Another error of the server. */
  UNKNOWN: "UNKNOWN",
} as const;

/** The name of a kind of errors. */
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

/** A call that failed. */
export class CacheError {
  readonly type = "error";

  constructor(
    readonly code: ErrorCode,
    /** One sentence for people: `cannot VERB OBJECT: CAUSE; REMEDY`. */
    readonly message: string,
    /** The action that removes the cause, as at the end of `message`. */
    readonly remedy: string,
    /** True if the same call may succeed later. A call that is not idempotent may have been executed. */
    readonly retryable: boolean,
  ) {}

  /** Returns an exception with the message, for callers that prefer to throw. Its `cause` is this error. */
  toException(): Error {
    const exception = new Error(this.message, { cause: this });
    exception.name = `CacheError[${this.code}]`;
    return exception;
  }

  toString(): string {
    return `${this.code}: ${this.message}`;
  }
}

const CODES: Partial<Record<Status, ErrorCode>> = {
  [Status.INVALID_ARGUMENT]: ErrorCode.INVALID_ARGUMENT,
  [Status.OUT_OF_RANGE]: ErrorCode.INVALID_ARGUMENT,
  [Status.NOT_FOUND]: ErrorCode.NOT_FOUND_CACHE,
  [Status.ALREADY_EXISTS]: ErrorCode.ALREADY_EXISTS,
  [Status.FAILED_PRECONDITION]: ErrorCode.FAILED_PRECONDITION,
  [Status.UNAUTHENTICATED]: ErrorCode.UNAUTHENTICATED,
  [Status.PERMISSION_DENIED]: ErrorCode.PERMISSION_DENIED,
  [Status.RESOURCE_EXHAUSTED]: ErrorCode.LIMIT_EXCEEDED,
  [Status.DEADLINE_EXCEEDED]: ErrorCode.TIMEOUT,
  [Status.CANCELLED]: ErrorCode.CANCELLED,
  [Status.UNAVAILABLE]: ErrorCode.UNAVAILABLE,
  [Status.UNIMPLEMENTED]: ErrorCode.UNIMPLEMENTED,
  [Status.INTERNAL]: ErrorCode.INTERNAL,
  [Status.ABORTED]: ErrorCode.ABORTED,
  [Status.DATA_LOSS]: ErrorCode.INTERNAL,
};

/** The calls that report a record that does not exist as an error. */
const RECORD_CHANGES: ReadonlySet<string> = new Set([
  "RecordPut",
  "RecordAdd",
  "RecordAppend",
  "RecordTouch",
  "RecordDelete",
]);

const RETRYABLE: ReadonlySet<ErrorCode> = new Set([
  ErrorCode.UNAVAILABLE,
  ErrorCode.INTERNAL,
  ErrorCode.TIMEOUT,
  ErrorCode.CLIENT_QUEUE_TIMEOUT,
  ErrorCode.CLIENT_QUEUE_FULL,
]);

const REMEDIES: Record<ErrorCode, string> = {
  INVALID_ARGUMENT: "change the argument",
  NOT_FOUND_CACHE: "create the cache with createCache, or correct its name",
  NOT_FOUND_RECORD: 'create the record first, with when: "create" or without when',
  NOT_FOUND_GRAPH: "declare the edge type with declareType, or correct the names",
  ALREADY_EXISTS: "use the cache, or choose another name",
  FAILED_PRECONDITION: "use the calls of the item's type (getType returns it), or delete the item first",
  UNAUTHENTICATED:
    "pass credentials: CredentialProvider.fromString(TOKEN); the token is the password of the user default, " +
    "or USER:PASSWORD",
  PERMISSION_DENIED:
    "create a token with this permission (gannet user token, or tokens.generateDisposableToken), " +
    "or grant the right to the user with ACL SETUSER",
  LIMIT_EXCEEDED: "store less in one call, or raise the limit of the server",
  ABORTED: "read the item again, and repeat the change",
  TIMEOUT: "raise the deadline of the configuration, or reduce the load of the server",
  CLIENT_QUEUE_TIMEOUT: "send fewer requests at once, or raise requestsInFlightMax or the deadline",
  CLIENT_QUEUE_FULL: "send fewer requests at once, or raise requestsQueuedMax",
  CANCELLED: "repeat the call if its result is still needed",
  UNAVAILABLE: "repeat the call; if it fails again, check that the server runs",
  UNIMPLEMENTED: "use a server of the same version as the client, or newer",
  INTERNAL: "repeat the call; if it fails again, read the log of the server",
  UNKNOWN: "read the log of the server",
};

/** Remedies of refused calls on graphs, whose messages name the cause. Those above are of items. */
const GRAPH_REMEDIES: Partial<Record<ErrorCode, string>> = {
  FAILED_PRECONDITION: "see the limits of graphs in docs/graph/README.md, and change the call",
  LIMIT_EXCEEDED: "send or store less, or raise the limit of the server (graph.memory for graphs)",
};

/** Remedies by the first word of an error of records. */
const RECORD_REMEDIES: Readonly<Record<string, string>> = {
  NOTFOUND: REMEDIES.NOT_FOUND_RECORD,
  EXISTS: 'change the record with when: "update" or without when, or use another key',
  REVISION: "read the record again, and repeat the change with its revision",
  FILTERED: "read the record, and change the filter",
  RECORDSET: "name the set that the record belongs to, or leave it out",
  BINTYPE: "pass a value of the bin's type: a bigint for INT, a number for FLOAT, a string for STR",
  BINRANGE: "pass a smaller number",
  BINVALUE: "pass a value of the type of the bin",
  BINNAME: "pass a name of 1 to 63 bytes",
  NOINDEX: "create the index with REC.INDEX CREATE SET BIN INT, or STR",
  BUILDING: "repeat the call when the index is complete (REC.INDEX LIST)",
  INDEXFULL: "create the index again with more memory (REC.INDEX CREATE SET BIN TYPE MEMORY BYTES)",
};

type Explanation = readonly [cause: string, remedy: string];

// A server that has its maximum of connections replies with HTTP/1.1. The gRPC library does not show that reply.
const NOT_GRPC: Explanation = [
  "the server at this port does not speak gRPC, or has its maximum of connections",
  "pass the address of `gannet serve --grpc`, not the port of memcached, Redis or HTTP clients; " +
    "if the port uses TLS, pass tls: true; if the server logs refused connections, raise its --maxconns",
];

/** Returns the cause and the remedy of a connection that failed, by the text of the gRPC library and of Node. */
function explainUnavailable(details: string, context: ErrorContext): Explanation {
  const { address, tls } = context;
  const text = details.toLowerCase();
  const has = (...parts: string[]): boolean => parts.some((part) => text.includes(part));
  if (tls && has("wrong version number", "packet length too long")) {
    return ["the server at this port does not use TLS", "pass tls: false, or the port that uses TLS"];
  }
  if (has("certificate", "altname", "self-signed", "self signed")) {
    return [
      "the certificate of the server was not signed by a known CA, or names another host",
      "pass caFile: PATH with the CA of the server, and an address with the host name of the certificate",
    ];
  }
  if (has("ssl routines", "eproto", "tls")) {
    return [`the TLS handshake failed (${details})`, "check that the port uses TLS, and its certificate"];
  }
  // The last text is that of a connection which was closed before a reply, as by a port mapping without a server.
  if (has("protocol error", "http/2", "failed to connect (")) return NOT_GRPC;
  if (has("econnrefused")) {
    const remedy = `start one with \`gannet serve --grpc ${address}\`, or correct the address`;
    return ["no server listens there", remedy];
  }
  if (has("name resolution failed", "enotfound", "eai_again")) {
    return ["the host name is unknown", "correct it, or check DNS"];
  }
  if (has("channel closed before call started", "connect timeout")) {
    const cause = `no connection was opened within ${context.connectTimeoutMs} ms`;
    return [cause, "check the address, the network and the firewall"];
  }
  if (has("etimedout", "ehostunreach", "enetunreach", "keepalive", "ping")) {
    return [`the host does not answer (${details})`, "check the address, the network and the firewall"];
  }
  if (has("econnreset", "epipe", "goaway", "socket", "connection dropped", "session closed", "closed")) {
    return [
      "the server closed the connection",
      "repeat the call; if it fails again, check that the server runs, and that tls is as on its port",
    ];
  }
  return [details || "the server is unavailable", REMEDIES.UNAVAILABLE];
}

/** The parts of a connection that the messages of errors name. */
export interface ErrorContext {
  readonly address: string;
  readonly tls: boolean;
  readonly token: string | undefined;
  readonly connectTimeoutMs: number;
}

/** The parts of a request that the messages of errors name. Those of streams have no deadline. */
export interface RequestFacts {
  readonly bytes: number;
  /** The setting messageBytesMax. */
  readonly bytesMax: number;
  readonly deadlineMs?: number | undefined;
  /** True for a call on a graph. */
  readonly ofGraph?: boolean | undefined;
}

/** The maximum size of a request. No setting of the server changes it. */
const SERVER_MESSAGE_BYTES_MAX = 10 * 2 ** 20;

/** Returns the cause and the remedy of an exceeded limit, if the server, or the gRPC library, names no remedy. */
function explainLimit(cause: string, remedy: string, { bytes, bytesMax }: RequestFacts): Explanation {
  if (cause.includes("size limit exceeded")) {
    const more = `${cause}, and the request has ${bytes} bytes`;
    return [more, "store less in one item, or raise the limit by --item-max of the server"];
  }
  if (cause.startsWith("Attempted to send message with a size larger than")) {
    const raise = `, or raise messageBytesMax to at most ${SERVER_MESSAGE_BYTES_MAX} bytes`;
    return [
      `the request has ${bytes} bytes, above the maximum of ${bytesMax} bytes`,
      `send less in one call${bytesMax < SERVER_MESSAGE_BYTES_MAX ? raise : ""}`,
    ];
  }
  if (cause.includes("larger than max")) {
    const long = `the reply is longer than the maximum of ${bytesMax} bytes`;
    return [long, "read less in one call, or raise messageBytesMax"];
  }
  return [cause, remedy];
}

/** Returns the error of a call that ended with a gRPC status other than OK. */
export function errorOfStatus(
  status: Status,
  details: string,
  method: string,
  context: ErrorContext,
  request: RequestFacts,
): CacheError {
  let code = CODES[status] ?? ErrorCode.UNKNOWN;
  if (status === Status.NOT_FOUND && RECORD_CHANGES.has(method) && !details.startsWith("the cache")) {
    code = ErrorCode.NOT_FOUND_RECORD;
  }
  const { ofGraph = false } = request;
  if (ofGraph && status === Status.NOT_FOUND && !details.startsWith("the cache")) code = ErrorCode.NOT_FOUND_GRAPH;
  let cause = details.replaceAll(/\. Resolution note: $|\n/g, "").trim();
  cause = cause.replace(/^No connection established\. Last error: /, "") || (Status[status] ?? "");
  let remedy: string = (ofGraph ? GRAPH_REMEDIES[code] : undefined) ?? REMEDIES[code];
  const [, word = "", text = ""] = /^([A-Z]+) (.+)$/.exec(cause) ?? [];
  const ofRecord = Object.hasOwn(RECORD_REMEDIES, word) ? RECORD_REMEDIES[word] : undefined;
  if (/^Received HTTP status code/.test(details)) {
    code = ErrorCode.UNAVAILABLE;
    [cause, remedy] = NOT_GRPC;
  } else if (ofRecord !== undefined) {
    [cause, remedy] = [text, ofRecord];
  } else if (code === ErrorCode.UNAVAILABLE) {
    [cause, remedy] = explainUnavailable(cause, context);
  } else if (code === ErrorCode.UNAUTHENTICATED) {
    const none = context.token === undefined;
    cause = none ? "the server needs a token, and none was passed" : "the server does not accept the token";
  } else if (code === ErrorCode.TIMEOUT) {
    const deadline = request.deadlineMs === undefined ? "the deadline" : `the deadline of ${request.deadlineMs} ms`;
    if (details.includes("LB pick") && !details.includes("remote_addr")) {
      cause = `${deadline} passed before a connection was open`;
      remedy = "raise the deadline of the configuration, or check the address, the network and the firewall";
    } else {
      cause = `no reply arrived before ${deadline}`;
    }
  } else if (cause.includes("; ")) {
    // The server's own message names the remedy.
    const at = cause.indexOf("; ");
    const isNamed = code === ErrorCode.NOT_FOUND_CACHE || code === ErrorCode.NOT_FOUND_GRAPH;
    if (!isNamed) remedy = cause.slice(at + 2);
    cause = cause.slice(0, at);
  } else if (code === ErrorCode.LIMIT_EXCEEDED) {
    [cause, remedy] = explainLimit(cause, remedy, request);
  }
  const message = `cannot execute ${method} at ${context.address}: ${cause}; ${remedy}`;
  return new CacheError(code, message, remedy, RETRYABLE.has(code));
}

/** Returns the error of a call whose request the client did not send, or whose reply it could not read. */
export function errorOfClient(code: ErrorCode, method: string, cause: string, remedy = REMEDIES[code]): CacheError {
  return new CacheError(code, `cannot execute ${method}: ${cause}; ${remedy}`, remedy, RETRYABLE.has(code));
}

/** Returns the error of a call on a cache whose name no request can have. */
export function errorOfCacheName(method: string): CacheError {
  const cause = "the name of the cache is not printable ASCII";
  return errorOfClient(ErrorCode.INVALID_ARGUMENT, method, cause, "correct the name");
}
