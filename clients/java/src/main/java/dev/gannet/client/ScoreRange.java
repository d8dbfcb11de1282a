package dev.gannet.client;

import java.util.Optional;

/**
 * An immutable range of scores. Its methods return changed copies:
 *
 * <pre>{@code ScoreRange.all().from(1.5).below(10).withCount(100)}</pre>
 */
public final class ScoreRange {
    /** One end of a range. */
    record Bound(double score, boolean isExclusive) {}

    private static final ScoreRange ALL = new ScoreRange(Optional.empty(), Optional.empty(), 0, 0);

    private final Optional<Bound> least;
    private final Optional<Bound> greatest;
    private final int offset;
    private final int count;

    private ScoreRange(Optional<Bound> least, Optional<Bound> greatest, int offset, int count) {
        this.least = least;
        this.greatest = greatest;
        this.offset = offset;
        this.count = count;
    }

    /** Returns the range of all scores. */
    public static ScoreRange all() {
        return ALL;
    }

    /** Returns a copy with the scores from this one. */
    public ScoreRange from(double score) {
        return new ScoreRange(Optional.of(new Bound(score, false)), greatest, offset, count);
    }

    /** Returns a copy with the scores above this one. */
    public ScoreRange above(double score) {
        return new ScoreRange(Optional.of(new Bound(score, true)), greatest, offset, count);
    }

    /** Returns a copy with the scores up to this one. */
    public ScoreRange to(double score) {
        return new ScoreRange(least, Optional.of(new Bound(score, false)), offset, count);
    }

    /** Returns a copy with the scores below this one. */
    public ScoreRange below(double score) {
        return new ScoreRange(least, Optional.of(new Bound(score, true)), offset, count);
    }

    /** Returns a copy without this number of elements at the start. */
    public ScoreRange withOffset(int elements) {
        return new ScoreRange(least, greatest, atLeastZero("offset", elements), count);
    }

    /** Returns a copy with at most this number of elements; 0 stands for all. */
    public ScoreRange withCount(int elements) {
        return new ScoreRange(least, greatest, offset, atLeastZero("count", elements));
    }

    private static int atLeastZero(String name, int elements) {
        if (elements < 0) {
            throw new IllegalArgumentException(
                    "cannot use " + name + " " + elements + ": it is negative; pass at least 0");
        }
        return elements;
    }

    Optional<Bound> least() {
        return least;
    }

    Optional<Bound> greatest() {
        return greatest;
    }

    int offset() {
        return offset;
    }

    int count() {
        return count;
    }
}
