package dev.gannet.client;

import java.util.List;

/** The result of a check of several elements of a set. */
public sealed interface ContainsResult {
    /** One boolean for each element, in the order of the call. */
    record Hit(List<Boolean> contained) implements ContainsResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements ContainsResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements ContainsResult, ErrorResult {}
}
