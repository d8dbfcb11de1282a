package dev.gannet.client;

import dev.gannet.v1.DictionaryDeleteRequest;
import dev.gannet.v1.DictionaryFetchReply;
import dev.gannet.v1.DictionaryGetReply;
import dev.gannet.v1.DictionaryIncrementRequest;
import dev.gannet.v1.DictionarySetRequest;
import dev.gannet.v1.FieldValue;
import dev.gannet.v1.FieldsRequest;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** The calls on dictionaries. */
abstract class DictionaryCalls<T> extends ConditionalCalls<T> {
    DictionaryCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Returns the value of one field. */
    public CompletableFuture<GetResult> dictionaryGetField(String cache, T key, T field) {
        FieldsRequest request = FieldsRequest.newBuilder().setKey(bytes(key)).addFields(bytes(field)).build();
        return unary(Methods.DICTIONARY_GET, cache, request, reply -> {
            List<GetResult> results = fieldsOf(reply, 1);
            return results == null ? GetResult.Miss.INSTANCE : results.get(0);
        }, GetResult.Error::new);
    }

    /** Returns the values of several fields, in their order. */
    public CompletableFuture<DictionaryFieldsResult> dictionaryGetFields(
            String cache, T key, Collection<? extends T> fields) {
        FieldsRequest request = FieldsRequest.newBuilder().setKey(bytes(key)).addAllFields(all(fields)).build();
        int count = request.getFieldsCount();
        return unary(Methods.DICTIONARY_GET, cache, request, reply -> {
            List<GetResult> results = fieldsOf(reply, count);
            return results == null ? DictionaryFieldsResult.Miss.INSTANCE : new DictionaryFieldsResult.Hit(results);
        }, DictionaryFieldsResult.Error::new);
    }

    /** Returns one result for each field, or null if the dictionary does not exist. */
    private static List<GetResult> fieldsOf(DictionaryGetReply reply, int count) {
        return switch (reply.getReplyCase()) {
            case FOUND -> {
                checkCount(reply.getFound().getItemsCount(), count);
                yield reply.getFound().getItemsList().stream().map(ItemCalls::getResult).toList();
            }
            case MISSING -> null;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Returns all fields with their values. */
    public CompletableFuture<DictionaryResult> dictionaryFetch(String cache, T key) {
        return unary(Methods.DICTIONARY_FETCH, cache, keyOf(key), DictionaryCalls::fetchResult,
                DictionaryResult.Error::new);
    }

    private static DictionaryResult fetchResult(DictionaryFetchReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> {
                Map<Bytes, Bytes> fields = new HashMap<>();
                for (FieldValue each : reply.getFound().getItemsList()) {
                    fields.put(new Bytes(each.getField()), new Bytes(each.getValue()));
                }
                yield new DictionaryResult.Hit(fields);
            }
            case MISSING -> DictionaryResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Sets one field. */
    public CompletableFuture<DoneResult> dictionarySetField(
            String cache, T key, T field, T value, CollectionOption... options) {
        return dictionarySetFields(cache, key, Map.of(field, value), options);
    }

    /** Sets several fields. */
    public CompletableFuture<DoneResult> dictionarySetFields(
            String cache, T key, Map<? extends T, ? extends T> fields, CollectionOption... options) {
        Options all = optionsOf(options);
        DictionarySetRequest.Builder request = DictionarySetRequest.newBuilder()
                .setKey(bytes(key)).setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed());
        fields.forEach((field, value) ->
                request.addItems(FieldValue.newBuilder().setField(bytes(field)).setValue(bytes(value))));
        return done(Methods.DICTIONARY_SET, cache, request.build());
    }

    /** Adds to the decimal number in a field, and returns the sum. A field that does not exist counts as 0. */
    public CompletableFuture<IncrementResult> dictionaryIncrement(
            String cache, T key, T field, long amount, CollectionOption... options) {
        Options all = optionsOf(options);
        DictionaryIncrementRequest request = DictionaryIncrementRequest.newBuilder()
                .setKey(bytes(key)).setField(bytes(field)).setAmount(amount)
                .setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed()).build();
        return unary(Methods.DICTIONARY_INCREMENT, cache, request,
                reply -> new IncrementResult.Success(reply.getValue()), IncrementResult.Error::new);
    }

    /** Removes several fields. A field that does not exist is no error. */
    public CompletableFuture<DoneResult> dictionaryRemoveFields(
            String cache, T key, Collection<? extends T> fields) {
        DictionaryDeleteRequest.Fields some =
                DictionaryDeleteRequest.Fields.newBuilder().addAllFields(all(fields)).build();
        return done(Methods.DICTIONARY_DELETE, cache,
                DictionaryDeleteRequest.newBuilder().setKey(bytes(key)).setSome(some).build());
    }

    /** Removes all fields, and with them the dictionary. An item of another type is an error. */
    public CompletableFuture<DoneResult> dictionaryDelete(String cache, T key) {
        return done(Methods.DICTIONARY_DELETE, cache,
                DictionaryDeleteRequest.newBuilder().setKey(bytes(key)).setAll(YES).build());
    }

    /** Returns the number of fields. */
    public CompletableFuture<LengthResult> dictionaryLength(String cache, T key) {
        return length(Methods.DICTIONARY_LENGTH, cache, keyOf(key));
    }
}
