package dev.gannet.client;

/** An operation on the lists of several nodes. */
public enum CombineOperation {
    /** The nodes that are in all lists. */
    INTERSECTION,
    /** The nodes that are in at least one list. */
    UNION,
    /** The nodes of the first list that are in no other one. */
    DIFFERENCE
}
