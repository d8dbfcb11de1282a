package dev.gannet.client;

import com.google.protobuf.ByteString;
import dev.gannet.v1.Bin;
import dev.gannet.v1.Record;
import dev.gannet.v1.RecordChangeRequest;
import dev.gannet.v1.RecordDeleteRequest;
import dev.gannet.v1.RecordGetReply;
import dev.gannet.v1.RecordGetRequest;
import dev.gannet.v1.RecordPage;
import dev.gannet.v1.RecordQueryRequest;
import dev.gannet.v1.RecordRevision;
import dev.gannet.v1.RecordScanRequest;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** The calls on records: named bins with types, revisions and filters. */
abstract class RecordCalls<T> extends LeaderboardCalls<T> {
    RecordCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Returns a record with all bins. */
    public CompletableFuture<RecordResult> recordGet(String cache, T key) {
        return recordGet(cache, key, RecordSelection.all());
    }

    /** Returns a record with the chosen bins: a miss if there is none, or the filter is false. */
    public CompletableFuture<RecordResult> recordGet(String cache, T key, RecordSelection selection) {
        RecordGetRequest request = RecordGetRequest.newBuilder().setKey(bytes(key)).setFilter(selection.filter())
                .addAllBins(names(selection)).build();
        return unary(Methods.RECORD_GET, cache, request, reply -> recordResult(reply, request.getKey()),
                RecordResult.Error::new);
    }

    private static List<ByteString> names(RecordSelection selection) {
        return selection.bins().stream().map(Codec::utf8).toList();
    }

    /** Returns the result of a read of this key, which the reply does not repeat. */
    private static RecordResult recordResult(RecordGetReply reply, ByteString key) {
        return switch (reply.getReplyCase()) {
            case FOUND -> new RecordResult.Hit(recordOf(reply.getFound().toBuilder().setKey(key).build()));
            case MISSING -> RecordResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    private static StoredRecord recordOf(Record message) {
        Map<String, BinValue> bins = new LinkedHashMap<>();
        message.getBinsList().forEach(
                each -> bins.put(each.getName().toStringUtf8(), BinMessages.valueOf(each.getValue())));
        long expires = message.getExpiresAtMs();
        return new StoredRecord(new Bytes(message.getKey()), Integer.toUnsignedLong(message.getRevision()),
                expires == 0 ? Optional.empty() : Optional.of(Instant.ofEpochMilli(expires)), bins);
    }

    /** Sets bins, and returns the revision. Other bins stay. */
    public CompletableFuture<RevisionResult> recordPut(
            String cache, T key, Map<String, BinValue> bins, RecordChange change) {
        return change(Methods.RECORD_PUT, cache, key, bins, change);
    }

    /** Adds to numbers, and returns the revision. A bin that does not exist counts as 0. */
    public CompletableFuture<RevisionResult> recordAdd(
            String cache, T key, Map<String, BinValue> bins, RecordChange change) {
        return change(Methods.RECORD_ADD, cache, key, bins, change);
    }

    /** Appends to texts and bytes, and returns the revision. */
    public CompletableFuture<RevisionResult> recordAppend(
            String cache, T key, Map<String, BinValue> bins, RecordChange change) {
        return change(Methods.RECORD_APPEND, cache, key, bins, change);
    }

    /** Changes the time to live and the revision alone, and returns the revision. */
    public CompletableFuture<RevisionResult> recordTouch(String cache, T key, RecordChange change) {
        return change(Methods.RECORD_TOUCH, cache, key, Map.of(), change);
    }

    private CompletableFuture<RevisionResult> change(
            Method<RecordChangeRequest, RecordRevision> method, String cache, T key, Map<String, BinValue> bins,
            RecordChange change) {
        RecordChangeRequest.Builder request = change.request().setKey(bytes(key));
        bins.forEach((name, value) -> request.addBins(
                Bin.newBuilder().setName(Codec.utf8(name)).setValue(BinMessages.messageOf(value))));
        return unary(method, cache, request.build(),
                reply -> new RevisionResult.Success(Integer.toUnsignedLong(reply.getRevision())),
                RevisionResult.Error::new);
    }

    /** Deletes a record: success, or a miss if there is none. */
    public CompletableFuture<FoundResult> recordDelete(String cache, T key) {
        return recordDelete(cache, key, RecordChange.always());
    }

    /**
     * Deletes a record if its revision is as the change names: success, or a miss if there is none. A deletion has no
     * other condition or setting.
     *
     * @throws IllegalArgumentException if the change has another one than those of revisions
     */
    public CompletableFuture<FoundResult> recordDelete(String cache, T key, RecordChange change) {
        RecordDeleteRequest.Builder request = RecordDeleteRequest.newBuilder().setKey(bytes(key));
        RecordChangeRequest.Builder conditions = change.request();
        if (!change.hasOnlyRevisions()) {
            throw new IllegalArgumentException(
                    "cannot delete record: the change has more than conditions on the revision; "
                            + "read the record, and pass RecordChange.always().ifRevision(REVISION)");
        }
        if (conditions.hasIfRevision()) {
            request.setIfRevision(conditions.getIfRevision());
        }
        if (conditions.hasIfRevisionAbove()) {
            request.setIfRevisionAbove(conditions.getIfRevisionAbove());
        }
        return unary(Methods.RECORD_DELETE, cache, request.build(),
                reply -> reply.getFound() ? FoundResult.Success.INSTANCE : FoundResult.Miss.INSTANCE,
                FoundResult.Error::new);
    }

    /** Returns a page of the records of a set. */
    public CompletableFuture<RecordPageResult> recordScan(String cache, String set, RecordSelection selection) {
        RecordScanRequest request = RecordScanRequest.newBuilder().setSet(set).setCursor(selection.cursor())
                .setCountMax(selection.countMax()).setFilter(selection.filter()).addAllBins(names(selection)).build();
        return unary(Methods.RECORD_SCAN, cache, request, RecordCalls::pageResult, RecordPageResult.Error::new);
    }

    /** Returns a page of the records of a set whose bin, which has an index, has this value. */
    public CompletableFuture<RecordPageResult> recordQuery(
            String cache, String set, String bin, BinValue equal, RecordSelection selection) {
        return query(cache, selection, query(set, bin).setEqual(BinMessages.messageOf(equal)));
    }

    /** Returns a page of the records of a set whose bin, which has an index, has a value between these two. */
    public CompletableFuture<RecordPageResult> recordQuery(
            String cache, String set, String bin, BinValue least, BinValue greatest, RecordSelection selection) {
        return query(cache, selection, query(set, bin)
                .setLeast(BinMessages.messageOf(least)).setGreatest(BinMessages.messageOf(greatest)));
    }

    private static RecordQueryRequest.Builder query(String set, String bin) {
        return RecordQueryRequest.newBuilder().setSet(set).setBin(Codec.utf8(bin));
    }

    private CompletableFuture<RecordPageResult> query(
            String cache, RecordSelection selection, RecordQueryRequest.Builder request) {
        request.setCursor(selection.cursor()).setCountMax(selection.countMax()).setFilter(selection.filter())
                .addAllBins(names(selection));
        return unary(Methods.RECORD_QUERY, cache, request.build(), RecordCalls::pageResult,
                RecordPageResult.Error::new);
    }

    private static RecordPageResult pageResult(RecordPage reply) {
        return new RecordPageResult.Success(
                reply.getRecordsList().stream().map(RecordCalls::recordOf).toList(), reply.getCursor());
    }
}
