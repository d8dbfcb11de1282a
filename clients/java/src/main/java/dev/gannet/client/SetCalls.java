package dev.gannet.client;

import dev.gannet.v1.CountRequest;
import dev.gannet.v1.ElementsReply;
import dev.gannet.v1.FieldsRequest;
import dev.gannet.v1.FoundReply;
import dev.gannet.v1.SetContainsReply;
import dev.gannet.v1.SetDifferenceRequest;
import dev.gannet.v1.SetUnionRequest;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** The calls on sets. */
abstract class SetCalls<T> extends DictionaryCalls<T> {
    SetCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Returns all elements. */
    public CompletableFuture<SetResult> setFetch(String cache, T key) {
        return unary(Methods.SET_FETCH, cache, keyOf(key), SetCalls::setResultOf, SetResult.Error::new);
    }

    /** Returns at most {@code count} random elements. */
    public CompletableFuture<SetResult> setSample(String cache, T key, long count) {
        return unary(Methods.SET_SAMPLE, cache, countRequest(key, count), SetCalls::setResultOf, SetResult.Error::new);
    }

    /** Removes at most {@code count} random elements, and returns them. */
    public CompletableFuture<SetResult> setPop(String cache, T key, long count) {
        return unary(Methods.SET_POP, cache, countRequest(key, count), SetCalls::setResultOf, SetResult.Error::new);
    }

    private CountRequest countRequest(T key, long count) {
        if (count < 0) {
            throw new IllegalArgumentException("cannot use count " + count + ": it is negative; pass at least 0");
        }
        return CountRequest.newBuilder().setKey(bytes(key)).setCount(count).build();
    }

    private static SetResult setResultOf(ElementsReply reply) {
        List<Bytes> elements = elementsOf(reply);
        return elements == null ? SetResult.Miss.INSTANCE : new SetResult.Hit(new HashSet<>(elements));
    }

    /** Adds elements. */
    public CompletableFuture<DoneResult> setAddElements(
            String cache, T key, Collection<? extends T> elements, CollectionOption... options) {
        Options all = optionsOf(options);
        return done(Methods.SET_UNION, cache, SetUnionRequest.newBuilder()
                .setKey(bytes(key)).addAllElements(all(elements))
                .setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed()).build());
    }

    /** Removes elements: success, or a miss if the set does not exist. An element that does not exist is no error. */
    public CompletableFuture<FoundResult> setRemoveElements(String cache, T key, Collection<? extends T> elements) {
        return difference(Methods.SET_DIFFERENCE, cache, SetDifferenceRequest.newBuilder().setKey(bytes(key))
                .setSubtrahend(SetDifferenceRequest.Subtrahend.newBuilder().setElements(elementsOf(elements))));
    }

    /**
     * Removes all elements, and with them the set: success, or a miss if the set does not exist. An item of another
     * type is an error.
     */
    public CompletableFuture<FoundResult> setDelete(String cache, T key) {
        return difference(Methods.SET_DIFFERENCE, cache, SetDifferenceRequest.newBuilder().setKey(bytes(key))
                .setSubtrahend(SetDifferenceRequest.Subtrahend.newBuilder().setAll(YES)));
    }

    /**
     * Replaces the set by the elements of {@code minuend} that it does not contain: success, or a miss if the set does
     * not exist.
     */
    public CompletableFuture<FoundResult> setSubtractFrom(String cache, T key, Collection<? extends T> minuend) {
        return difference(Methods.SET_SUBTRACT_FROM, cache, SetDifferenceRequest.newBuilder().setKey(bytes(key))
                .setMinuend(elementsOf(minuend)));
    }

    private SetDifferenceRequest.Elements elementsOf(Collection<? extends T> elements) {
        return SetDifferenceRequest.Elements.newBuilder().addAllElements(all(elements)).build();
    }

    private CompletableFuture<FoundResult> difference(
            Method<SetDifferenceRequest, FoundReply> method, String cache, SetDifferenceRequest.Builder request) {
        return unary(method, cache, request.build(), SetCalls::foundResult, FoundResult.Error::new);
    }

    private static FoundResult foundResult(FoundReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> FoundResult.Success.INSTANCE;
            case MISSING -> FoundResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Returns one boolean for each element, in their order. */
    public CompletableFuture<ContainsResult> setContains(String cache, T key, Collection<? extends T> elements) {
        FieldsRequest request = FieldsRequest.newBuilder().setKey(bytes(key)).addAllFields(all(elements)).build();
        int count = request.getFieldsCount();
        return unary(Methods.SET_CONTAINS, cache, request, reply -> containsResult(reply, count),
                ContainsResult.Error::new);
    }

    private static ContainsResult containsResult(SetContainsReply reply, int count) {
        return switch (reply.getReplyCase()) {
            case FOUND -> {
                checkCount(reply.getFound().getContainedCount(), count);
                yield new ContainsResult.Hit(List.copyOf(reply.getFound().getContainedList()));
            }
            case MISSING -> ContainsResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Returns the number of elements. */
    public CompletableFuture<LengthResult> setLength(String cache, T key) {
        return length(Methods.SET_LENGTH, cache, keyOf(key));
    }
}
