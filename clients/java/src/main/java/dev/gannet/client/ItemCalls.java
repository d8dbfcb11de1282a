package dev.gannet.client;

import com.google.protobuf.ByteString;
import dev.gannet.v1.GetBatchRequest;
import dev.gannet.v1.GetReply;
import dev.gannet.v1.GetRequest;
import dev.gannet.v1.IncrementRequest;
import dev.gannet.v1.ItemTtlReply;
import dev.gannet.v1.ItemTypeReply;
import dev.gannet.v1.KeysExistRequest;
import dev.gannet.v1.Result;
import dev.gannet.v1.SetBatchRequest;
import dev.gannet.v1.SetReply;
import dev.gannet.v1.SetRequest;
import dev.gannet.v1.UpdateTtlReply;
import dev.gannet.v1.UpdateTtlRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** The calls on items of all types. */
abstract class ItemCalls<T> extends Calls<T> {
    ItemCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Returns the value of a key. */
    public CompletableFuture<GetResult> get(String cache, T key) {
        GetRequest request = GetRequest.newBuilder().setKey(bytes(key)).build();
        return unary(Methods.GET, cache, request, ItemCalls::getResult, GetResult.Error::new);
    }

    static GetResult getResult(GetReply reply) {
        return switch (reply.getResult()) {
            case RESULT_HIT -> new GetResult.Hit(new Bytes(reply.getValue()));
            case RESULT_MISS -> GetResult.Miss.INSTANCE;
            default -> throw new BadReplyException("the result is " + reply.getResultValue());
        };
    }

    /** Stores a value. */
    public CompletableFuture<DoneResult> set(String cache, T key, T value, SetOption... options) {
        return set(cache, key, bytes(value), options);
    }

    /** Stores a value of bytes. */
    public CompletableFuture<DoneResult> set(String cache, T key, byte[] value, SetOption... options) {
        return set(cache, key, ByteString.copyFrom(value), options);
    }

    private CompletableFuture<DoneResult> set(String cache, T key, ByteString value, SetOption... options) {
        SetRequest request =
                SetRequest.newBuilder().setKey(bytes(key)).setValue(value).setTtlMs(ttlOf(options)).build();
        return unary(Methods.SET, cache, request, ItemCalls::setResult, DoneResult.Error::new);
    }

    private static DoneResult setResult(SetReply reply) {
        if (reply.getResult() != Result.RESULT_OK) {
            throw new BadReplyException("the result is " + reply.getResultValue());
        }
        return DoneResult.Success.INSTANCE;
    }

    /** Returns the values of several keys in one request, in the order of the keys. Its place in flight is one. */
    public CompletableFuture<GetBatchResult> getBatch(String cache, Collection<? extends T> keys) {
        GetBatchRequest.Builder request = GetBatchRequest.newBuilder();
        for (T key : keys) {
            request.addItems(GetRequest.newBuilder().setKey(bytes(key)));
        }
        int count = request.getItemsCount();
        return engine.call(Methods.GET_BATCH, scope, cache, request.build(), Reading.many(replies -> {
            checkCount(replies.size(), count);
            return new GetBatchResult.Success(replies.stream().map(ItemCalls::getResult).toList());
        }, GetBatchResult.Error::new));
    }

    /** Stores several values in one request, in the order of the map. Its place in flight is one. */
    public CompletableFuture<DoneResult> setBatch(
            String cache, Map<? extends T, ? extends T> items, SetOption... options) {
        long ttl = ttlOf(options);
        SetBatchRequest.Builder request = SetBatchRequest.newBuilder();
        items.forEach((key, value) ->
                request.addItems(SetRequest.newBuilder().setKey(bytes(key)).setValue(bytes(value)).setTtlMs(ttl)));
        int count = request.getItemsCount();
        return engine.call(Methods.SET_BATCH, scope, cache, request.build(), Reading.many(replies -> {
            checkCount(replies.size(), count);
            replies.forEach(ItemCalls::setResult);
            return DoneResult.Success.INSTANCE;
        }, DoneResult.Error::new));
    }

    /** Deletes an item of any type. A key that does not exist is no error. */
    public CompletableFuture<DoneResult> delete(String cache, T key) {
        return done(Methods.DELETE, cache, keyOf(key));
    }

