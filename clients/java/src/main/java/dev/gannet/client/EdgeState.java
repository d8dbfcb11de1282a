package dev.gannet.client;

/** The state of an edge. */
public enum EdgeState {
    /** There is no edge. As an argument of a query, it stands for live edges. */
    ABSENT,
    /** The edge exists. */
    LIVE,
    /** The edge has the second colour, such as a block. */
    NEGATIVE,
    /** The edge is hidden until it is restored. */
    ARCHIVED,
    /** The edge was removed; its time is still known. */
    REMOVED
}
