package dev.gannet.client;

import java.util.List;

/** The result of a read of several records. */
public sealed interface RecordPageResult {
    /** A page of records. {@code cursor} begins the next page; it is empty after the last one. */
    record Success(List<StoredRecord> records, String cursor) implements RecordPageResult {}

    /** The call failed. */
    record Error(CacheError error) implements RecordPageResult, ErrorResult {}
}
