package dev.gannet.client;

/** The result of a call that returns one value. */
public sealed interface GetResult {
    /** A value. */
    record Hit(Bytes value) implements GetResult {
        /** Returns the value as text (UTF-8). */
        public String valueString() {
            return value.toString();
        }
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements GetResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements GetResult, ErrorResult {}
}
