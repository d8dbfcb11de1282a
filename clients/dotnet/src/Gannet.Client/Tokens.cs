using System;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    /// <summary>
    /// Signed tokens of a server: credentials that carry their permissions. Only users with all rights may issue them.
    /// </summary>
    public sealed class Tokens
    {
        private readonly Caller caller;

        internal Tokens(Caller caller)
        {
            this.caller = caller;
        }

        /// <summary>Issues a token, and one that refreshes it.</summary>
        /// <param name="permissions">The permissions of the token.</param>
        /// <param name="expires">The time for which it is valid, in whole seconds; null for ever.</param>
        /// <param name="tokenId">The id that messages carry which the token publishes.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The token or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is below 1 s, or above 136 years.</exception>
        public Task<ApiTokenResult> GenerateApiTokenAsync(
            Permissions permissions,
            TimeSpan? expires,
            string tokenId = "",
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.GenerateApiToken,
                new GenerateApiTokenRequest
                {
                    Never = expires == null ? new GenerateApiTokenRequestNever() : null,
                    Expires = expires is TimeSpan time ? ValidityOf(time) : null,
                    Permissions = MessageOf(permissions),
                    AuthToken = string.Empty,
                    TokenId = tokenId,
                },
                deadline,
                cancellationToken);

        /// <summary>
        /// Replaces a token and its refresh token by new ones with the same permissions, before they expire.
        /// </summary>
        /// <param name="token">The token.</param>
        /// <param name="refreshToken">Its refresh token.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The new token or an error.</returns>
        public Task<ApiTokenResult> RefreshApiTokenAsync(
            string token,
            string refreshToken,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.RefreshApiToken,
                new RefreshApiTokenRequest { Token = token, RefreshToken = refreshToken },
                deadline,
                cancellationToken);

        /// <summary>Issues a token without a refresh token.</summary>
        /// <param name="permissions">The permissions of the token.</param>
        /// <param name="expires">The time for which it is valid, in whole seconds.</param>
        /// <param name="tokenId">The id that messages carry which the token publishes.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The token or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is below 1 s, or above 136 years.</exception>
        public Task<TokenResult> GenerateDisposableTokenAsync(
            Permissions permissions,
            TimeSpan expires,
            string tokenId = "",
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.GenerateDisposableToken,
                new GenerateDisposableTokenRequest
                {
                    Expires = ValidityOf(expires),
                    Permissions = MessageOf(permissions),
                    AuthToken = string.Empty,
                    TokenId = tokenId,
                },
                deadline,
                cancellationToken);

        private static V1.Requests.Permissions MessageOf(Permissions permissions) =>
            (permissions ?? throw new ArgumentNullException(nameof(permissions))).Message;

        private static Validity ValidityOf(TimeSpan time) =>
            time >= TimeSpan.FromSeconds(1) && time.TotalSeconds <= uint.MaxValue
                ? new Validity { Seconds = (uint)time.TotalSeconds }
                : throw new ArgumentOutOfRangeException(
                    nameof(time), $"cannot use validity {time}: it is out of range; give 1 s to 136 years");
    }

    /// <summary>The calls that a permission allows.</summary>
    public enum Role
    {
        /// <summary>All calls on items, or to publish and subscribe.</summary>
        ReadWrite = 1,

        /// <summary>Calls that change nothing, or to subscribe.</summary>
        ReadOnly = 2,

        /// <summary>
        /// Changes whose effect and reply do not depend on present values, or to publish.
        /// </summary>
        WriteOnly = 3,
    }

    /// <summary>The keys or topics of a permission: all of them, one, or those with a prefix.</summary>
    public readonly struct Selector
    {
        private readonly PermissionPart? part;

        private Selector(PermissionPart part)
        {
            this.part = part;
        }

        /// <summary>Returns the selector of all names. It is the default value, too.</summary>
        public static Selector All => default;

        /// <summary>Returns the selector of one name.</summary>
        /// <param name="name">The key or topic.</param>
        /// <returns>The selector.</returns>
        public static Selector Named(Bytes name) => new Selector(new PermissionPart { Name = name });

        /// <summary>Returns the selector of all names with a prefix.</summary>
        /// <param name="prefix">The prefix.</param>
        /// <returns>The selector.</returns>
        public static Selector Prefixed(Bytes prefix) => new Selector(new PermissionPart { Prefix = prefix });

        internal PermissionPart? Part => part;
    }

    /// <summary>One permission of a token.</summary>
    public sealed class Permission
    {
        private Permission(V1.Requests.Permission message)
        {
            Message = message;
        }

        internal V1.Requests.Permission Message { get; }

        /// <summary>Returns the permission to call for items.</summary>
        /// <param name="role">The calls.</param>
        /// <param name="cache">The only cache; null for all.</param>
        /// <param name="keys">The keys; all of them by default.</param>
        /// <returns>The permission.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The role is unknown.</exception>
        public static Permission Items(Role role, string? cache = null, Selector keys = default) =>
            new Permission(new V1.Requests.Permission { Items = ScopeOf(role, cache, keys) });

        /// <summary>Returns the permission to publish to topics or to subscribe to them.</summary>
        /// <param name="role">The calls.</param>
        /// <param name="cache">The only cache; null for all.</param>
        /// <param name="topics">The topics; all of them by default.</param>
        /// <returns>The permission.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The role is unknown.</exception>
        public static Permission Topics(Role role, string? cache = null, Selector topics = default) =>
            new Permission(new V1.Requests.Permission { Topics = ScopeOf(role, cache, topics) });

        private static PermissionScope ScopeOf(Role role, string? cache, Selector which) => new PermissionScope
        {
            Role = role >= Role.ReadWrite && role <= Role.WriteOnly
                ? (V1.PermissionRole)role
                : throw new ArgumentOutOfRangeException(
                    nameof(role), $"cannot use role {role}: it is unknown; give a value of Role"),
            AllCaches = cache == null ? new PermissionAll() : null,
            OneCache = cache == null ? null : new PermissionCacheSelector { Name = cache },
            Everything = which.Part == null ? new PermissionAll() : null,
            Part = which.Part,
        };
    }

    /// <summary>The permissions of a token.</summary>
    public sealed class Permissions
    {
        private Permissions(V1.Requests.Permissions message)
        {
            Message = message;
        }

        /// <summary>All permissions, also to issue tokens.</summary>
        public static Permissions All { get; } =
            new Permissions(new V1.Requests.Permissions { Superuser = V1.PermissionsSuperuser.Superuser });

        internal V1.Requests.Permissions Message { get; }

        /// <summary>Returns these permissions together.</summary>
        /// <param name="permissions">The permissions.</param>
        /// <returns>The permissions of a token.</returns>
        public static Permissions Of(params Permission[] permissions)
        {
            var messages = (permissions ?? throw new ArgumentNullException(nameof(permissions)))
                .Select(each => each.Message).ToList();
            var all = new PermissionsExplicit { Permissions = messages };
            return new Permissions(new V1.Requests.Permissions { Explicit = all });
        }
    }

    /// <summary>A token: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class TokenResult
    {
        private protected TokenResult()
        {
        }

        /// <summary>A token. A log of the object does not show it.</summary>
        public sealed class Success : TokenResult
        {
            internal Success(string token, string endpoint, ulong validUntil)
            {
                Token = token;
                Endpoint = endpoint;
                ValidUntil = Calls.InstantOf(validUntil);
            }

            /// <summary>The token.</summary>
            public string Token { get; }

            /// <summary>The address under which the client knows the server.</summary>
            public string Endpoint { get; }

            /// <summary>The instant at which the token expires; null for never.</summary>
            public DateTimeOffset? ValidUntil { get; }

            /// <summary>Returns credentials with the token, for a client.</summary>
            /// <returns>The credentials.</returns>
            public CredentialProvider ToCredentials() => CredentialProvider.FromString(Token);

            /// <inheritdoc/>
            public override string ToString() => $"a token for {Endpoint}, valid until {ValidUntil}";
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : TokenResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>A token with its refresh token: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class ApiTokenResult
    {
        private protected ApiTokenResult()
        {
        }

        /// <summary>A token, and the one that refreshes it. A log of the object shows neither.</summary>
        public sealed class Success : ApiTokenResult
        {
            internal Success(string token, string refreshToken, string endpoint, ulong validUntil)
            {
                Token = token;
                RefreshToken = refreshToken;
                Endpoint = endpoint;
                ValidUntil = Calls.InstantOf(validUntil);
            }

            /// <summary>The token.</summary>
            public string Token { get; }

            /// <summary>The refresh token; empty if the token never expires.</summary>
            public string RefreshToken { get; }

            /// <summary>The address under which the client knows the server.</summary>
            public string Endpoint { get; }

            /// <summary>The instant at which both expire; null for never.</summary>
            public DateTimeOffset? ValidUntil { get; }

            /// <summary>Returns credentials with the token, for a client.</summary>
            /// <returns>The credentials.</returns>
            public CredentialProvider ToCredentials() => CredentialProvider.FromString(Token);

            /// <inheritdoc/>
            public override string ToString() => $"a token for {Endpoint}, valid until {ValidUntil}";
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ApiTokenResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }
}
