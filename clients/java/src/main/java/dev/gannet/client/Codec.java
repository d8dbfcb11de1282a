package dev.gannet.client;

import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;

/** Converts keys, values, fields and elements of a call into bytes. */
@FunctionalInterface
interface Codec<T> {
    /** Text as UTF-8. */
    Codec<String> TEXT = text -> ByteString.copyFrom(text, StandardCharsets.UTF_8);

    /** Bytes as they are. */
    Codec<Bytes> BYTES = Bytes::data;

    ByteString encode(T value);
}