    /** Returns one boolean for each key, in the order of the keys. */
    public CompletableFuture<KeysExistResult> keysExist(String cache, Collection<? extends T> keys) {
        KeysExistRequest request = KeysExistRequest.newBuilder().addAllKeys(all(keys)).build();
        int count = request.getKeysCount();
        return unary(Methods.KEYS_EXIST, cache, request, reply -> {
            checkCount(reply.getExistsCount(), count);
            return new KeysExistResult.Success(List.copyOf(reply.getExistsList()));
        }, KeysExistResult.Error::new);
    }

    /** Adds to a decimal number, and returns the sum. A key that does not exist counts as 0. */
    public CompletableFuture<IncrementResult> increment(String cache, T key, long amount, SetOption... options) {
        IncrementRequest request =
                IncrementRequest.newBuilder().setKey(bytes(key)).setAmount(amount).setTtlMs(ttlOf(options)).build();
        return unary(Methods.INCREMENT, cache, request, reply -> new IncrementResult.Success(reply.getValue()),
                IncrementResult.Error::new);
    }

    /** Returns the time to live of an item. */
    public CompletableFuture<TtlResult> getTtl(String cache, T key) {
        return unary(Methods.ITEM_GET_TTL, cache, keyOf(key), ItemCalls::ttlResult, TtlResult.Error::new);
    }

    private static TtlResult ttlResult(ItemTtlReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> {
                // The largest 63-bit number, and above it a negative one, stands for no time to live.
                long ms = reply.getFound().getRemainingMs();
                boolean expires = ms >= 0 && ms < Long.MAX_VALUE;
                yield new TtlResult.Hit(expires ? Optional.of(Duration.ofMillis(ms)) : Optional.empty());
            }
            case MISSING -> TtlResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Returns the type of an item. */
    public CompletableFuture<TypeResult> getType(String cache, T key) {
        return unary(Methods.ITEM_GET_TYPE, cache, keyOf(key), ItemCalls::typeResult, TypeResult.Error::new);
    }

    private static TypeResult typeResult(ItemTypeReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> new TypeResult.Hit(switch (reply.getFound().getItemType()) {
                case VALUE -> ItemType.VALUE;
                case DICTIONARY -> ItemType.DICTIONARY;
                case SET -> ItemType.SET;
                case LIST -> ItemType.LIST;
                case SORTED_SET -> ItemType.SORTED_SET;
                case UNRECOGNIZED -> throw new BadReplyException(
                        "the type is " + reply.getFound().getItemTypeValue());
            });
            case MISSING -> TypeResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Sets the time to live of an item: stored, or a miss. */
    public CompletableFuture<UpdateTtlResult> updateTtl(String cache, T key, Duration ttl) {
        return updateTtl(cache, UpdateTtlRequest.newBuilder().setKey(bytes(key))
                .setOverwriteToMs(Ttl.millisecondsOf(ttl)));
    }

    /** Sets the time to live of an item if it is below this one. */
    public CompletableFuture<UpdateTtlResult> increaseTtl(String cache, T key, Duration ttl) {
        return updateTtl(cache, UpdateTtlRequest.newBuilder().setKey(bytes(key))
                .setIncreaseToMs(Ttl.millisecondsOf(ttl)));
    }

    /** Sets the time to live of an item if it is above this one. */
    public CompletableFuture<UpdateTtlResult> decreaseTtl(String cache, T key, Duration ttl) {
        return updateTtl(cache, UpdateTtlRequest.newBuilder().setKey(bytes(key))
                .setDecreaseToMs(Ttl.millisecondsOf(ttl)));
    }

    private CompletableFuture<UpdateTtlResult> updateTtl(String cache, UpdateTtlRequest.Builder request) {
        return unary(Methods.UPDATE_TTL, cache, request.build(), ItemCalls::updateTtlResult,
                UpdateTtlResult.Error::new);
    }

    private static UpdateTtlResult updateTtlResult(UpdateTtlReply reply) {
        return switch (reply.getReplyCase()) {
            case SET -> UpdateTtlResult.Stored.INSTANCE;
            case NOT_SET -> UpdateTtlResult.NotStored.INSTANCE;
            case MISSING -> UpdateTtlResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }
}
