package dev.gannet.client;

import java.time.Instant;
import java.util.Optional;

/** The result of a call that issues a signed token. */
public sealed interface TokenResult {
    /**
     * A token, which is secret.
     *
     * @param token the token, for {@link Credentials#token}
     * @param refreshToken the token for {@code refreshApiToken}; empty for a disposable token
     * @param endpoint the address under which the client knows the server
     * @param validUntil the instant at which the token ends, or empty for never
     */
    record Success(String token, String refreshToken, String endpoint, Optional<Instant> validUntil)
            implements TokenResult {
        @Override
        public String toString() {
            return "Success[validUntil=" + validUntil + "]";
        }
    }

    /** The call failed. */
    record Error(CacheError error) implements TokenResult, ErrorResult {}
}
