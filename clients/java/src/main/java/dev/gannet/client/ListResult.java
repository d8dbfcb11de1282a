package dev.gannet.client;

import java.util.List;

/** The result of a read of a list. */
public sealed interface ListResult {
    /** Elements, in the order of the list. */
    record Hit(List<Bytes> elements) implements ListResult {
        /** Returns the elements as text (UTF-8). */
        public List<String> elementStrings() {
            return elements.stream().map(Bytes::toString).toList();
        }
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements ListResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements ListResult, ErrorResult {}
}
