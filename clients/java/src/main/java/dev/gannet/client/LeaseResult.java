package dev.gannet.client;

import java.util.Optional;

/** The result of a get with a lease. */
public sealed interface LeaseResult {
    /** The value is current. */
    record Hit(Bytes value) implements LeaseResult {
        /** Returns the value as text (UTF-8). */
        public String valueString() {
            return value.toString();
        }
    }

    /** This client fills the value, and passes the token to {@code leaseSet}. {@code stale} is the old one, if any */
    record Won(long token, Optional<Bytes> stale) implements LeaseResult {}

    /** Another client fills the value. {@code stale} is the old value, if any. */
    record Wait(Optional<Bytes> stale) implements LeaseResult {}

    /** The call failed. */
    record Error(CacheError error) implements LeaseResult, ErrorResult {}
}
