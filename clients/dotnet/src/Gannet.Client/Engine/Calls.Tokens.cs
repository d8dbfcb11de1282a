using System;
using Gannet.V1;
using Gannet.V1.Replies;

namespace Gannet.Client.Engine
{
    // Tokens. Each attempt would issue another valid one, and those of lost replies remain valid.
    internal static partial class Calls
    {
        public static readonly Call<ApiTokenResult> GenerateApiToken = One(
            Methods.TokensGenerateApiToken, ApiToken.Read, TokenOf, error => new ApiTokenResult.Error(error), false);

        public static readonly Call<ApiTokenResult> RefreshApiToken = One(
            Methods.TokensRefreshApiToken, ApiToken.Read, TokenOf, error => new ApiTokenResult.Error(error), false);

        public static readonly Call<TokenResult> GenerateDisposableToken = One(
            Methods.TokensGenerateDisposableToken,
            DisposableToken.Read,
            reply => (TokenResult)new TokenResult.Success(reply.Token, reply.Endpoint, reply.ValidUntil),
            error => new TokenResult.Error(error),
            false);

        /// <summary>Returns an instant in seconds since 1970; null for 0, or beyond the year 9999.</summary>
        public static DateTimeOffset? InstantOf(ulong seconds) =>
            seconds == 0 || seconds > (ulong)DateTimeOffset.MaxValue.ToUnixTimeSeconds()
                ? (DateTimeOffset?)null
                : DateTimeOffset.FromUnixTimeSeconds((long)seconds);

        private static ApiTokenResult TokenOf(ApiToken reply) =>
            new ApiTokenResult.Success(reply.Token, reply.RefreshToken, reply.Endpoint, reply.ValidUntil);
    }
}
