package dev.gannet.client;

import java.util.List;

/** The result of a read of several scores. */
public sealed interface ScoresResult {
    /** One hit or miss for each element, in the order of the call. */
    record Hit(List<ScoreResult> results) implements ScoresResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements ScoresResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements ScoresResult, ErrorResult {}
}
