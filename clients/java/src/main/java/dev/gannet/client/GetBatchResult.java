package dev.gannet.client;

import java.util.List;

/** The result of a batch of gets. */
public sealed interface GetBatchResult {
    /** One hit or miss for each key, in the order of the keys. */
    record Success(List<GetResult> results) implements GetBatchResult {}

    /** The call failed. */
    record Error(CacheError error) implements GetBatchResult, ErrorResult {}
}
