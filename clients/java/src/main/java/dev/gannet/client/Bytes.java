package dev.gannet.client;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Immutable bytes: a key, a value, a field or an element. */
public final class Bytes implements Comparable<Bytes> {
    private final ByteString data;

    Bytes(ByteString data) {
        this.data = data;
    }

    /** Returns a copy of these bytes. */
    public static Bytes of(byte... data) {
        return new Bytes(ByteString.copyFrom(data));
    }

    /**
     * Returns a text as UTF-8.
     *
     * @throws IllegalArgumentException if it has a lone surrogate
     */
    public static Bytes of(String text) {
        return new Bytes(Codec.utf8(text));
    }

    /** Returns the number of bytes. */
    public int size() {
        return data.size();
    }

    /** Returns a copy of the bytes. */
    public byte[] toByteArray() {
        return data.toByteArray();
    }

    /** Returns a view of the bytes, without a copy. */
    public ByteBuffer asReadOnlyByteBuffer() {
        return data.asReadOnlyByteBuffer();
    }

    /** Returns true if the bytes begin with these. */
    public boolean startsWith(Bytes prefix) {
        return data.startsWith(prefix.data);
    }

    ByteString data() {
        return data;
    }

    /** Compares the bytes as numbers from 0 to 255, the first difference first. */
    @Override
    public int compareTo(Bytes other) {
        return ByteString.unsignedLexicographicalComparator().compare(data, other.data);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Bytes bytes && data.equals(bytes.data);
    }

    @Override
    public int hashCode() {
        return data.hashCode();
    }

    /** Returns the bytes as text (UTF-8). Bytes that are no UTF-8 become U+FFFD. */
    @Override
    public String toString() {
        return data.toString(StandardCharsets.UTF_8);
    }
}
