package dev.gannet.client;

/** The result of a call that returns the number of elements of a collection. */
public sealed interface LengthResult {
    /** The number of elements. */
    record Hit(int length) implements LengthResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements LengthResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements LengthResult, ErrorResult {}
}
