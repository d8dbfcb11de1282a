package dev.gannet.client;

import java.util.List;

/** The result of a check of several keys. */
public sealed interface KeysExistResult {
    /** One boolean for each key, in the order of the keys. */
    record Success(List<Boolean> exists) implements KeysExistResult {}

    /** The call failed. */
    record Error(CacheError error) implements KeysExistResult, ErrorResult {}
}
