package dev.gannet.client;

/** A reply that contradicts the schema. */
final class BadReplyException extends RuntimeException {
    private static final long serialVersionUID = 1;

    BadReplyException(String cause) {
        super(cause);
    }

    static BadReplyException empty() {
        return new BadReplyException("the reply is empty");
    }

    /** Returns the exception of a reply that could not be read because of another exception. */
    static BadReplyException unreadable(RuntimeException cause) {
        BadReplyException exception = new BadReplyException("the reply cannot be read: " + cause);
        exception.initCause(cause);
        return exception;
    }

    CacheError error(String method) {
        return new CacheError(
                ErrorCode.INTERNAL, "cannot execute " + method, getMessage(),
                "use a server and a client of one version", this);
    }
}
