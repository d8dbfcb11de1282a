package dev.gannet.client;

import java.util.List;

/** The result of a read of several fields of a dictionary. */
public sealed interface DictionaryFieldsResult {
    /** One hit or miss for each field, in the order of the call. */
    record Hit(List<GetResult> results) implements DictionaryFieldsResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements DictionaryFieldsResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements DictionaryFieldsResult, ErrorResult {}
}
