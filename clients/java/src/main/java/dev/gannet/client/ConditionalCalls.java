package dev.gannet.client;

import dev.gannet.v1.GetWithHashReply;
import dev.gannet.v1.HashCondition;
import dev.gannet.v1.SetIfHashReply;
import dev.gannet.v1.SetIfHashRequest;
import dev.gannet.v1.SetIfReply;
import dev.gannet.v1.SetIfRequest;
import dev.gannet.v1.ValueCondition;
import java.util.concurrent.CompletableFuture;

/** The sets that depend on the present value. */
abstract class ConditionalCalls<T> extends ItemCalls<T> {
    ConditionalCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Stores a value if the key does not exist. */
    public CompletableFuture<ConditionalSetResult> setIfAbsent(
            String cache, T key, T value, SetOption... options) {
        return setIf(cache, setIfRequest(key, value, options).setAbsent(YES));
    }

    /** Stores a value if the key exists. */
    public CompletableFuture<ConditionalSetResult> setIfPresent(
            String cache, T key, T value, SetOption... options) {
        return setIf(cache, setIfRequest(key, value, options).setPresent(YES));
    }

    /** Stores a value if the present one is {@code equal}. */
    public CompletableFuture<ConditionalSetResult> setIfEqual(
            String cache, T key, T value, T equal, SetOption... options) {
        return setIf(cache, setIfRequest(key, value, options).setEqual(valueOf(equal)));
    }

    /** Stores a value if the present one is not {@code notEqual}, or the key does not exist. */
    public CompletableFuture<ConditionalSetResult> setIfNotEqual(
            String cache, T key, T value, T notEqual, SetOption... options) {
        return setIf(cache, setIfRequest(key, value, options).setNotEqual(valueOf(notEqual)));
    }

    /** Stores a value if the key does not exist, or the present value is {@code equal}. */
    public CompletableFuture<ConditionalSetResult> setIfAbsentOrEqual(
            String cache, T key, T value, T equal, SetOption... options) {
        return setIf(cache, setIfRequest(key, value, options).setAbsentOrEqual(valueOf(equal)));
    }

    /** Stores a value if the key exists, and the present value is not {@code notEqual}. */
    public CompletableFuture<ConditionalSetResult> setIfPresentAndNotEqual(
            String cache, T key, T value, T notEqual, SetOption... options) {
        return setIf(cache, setIfRequest(key, value, options).setPresentAndNotEqual(valueOf(notEqual)));
    }

    /** Stores a value and returns its hash. */
    public CompletableFuture<HashSetResult> setWithHash(
            String cache, T key, T value, SetOption... options) {
        return setIfHash(cache, setIfHashRequest(key, value, options).setUnconditional(YES));
    }

    /** Stores a value if the key exists, and the hash of the present value is {@code hashEqual}. */
    public CompletableFuture<HashSetResult> setIfPresentAndHashEqual(
            String cache, T key, T value, Bytes hashEqual, SetOption... options) {
        return setIfHash(cache, setIfHashRequest(key, value, options).setPresentAndHashEqual(hashOf(hashEqual)));
    }

    /** Stores a value if the key exists, and the hash of the present value is another one. */
    public CompletableFuture<HashSetResult> setIfPresentAndHashNotEqual(
            String cache, T key, T value, Bytes hashNotEqual, SetOption... options) {
        return setIfHash(cache, setIfHashRequest(key, value, options).setPresentAndNotHashEqual(hashOf(hashNotEqual)));
    }

    /** Stores a value if the key does not exist, or the hash of the present value is {@code hashEqual}. */
    public CompletableFuture<HashSetResult> setIfAbsentOrHashEqual(
            String cache, T key, T value, Bytes hashEqual, SetOption... options) {
        return setIfHash(cache, setIfHashRequest(key, value, options).setAbsentOrHashEqual(hashOf(hashEqual)));
    }

    /** Stores a value if the key does not exist, or the hash of the present value is another one. */
    public CompletableFuture<HashSetResult> setIfAbsentOrHashNotEqual(
            String cache, T key, T value, Bytes hashNotEqual, SetOption... options) {
        return setIfHash(cache, setIfHashRequest(key, value, options).setAbsentOrNotHashEqual(hashOf(hashNotEqual)));
    }

    /** Returns the value of a key and its hash, for a later conditional set. */
    public CompletableFuture<GetWithHashResult> getWithHash(String cache, T key) {
        return unary(Methods.GET_WITH_HASH, cache, keyOf(key), ConditionalCalls::hashResult,
                GetWithHashResult.Error::new);
    }

    private static GetWithHashResult hashResult(GetWithHashReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> new GetWithHashResult.Hit(
                    new Bytes(reply.getFound().getValue()), new Bytes(reply.getFound().getHash()));
            case MISSING -> GetWithHashResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    private ValueCondition valueOf(T value) {
        return ValueCondition.newBuilder().setValue(bytes(value)).build();
    }

    private static HashCondition hashOf(Bytes hash) {
        return HashCondition.newBuilder().setHash(hash.data()).build();
    }

    private SetIfRequest.Builder setIfRequest(T key, T value, SetOption... options) {
        return SetIfRequest.newBuilder().setKey(bytes(key)).setValue(bytes(value)).setTtlMs(ttlOf(options));
    }

    private SetIfHashRequest.Builder setIfHashRequest(T key, T value, SetOption... options) {
        return SetIfHashRequest.newBuilder().setKey(bytes(key)).setValue(bytes(value)).setTtlMs(ttlOf(options));
    }

    private CompletableFuture<ConditionalSetResult> setIf(String cache, SetIfRequest.Builder request) {
        return unary(Methods.SET_IF, cache, request.build(), ConditionalCalls::setIfResult,
                ConditionalSetResult.Error::new);
    }

    private static ConditionalSetResult setIfResult(SetIfReply reply) {
        return switch (reply.getReplyCase()) {
            case STORED -> ConditionalSetResult.Stored.INSTANCE;
            case NOT_STORED -> ConditionalSetResult.NotStored.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    private CompletableFuture<HashSetResult> setIfHash(String cache, SetIfHashRequest.Builder request) {
        return unary(Methods.SET_IF_HASH, cache, request.build(), ConditionalCalls::setIfHashResult,
                HashSetResult.Error::new);
    }

    private static HashSetResult setIfHashResult(SetIfHashReply reply) {
        return switch (reply.getReplyCase()) {
            case STORED -> new HashSetResult.Stored(new Bytes(reply.getStored().getHash()));
            case NOT_STORED -> HashSetResult.NotStored.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }
}
