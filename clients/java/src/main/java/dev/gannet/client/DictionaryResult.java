package dev.gannet.client;

import java.util.HashMap;
import java.util.Map;

/** The result of a read of a whole dictionary. */
public sealed interface DictionaryResult {
    /** All fields with their values. */
    record Hit(Map<Bytes, Bytes> fields) implements DictionaryResult {
        /** Returns the fields with their values as text (UTF-8). */
        public Map<String, String> fieldStrings() {
            Map<String, String> texts = new HashMap<>();
            fields.forEach((field, value) -> texts.put(field.toString(), value.toString()));
            return texts;
        }
    }

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements DictionaryResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements DictionaryResult, ErrorResult {}
}
