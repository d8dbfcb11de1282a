package dev.gannet.client;

import dev.gannet.v1.RecordChangeRequest;
import java.time.Duration;

/**
 * The conditions and settings of a change of a record. It is immutable; its methods return changed copies:
 *
 * <pre>{@code RecordChange.update().ifRevision(7).withTtl(Duration.ofHours(1))}</pre>
 */
public final class RecordChange {
    private final RecordChangeRequest settings;

    private RecordChange(RecordChangeRequest settings) {
        this.settings = settings;
    }

    private static RecordChange when(RecordChangeRequest.When when) {
        return new RecordChange(RecordChangeRequest.newBuilder().setWhen(when).build());
    }

    /** Returns the change that creates a record or changes the present one. */
    public static RecordChange always() {
        return when(RecordChangeRequest.When.ALWAYS);
    }

    /** Returns the change that fails if there is a record. */
    public static RecordChange create() {
        return when(RecordChangeRequest.When.CREATE);
    }

    /** Returns the change that fails if there is no record. */
    public static RecordChange update() {
        return when(RecordChangeRequest.When.UPDATE);
    }

    /** Returns the change that removes all earlier bins. */
    public static RecordChange replace() {
        return when(RecordChangeRequest.When.REPLACE);
    }

    /** Returns a copy with the condition that the revision is this one; 0 for no record. */
    public RecordChange ifRevision(long revision) {
        return new RecordChange(settings.toBuilder().setIfRevision(revisionOf(revision)).build());
    }

    /** Returns a copy with the condition that the revision is above this one. */
    public RecordChange ifRevisionAbove(long revision) {
        return new RecordChange(settings.toBuilder().setIfRevisionAbove(revisionOf(revision)).build());
    }

    /** Returns a copy that sets the time to live. Without one, a record keeps its own. */
    public RecordChange withTtl(Duration ttl) {
        long milliseconds = Ttl.millisecondsOf(ttl);
        if (milliseconds < 1) {
            throw new IllegalArgumentException("cannot use ttl " + ttl + ": it is below 1 ms; pass at least 1 ms");
        }
        return new RecordChange(settings.toBuilder().setTtlMs(milliseconds).build());
    }

    /** Returns a copy that removes the time to live. */
    public RecordChange persist() {
        return new RecordChange(settings.toBuilder().setPersist(true).build());
    }

    /** Returns a copy that creates the record in this set, and fails if it is in another one. */
    public RecordChange inSet(String set) {
        return new RecordChange(settings.toBuilder().setSet(set).build());
    }

    /** Returns a copy with the condition that the filter is true, or there is no record. */
    public RecordChange withFilter(String filter) {
        return new RecordChange(settings.toBuilder().setFilter(filter).build());
    }

    /** Returns true if the change has no other condition or setting than those of revisions. */
    boolean hasOnlyRevisions() {
        RecordChangeRequest rest = settings.toBuilder().clearIfRevision().clearIfRevisionAbove().build();
        return rest.equals(RecordChangeRequest.getDefaultInstance());
    }

    RecordChangeRequest.Builder request() {
        return settings.toBuilder();
    }

    private static int revisionOf(long revision) {
        if (revision < 0 || revision > 0xffff_ffffL) {
            throw new IllegalArgumentException(
                    "cannot use revision " + revision + ": it is out of range; pass 0 to 4294967295");
        }
        return (int) revision;
    }
}
