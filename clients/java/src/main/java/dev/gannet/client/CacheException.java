package dev.gannet.client;

/** A {@link CacheError} that is thrown: by the creation of a client, and by {@link CacheError#toException()}. */
public final class CacheException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient CacheError error;

    CacheException(CacheError error) {
        super(error.message(), error.cause().orElse(null));
        this.error = error;
    }

    /** Returns the error. */
    public CacheError error() {
        return error;
    }
}
