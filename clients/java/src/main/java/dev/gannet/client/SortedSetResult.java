package dev.gannet.client;

import java.util.List;

/** The result of a read of a sorted set. */
public sealed interface SortedSetResult {
    /** Elements with their scores, in the order of the call. */
    record Hit(List<Scored> elements) implements SortedSetResult {}

    /** An element with its score. */
    record Scored(Bytes element, double score) {
        /** Returns the element as text (UTF-8). */
        public String elementString() {
            return element.toString();
        }
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements SortedSetResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements SortedSetResult, ErrorResult {}
}
