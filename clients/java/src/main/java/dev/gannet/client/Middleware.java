package dev.gannet.client;

/** Code of the user that runs before and after each call. */
public interface Middleware {
    /**
     * Runs when a call begins, on the thread of the caller, before the call waits in the client's queue. It must not
     * block.
     *
     * @return an object for {@link #after}, such as a span; it may be null
     */
    Object before(CallStart start);

    /**
     * Runs when a call has ended, before its future completes. Its place in flight is already free.
     *
     * @param context the object that {@link #before} returned
     */
    void after(CallEnd end, Object context);
}
