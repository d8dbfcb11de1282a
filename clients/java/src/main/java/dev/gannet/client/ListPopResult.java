package dev.gannet.client;

/** The result of a removal from an end of a list. */
public sealed interface ListPopResult {
    /** The removed element, and the length of the list without it. */
    record Hit(Bytes value, int length) implements ListPopResult {
        /** Returns the element as text (UTF-8). */
        public String valueString() {
            return value.toString();
        }
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements ListPopResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements ListPopResult, ErrorResult {}
}
