package dev.gannet.client;

import java.util.Set;
import java.util.stream.Collectors;

/** The result of a read of a set. */
public sealed interface SetResult {
    /** Elements, in no order. */
    record Hit(Set<Bytes> elements) implements SetResult {
        /** Returns the elements as text (UTF-8). */
        public Set<String> elementStrings() {
            return elements.stream().map(Bytes::toString).collect(Collectors.toSet());
        }
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements SetResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements SetResult, ErrorResult {}
}
