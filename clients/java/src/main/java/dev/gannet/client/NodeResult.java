package dev.gannet.client;

/** The result of a read of the object of a node. */
public sealed interface NodeResult {
    /** The object of the node. */
    record Hit(NodeObject object) implements NodeResult {}

    /** The node has no object. It may have edges. */
    record Miss() implements NodeResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements NodeResult, ErrorResult {}
}
