package dev.gannet.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import dev.gannet.v1.Condition;
import dev.gannet.v1.Done;
import dev.gannet.v1.ElementsReply;
import dev.gannet.v1.KeyRequest;
import dev.gannet.v1.LengthReply;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** The base of all calls: the engine, and conversions that several of them need. */
abstract class Calls<T> {
    static final Condition YES = Condition.getDefaultInstance();

    final Engine engine;
    final Scope scope;
    final Codec<T> codec;

    Calls(Engine engine, Scope scope, Codec<T> codec) {
        this.engine = engine;
        this.scope = scope;
        this.codec = codec;
    }

    /** The options of a write. */
    record Options(long ttlMs, boolean isRefreshed, int lengthMax) {}

    ByteString bytes(T value) {
        return codec.encode(value);
    }

    List<ByteString> all(Collection<? extends T> values) {
        List<ByteString> encoded = new ArrayList<>(values.size());
        for (T value : values) {
            encoded.add(codec.encode(value));
        }
        return encoded;
    }

    static List<Bytes> wrap(List<ByteString> values) {
        List<Bytes> wrapped = new ArrayList<>(values.size());
        for (ByteString value : values) {
            wrapped.add(new Bytes(value));
        }
        return wrapped;
    }

    KeyRequest keyOf(T key) {
        return KeyRequest.newBuilder().setKey(bytes(key)).build();
    }

    long ttlOf(SetOption... options) {
        long ttl = scope.defaultTtlMs();
        for (SetOption each : options) {
            ttl = ((Ttl) each).milliseconds();
        }
        return ttl;
    }

    Options optionsOf(ListOption... options) {
        long ttl = scope.defaultTtlMs();
        boolean isRefreshed = true;
        int lengthMax = 0;
        for (ListOption each : options) {
            if (each instanceof Ttl given) {
                ttl = given.milliseconds();
            } else if (each instanceof KeepTtl) {
                isRefreshed = false;
            } else {
                lengthMax = ((MaxLength) each).elements();
            }
        }
        return new Options(ttl, isRefreshed, lengthMax);
    }

    <Q extends Message, P extends Message, R> CompletableFuture<R> unary(
            Method<Q, P> method, String cache, Q request, Function<P, R> result, Function<CacheError, R> error) {
        Objects.requireNonNull(cache, "cache");
        return engine.call(method, scope, cache, request, Reading.one(result, error));
    }

    /** Executes a call whose reply has no content. */
    <Q extends Message> CompletableFuture<DoneResult> done(Method<Q, Done> method, String cache, Q request) {
        return unary(method, cache, request, reply -> DoneResult.Success.INSTANCE, DoneResult.Error::new);
    }

    <Q extends Message> CompletableFuture<LengthResult> length(Method<Q, LengthReply> method, String cache, Q request) {
        return unary(method, cache, request, Calls::lengthOf, LengthResult.Error::new);
    }

    private static LengthResult lengthOf(LengthReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> new LengthResult.Hit(reply.getFound().getLength());
            case MISSING -> LengthResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Returns the elements of a reply, or null if the collection does not exist. */
    static List<Bytes> elementsOf(ElementsReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> wrap(reply.getFound().getElementsList());
            case MISSING -> null;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Checks that a reply has one part for each part of the request. */
    static void checkCount(int replies, int requests) {
        if (replies != requests) {
            throw new BadReplyException(replies + " replies to " + requests + " parts of a request");
        }
    }
}
