package dev.gannet.client;

/** The result of a get with the hash of the value. */
public sealed interface GetWithHashResult {
    /** A value and its hash, which a later conditional set can name. */
    record Hit(Bytes value, Bytes hash) implements GetWithHashResult {
        /** Returns the value as text (UTF-8). */
        public String valueString() {
            return value.toString();
        }
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements GetWithHashResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements GetWithHashResult, ErrorResult {}
}
