package dev.gannet.client;

/** The kinds of errors. All client libraries have the same ones. */
public enum ErrorCode {
    /** Another error of the server. */
    UNKNOWN,
    /** An argument is not allowed, such as an empty key. */
    INVALID_ARGUMENT,
    /** The cache does not exist. */
    NOT_FOUND_CACHE,
    /** The cache exists already. */
    ALREADY_EXISTS,
    /**
     * The item has another type, or its value is not a number; an edge type has another form, or a cap is reached.
     */
    FAILED_PRECONDITION,
    /** The token is missing or wrong. */
    UNAUTHENTICATED,
    /** The user of the token may not execute the call. */
    PERMISSION_DENIED,
    /** A limit of the server: memory, quota, size of a message or value, number of caches. */
    LIMIT_EXCEEDED,
    /** The deadline passed before a reply arrived. The server may have executed the call. */
    TIMEOUT,
    /** The deadline passed while the request waited in the client. The server did not receive it. */
    CLIENT_QUEUE_TIMEOUT,
    /** Too many requests wait in the client. The server did not receive this one. */
    CLIENT_QUEUE_FULL,
    /** The caller cancelled the call, or closed the client. */
    CANCELLED,
    /** The server cannot be reached, or does not speak the protocol of the client. */
    UNAVAILABLE,
    /** The server does not have the call. */
    UNIMPLEMENTED,
    /** The server failed, or a reply contradicts the protocol. */
    INTERNAL,
    /** The record has another revision than the call names. */
    ABORTED,
    /** The record to change does not exist. */
    NOT_FOUND_RECORD,
    /** The graph or the edge type is not declared. */
    NOT_FOUND_GRAPH;

    /** Returns true if the same call may succeed later. A call that is not idempotent may have been executed. */
    public boolean isRetryable() {
        return switch (this) {
            case UNAVAILABLE, INTERNAL, TIMEOUT, CLIENT_QUEUE_TIMEOUT, CLIENT_QUEUE_FULL -> true;
            default -> false;
        };
    }
}
