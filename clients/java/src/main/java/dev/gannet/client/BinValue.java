package dev.gannet.client;

import java.util.List;
import java.util.Map;

/** A value of a bin of a record. */
public sealed interface BinValue {
    /** A whole number. */
    record Int(long value) implements BinValue {}

    /** A number with a fraction. */
    record Number(double value) implements BinValue {}

    /** A truth value. */
    record Bool(boolean value) implements BinValue {}

    /** A text. */
    record Text(String value) implements BinValue {}

    /** Bytes. */
    record Binary(Bytes value) implements BinValue {}

    /** A list of values. */
    record Values(List<BinValue> values) implements BinValue {}

    /** A map of values. */
    record Entries(Map<Bytes, BinValue> entries) implements BinValue {}

    /** Returns a whole number. */
    static BinValue of(long value) {
        return new Int(value);
    }

    /** Returns a number with a fraction. */
    static BinValue of(double value) {
        return new Number(value);
    }

    /** Returns a truth value. */
    static BinValue of(boolean value) {
        return new Bool(value);
    }

    /** Returns a text. */
    static BinValue of(String value) {
        return new Text(value);
    }

    /** Returns bytes. */
    static BinValue of(Bytes value) {
        return new Binary(value);
    }

    /** Returns a list of values. */
    static BinValue of(List<BinValue> values) {
        return new Values(values);
    }
}
