package dev.gannet.client;

import java.util.List;

/**
 * A choice of bins and records. It is immutable; its methods return changed copies.
 *
 * @param filter the condition of each record, such as {@code visits > 0}; empty for all
 * @param bins the names of the bins; empty for all
 * @param cursor that of the last page; empty for the first page
 * @param countMax the maximum number of records of a page; 0 for the server's default
 */
public record RecordSelection(String filter, List<String> bins, String cursor, int countMax) {
    /** Returns the choice of everything. */
    public static RecordSelection all() {
        return new RecordSelection("", List.of(), "", 0);
    }

    /** Returns a copy with the records for which this filter is true. */
    public RecordSelection withFilter(String expression) {
        return new RecordSelection(expression, bins, cursor, countMax);
    }

    /** Returns a copy with these bins alone. */
    public RecordSelection withBins(String... names) {
        return new RecordSelection(filter, List.of(names), cursor, countMax);
    }

    /** Returns a copy that begins at the cursor of the last page. */
    public RecordSelection after(String lastCursor) {
        return new RecordSelection(filter, bins, lastCursor, countMax);
    }

    /** Returns a copy with at most this number of records for each page. */
    public RecordSelection withCountMax(int records) {
        return new RecordSelection(filter, bins, cursor, records);
    }
}
