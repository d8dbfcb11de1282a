package dev.gannet.client;

import com.google.protobuf.Message;
import dev.gannet.v1.ElementsReply;
import dev.gannet.v1.ListConcatenateRequest;
import dev.gannet.v1.ListFetchRequest;
import dev.gannet.v1.ListLengthReply;
import dev.gannet.v1.ListPopReply;
import dev.gannet.v1.ListPushRequest;
import dev.gannet.v1.ListRemoveRequest;
import dev.gannet.v1.ListRetainRequest;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** The calls on lists. */
abstract class ListCalls<T> extends SetCalls<T> {
    ListCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Adds an element at the front, and returns the length of the list. Above {@link MaxLength}, the back is cut. */
    public CompletableFuture<ListLengthResult> listPushFront(
            String cache, T key, T value, ListOption... options) {
        return listLengthOf(Methods.LIST_PUSH_FRONT, cache, push(key, value, options));
    }

    /**
     * Adds elements at the front, in their order, and returns the length of the list. A list above {@link MaxLength} is
     * cut at the back.
     */
    public CompletableFuture<ListLengthResult> listConcatenateFront(
            String cache, T key, Collection<? extends T> values, ListOption... options) {
        return listLengthOf(Methods.LIST_CONCATENATE_FRONT, cache, concatenate(key, values, options));
    }

    /** Removes the first element and returns it. */
    public CompletableFuture<ListPopResult> listPopFront(String cache, T key) {
        return unary(Methods.LIST_POP_FRONT, cache, keyOf(key), ListCalls::popResult, ListPopResult.Error::new);
    }

    /** Adds an element at the back, and returns the length of the list. Above {@link MaxLength}, the front is cut. */
    public CompletableFuture<ListLengthResult> listPushBack(
            String cache, T key, T value, ListOption... options) {
        return listLengthOf(Methods.LIST_PUSH_BACK, cache, push(key, value, options));
    }

    /**
     * Adds elements at the back, in their order, and returns the length of the list. A list above {@link MaxLength} is
     * cut at the front.
     */
    public CompletableFuture<ListLengthResult> listConcatenateBack(
            String cache, T key, Collection<? extends T> values, ListOption... options) {
        return listLengthOf(Methods.LIST_CONCATENATE_BACK, cache, concatenate(key, values, options));
    }

    /** Removes the last element and returns it. */
    public CompletableFuture<ListPopResult> listPopBack(String cache, T key) {
        return unary(Methods.LIST_POP_BACK, cache, keyOf(key), ListCalls::popResult, ListPopResult.Error::new);
    }


    private ListPushRequest push(T key, T value, ListOption... options) {
        Options all = optionsOf(options);
        return ListPushRequest.newBuilder().setKey(bytes(key)).setValue(bytes(value))
                .setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed()).setLengthMax(all.lengthMax()).build();
    }

    private ListConcatenateRequest concatenate(T key, Collection<? extends T> values, ListOption... options) {
        Options all = optionsOf(options);
        return ListConcatenateRequest.newBuilder().setKey(bytes(key)).addAllValues(all(values))
                .setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed()).setLengthMax(all.lengthMax()).build();
    }

    private <Q extends Message> CompletableFuture<ListLengthResult> listLengthOf(
            Method<Q, ListLengthReply> method, String cache, Q request) {
        return unary(method, cache, request, reply -> new ListLengthResult.Success(reply.getLength()),
                ListLengthResult.Error::new);
    }

    private static ListPopResult popResult(ListPopReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> new ListPopResult.Hit(new Bytes(reply.getFound().getValue()), reply.getFound().getLength());
            case MISSING -> ListPopResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Removes all elements that are equal to {@code value}, and returns the length of the rest. */
    public CompletableFuture<LengthResult> listRemoveValue(String cache, T key, T value) {
        return length(Methods.LIST_REMOVE, cache,
                ListRemoveRequest.newBuilder().setKey(bytes(key)).setValue(bytes(value)).build());
    }

    /** Returns all elements. */
    public CompletableFuture<ListResult> listFetch(String cache, T key) {
        return listFetch(cache, key, Range.all());
    }

    /** Returns the elements in a range. {@code Range.from(-2)} has the last two. */
    public CompletableFuture<ListResult> listFetch(String cache, T key, Range range) {
        ListFetchRequest.Builder request = ListFetchRequest.newBuilder().setKey(bytes(key));
        range.first().ifPresentOrElse(request::setFirst, () -> request.setUnboundedStart(YES));
        range.end().ifPresentOrElse(request::setEnd, () -> request.setUnboundedEnd(YES));
        return unary(Methods.LIST_FETCH, cache, request.build(), ListCalls::listResultOf, ListResult.Error::new);
    }

    private static ListResult listResultOf(ElementsReply reply) {
        List<Bytes> elements = elementsOf(reply);
        return elements == null ? ListResult.Miss.INSTANCE : new ListResult.Hit(elements);
    }

    /** Removes all elements outside of a range, and returns the length of the rest. */
    public CompletableFuture<LengthResult> listRetain(
            String cache, T key, Range range, CollectionOption... options) {
        Options all = optionsOf(options);
        ListRetainRequest.Builder request = ListRetainRequest.newBuilder().setKey(bytes(key))
                .setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed());
        range.first().ifPresentOrElse(request::setFirst, () -> request.setUnboundedStart(YES));
        range.end().ifPresentOrElse(request::setEnd, () -> request.setUnboundedEnd(YES));
        return length(Methods.LIST_RETAIN, cache, request.build());
    }

    /** Returns the number of elements. */
    public CompletableFuture<LengthResult> listLength(String cache, T key) {
        return length(Methods.LIST_LENGTH, cache, keyOf(key));
    }
}
