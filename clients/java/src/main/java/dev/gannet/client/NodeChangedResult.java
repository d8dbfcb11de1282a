package dev.gannet.client;

/** The result of a change of a node. */
public sealed interface NodeChangedResult {
    /**
     * The change was executed. {@code isChanged} is false if the node was so before, or a newer change exists. It may
     * be false after a retry, because an earlier attempt, whose reply was lost, changed the node.
     */
    record Success(boolean isChanged) implements NodeChangedResult {}

    /** The call failed. */
    record Error(CacheError error) implements NodeChangedResult, ErrorResult {}
}
