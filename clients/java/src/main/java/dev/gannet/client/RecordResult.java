package dev.gannet.client;

/** The result of a read of a record. */
public sealed interface RecordResult {
    /** The record. */
    record Hit(StoredRecord stored) implements RecordResult {}

    /** The item does not exist. */
    record Miss() implements RecordResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements RecordResult, ErrorResult {}
}
