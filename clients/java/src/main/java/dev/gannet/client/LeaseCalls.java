package dev.gannet.client;

import dev.gannet.v1.LeaseGetReply;
import dev.gannet.v1.LeaseGetRequest;
import dev.gannet.v1.LeaseSetRequest;
import dev.gannet.v1.LeaseStaleRequest;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** The calls on leases: one client fills a value, and the others wait or get the old one. */
abstract class LeaseCalls<T> extends TopicCalls<T> {
    LeaseCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Returns a value, or a lease of 10 s for filling it. */
    public CompletableFuture<LeaseResult> leaseGet(String cache, T key) {
        return leaseGet(cache, key, Duration.ZERO, Duration.ZERO);
    }

    /**
     * Returns a value, or a lease for filling it.
     *
     * @param recache a value that expires within this time is filled again by one client; zero for none
     * @param lease the time for which the client may fill the value; zero for 10 s
     */
    public CompletableFuture<LeaseResult> leaseGet(String cache, T key, Duration recache, Duration lease) {
        LeaseGetRequest request = LeaseGetRequest.newBuilder().setKey(bytes(key))
                .setRecacheMs(Ttl.optionalMillisecondsOf("recache", recache))
                .setLeaseMs(Ttl.optionalMillisecondsOf("lease", lease)).build();
        return unary(Methods.LEASE_GET, cache, request, LeaseCalls::leaseResult, LeaseResult.Error::new);
    }

    private static LeaseResult leaseResult(LeaseGetReply reply) {
        Optional<Bytes> value = reply.hasValue() ? Optional.of(new Bytes(reply.getValue())) : Optional.empty();
        return switch (reply.getState()) {
            case LEASE_HIT -> new LeaseResult.Hit(value.orElseThrow(BadReplyException::empty));
            case LEASE_WON -> new LeaseResult.Won(reply.getToken(), value);
            case LEASE_WAIT -> new LeaseResult.Wait(value);
            default -> throw new BadReplyException("the state is " + reply.getStateValue());
        };
    }

    /**
     * Stores the value for the client that won the lease with this token. It is not stored if the lease has ended, or
     * the item was deleted. If the value was changed or marked stale meanwhile, the new one is stale.
     */
    public CompletableFuture<ConditionalSetResult> leaseSet(
            String cache, T key, long token, T value, SetOption... options) {
        LeaseSetRequest request = LeaseSetRequest.newBuilder().setKey(bytes(key)).setToken(token)
                .setValue(bytes(value)).setTtlMs(ttlOf(options)).build();
        return unary(Methods.LEASE_SET, cache, request,
                reply -> reply.getStored()
                        ? ConditionalSetResult.Stored.INSTANCE
                        : ConditionalSetResult.NotStored.INSTANCE,
                ConditionalSetResult.Error::new);
    }

    /** Marks a value stale: clients get it until one of them has filled it again. */
    public CompletableFuture<FoundResult> leaseStale(String cache, T key) {
        return leaseStale(cache, key, Duration.ZERO);
    }

    /**
     * Marks a value stale: clients get it until one of them has filled it again.
     *
     * @param ttl the time after which the stale value is gone; zero for its own time to live
     */
    public CompletableFuture<FoundResult> leaseStale(String cache, T key, Duration ttl) {
        LeaseStaleRequest request = LeaseStaleRequest.newBuilder().setKey(bytes(key))
                .setTtlMs(Ttl.optionalMillisecondsOf("ttl", ttl)).build();
        return unary(Methods.LEASE_STALE, cache, request,
                reply -> reply.getFound() ? FoundResult.Success.INSTANCE : FoundResult.Miss.INSTANCE,
                FoundResult.Error::new);
    }
}
