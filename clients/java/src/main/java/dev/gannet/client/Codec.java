package dev.gannet.client;

import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;

/** Converts keys, values, fields and elements of a call into bytes. */
@FunctionalInterface
interface Codec<T> {
    /** Text as UTF-8. */
    Codec<String> TEXT = Codec::utf8;

    /** Bytes as they are. */
    Codec<Bytes> BYTES = Bytes::data;

    ByteString encode(T value);

    /**
     * Returns a text as UTF-8.
     *
     * @throws IllegalArgumentException if it has a lone surrogate, of which Java makes the text "?"
     */
    static ByteString utf8(String text) {
        if (!isWellFormed(text)) {
            throw new IllegalArgumentException(
                    "cannot encode text: it has a lone surrogate, which UTF-8 does not express; "
                            + "correct the text, or pass Bytes through binary()");
        }
        return ByteString.copyFrom(text, StandardCharsets.UTF_8);
    }

    /** Returns true if the text has no lone surrogate. */
    static boolean isWellFormed(String text) {
        for (int at = 0; at < text.length(); at++) {
            char unit = text.charAt(at);
            if (!Character.isSurrogate(unit)) {
                continue;
            }
            if (++at == text.length() || !Character.isSurrogatePair(unit, text.charAt(at))) {
                return false;
            }
        }
        return true;
    }
}
