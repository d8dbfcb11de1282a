package dev.gannet.client;

import java.util.List;

/** The result of a list of all caches. */
public sealed interface ListCachesResult {
    /** The names of all caches. */
    record Success(List<String> names) implements ListCachesResult {}

    /** The call failed. */
    record Error(CacheError error) implements ListCachesResult, ErrorResult {}
}
