package dev.gannet.client;

import java.util.OptionalInt;

/**
 * A range of indexes or ranks: from {@code first} to before {@code end}. A negative index counts from the end of the
 * collection. Without {@code first}, the range begins at the start of the collection; without {@code end}, it extends
 * to its end.
 */
public record Range(OptionalInt first, OptionalInt end) {
    /** Returns the range of all elements. */
    public static Range all() {
        return new Range(OptionalInt.empty(), OptionalInt.empty());
    }

    /** Returns the range from this index to the end of the collection. */
    public static Range from(int first) {
        return new Range(OptionalInt.of(first), OptionalInt.empty());
    }

    /** Returns the range from the start of the collection to before this index. */
    public static Range before(int end) {
        return new Range(OptionalInt.empty(), OptionalInt.of(end));
    }

    /** Returns the range from index {@code first} to before index {@code end}. */
    public static Range between(int first, int end) {
        return new Range(OptionalInt.of(first), OptionalInt.of(end));
    }
}
