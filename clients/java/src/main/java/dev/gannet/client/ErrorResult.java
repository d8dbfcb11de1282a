package dev.gannet.client;

/** A result that shows that the call failed. Every {@code Error} of the results implements it. */
public interface ErrorResult {
    /** Returns the error. */
    CacheError error();

    /** Returns the kind of the error. */
    default ErrorCode code() {
        return error().code();
    }

    /** Returns one sentence for people: cannot VERB OBJECT: CAUSE; REMEDY. */
    default String message() {
        return error().message();
    }
}
