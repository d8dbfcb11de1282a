package dev.gannet.client;

/** The result of a read of an item's type. */
public sealed interface TypeResult {
    /** The type. */
    record Hit(ItemType type) implements TypeResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements TypeResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements TypeResult, ErrorResult {}
}
