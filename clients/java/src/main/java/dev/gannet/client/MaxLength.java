package dev.gannet.client;

/** The maximum length of a list. A list that would exceed it is cut at the other end. */
public record MaxLength(int elements) implements ListOption {
    /** Checks that the length is at least 1. */
    public MaxLength {
        if (elements < 1) {
            throw new IllegalArgumentException("cannot use MaxLength " + elements + ": it is below 1; pass at least 1");
        }
    }

    /** Returns a maximum length. */
    public static MaxLength of(int elements) {
        return new MaxLength(elements);
    }
}
