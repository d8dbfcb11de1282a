package dev.gannet.client;

import dev.gannet.v1.ApiToken;
import dev.gannet.v1.DisposableToken;
import dev.gannet.v1.GenerateApiTokenRequest;
import dev.gannet.v1.GenerateDisposableTokenRequest;
import dev.gannet.v1.RefreshApiTokenRequest;
import dev.gannet.v1.Validity;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** The calls on signed tokens, which need a user or a token without limits. */
abstract class TokenCalls<T> extends RecordCalls<T> {
    TokenCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Issues a token with a refresh token. */
    public CompletableFuture<TokenResult> generateApiToken(TokenRequest token) {
        GenerateApiTokenRequest.Builder request = GenerateApiTokenRequest.newBuilder()
                .setPermissions(token.message()).setTokenId(token.id());
        token.expires().ifPresentOrElse(
                time -> request.setExpires(validity(time)),
                () -> request.setNever(GenerateApiTokenRequest.Never.getDefaultInstance()));
        return unary(Methods.GENERATE_API_TOKEN, "", request.build(), TokenCalls::apiToken, TokenResult.Error::new);
    }

    /** Replaces a token and its refresh token by new ones, before they end. */
    public CompletableFuture<TokenResult> refreshApiToken(String token, String refreshToken) {
        return unary(Methods.REFRESH_API_TOKEN, "",
                RefreshApiTokenRequest.newBuilder().setToken(token).setRefreshToken(refreshToken).build(),
                TokenCalls::apiToken, TokenResult.Error::new);
    }

    /**
     * Issues a token without a refresh token.
     *
     * @throws IllegalArgumentException if the token does not expire
     */
    public CompletableFuture<TokenResult> generateDisposableToken(TokenRequest token) {
        Duration expires = token.expires().orElseThrow(() -> new IllegalArgumentException(
                "cannot generate a disposable token: it has no expiry; call expiresAfter"));
        GenerateDisposableTokenRequest request = GenerateDisposableTokenRequest.newBuilder()
                .setPermissions(token.message()).setTokenId(token.id()).setExpires(validity(expires)).build();
        return unary(Methods.GENERATE_DISPOSABLE_TOKEN, "", request, TokenCalls::disposableToken,
                TokenResult.Error::new);
    }

    private static Validity validity(Duration time) {
        return Validity.newBuilder().setSeconds((int) time.toSeconds()).build();
    }

    private static TokenResult apiToken(ApiToken reply) {
        return new TokenResult.Success(
                reply.getToken(), reply.getRefreshToken(), reply.getEndpoint(), instant(reply.getValidUntil()));
    }

    private static TokenResult disposableToken(DisposableToken reply) {
        return new TokenResult.Success(reply.getToken(), "", reply.getEndpoint(), instant(reply.getValidUntil()));
    }

    private static Optional<Instant> instant(long seconds) {
        return seconds == 0 ? Optional.empty() : Optional.of(Instant.ofEpochSecond(seconds));
    }
}
