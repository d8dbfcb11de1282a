package dev.gannet.client;

import java.util.Optional;

/** The reason why a call failed, or why a client cannot be created. */
public final class CacheError {
    private final ErrorCode code;
    private final String message;
    private final String remedy;
    private final Throwable cause;

    CacheError(ErrorCode code, String action, String cause, String remedy, Throwable thrown) {
        this.code = code;
        this.message = action + ": " + cause + "; " + remedy;
        this.remedy = remedy;
        this.cause = thrown;
    }

    /** Returns the kind of the error. */
    public ErrorCode code() {
        return code;
    }

    /** Returns one sentence for people: cannot VERB OBJECT: CAUSE; REMEDY. */
    public String message() {
        return message;
    }

    /** Returns the end of the message: an action that avoids the error. */
    public String remedy() {
        return remedy;
    }

    /** Returns true if the same call may succeed later. A call that is not idempotent may have been executed. */
    public boolean isRetryable() {
        return code.isRetryable();
    }

    /** Returns the error of gRPC or of the system, if there is one. */
    public Optional<Throwable> cause() {
        return Optional.ofNullable(cause);
    }

    /** Returns an exception with this error, for callers that throw it. */
    public CacheException toException() {
        return new CacheException(this);
    }

    @Override
    public String toString() {
        return code + ": " + message;
    }
}
