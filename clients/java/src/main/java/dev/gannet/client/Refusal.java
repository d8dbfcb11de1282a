package dev.gannet.client;

/** The reason why the client does not send a request. It has no stack trace, so that it costs little. */
final class Refusal extends Exception {
    private static final long serialVersionUID = 1;

    static final Refusal CLOSED = new Refusal(ErrorCode.CANCELLED, "the client is closed", "create a new client");
    static final Refusal CANCELLED = new Refusal(
            ErrorCode.CANCELLED, "the caller cancelled it", "repeat the call if its result is still needed");
    static final Refusal QUEUE_TIMEOUT = new Refusal(
            ErrorCode.CLIENT_QUEUE_TIMEOUT,
            "the deadline passed while the request waited in the client's queue",
            "send fewer requests at once, or raise requestsInFlightMax or the deadline");

    /** Maximum size of a request in bytes. No setting of the server changes it. */
    private static final int SERVER_MESSAGE_BYTES_MAX = 10 << 20;

    private final ErrorCode code;
    private final String remedy;

    Refusal(ErrorCode code, String cause, String remedy) {
        super(cause, null, false, false);
        this.code = code;
        this.remedy = remedy;
    }

    static Refusal queueFull(int requests) {
        return new Refusal(
                ErrorCode.CLIENT_QUEUE_FULL,
                requests + " requests wait in the client's queue, which is its maximum",
                "send fewer requests at once, or raise requestsQueuedMax");
    }

    static Refusal badCacheName() {
        return new Refusal(
                ErrorCode.INVALID_ARGUMENT, "the name of the cache is not printable ASCII", "correct the name");
    }

    static Refusal badText(String field) {
        return new Refusal(ErrorCode.INVALID_ARGUMENT,
                "the text of " + field + " has a lone surrogate, which UTF-8 does not express", "correct the text");
    }

    static Refusal requestTooLarge(int bytes, int bytesMax) {
        String remedy = "send less in one call";
        if (bytesMax < SERVER_MESSAGE_BYTES_MAX) {
            remedy += ", or raise messageBytesMax to at most " + SERVER_MESSAGE_BYTES_MAX + " bytes";
        }
        String cause = "the request has " + bytes + " bytes, above the maximum of " + bytesMax + " bytes";
        return new Refusal(ErrorCode.LIMIT_EXCEEDED, cause, remedy);
    }

    CacheError error(String method) {
        return new CacheError(code, "cannot execute " + method, getMessage(), remedy, null);
    }
}
