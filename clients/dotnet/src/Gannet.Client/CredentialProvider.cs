using System;
using System.Linq;

namespace Gannet.Client
{
    /// <summary>A token, or none. A token is a password of the user <c>default</c>, or <c>USER:PASSWORD</c>.</summary>
    public sealed class CredentialProvider
    {
        // Not public, so that a log of the object does not show it.
        private readonly string? token;

        private CredentialProvider(string? token)
        {
            this.token = token;
        }

        /// <summary>True if there is a token.</summary>
        public bool HasToken => token != null;

        /// <summary>Returns credentials without a token, for servers whose users need no password.</summary>
        /// <returns>The credentials.</returns>
        public static CredentialProvider None() => new CredentialProvider(null);

        /// <summary>Returns credentials with a token.</summary>
        /// <param name="token">A password of the user <c>default</c>, or <c>USER:PASSWORD</c>.</param>
        /// <returns>The credentials.</returns>
        /// <exception cref="ArgumentException">The token is empty, or not printable ASCII.</exception>
        public static CredentialProvider FromString(string token)
        {
            if (string.IsNullOrEmpty(token))
            {
                throw new ArgumentException(
                    "cannot use token: it is empty; give a token, or use CredentialProvider.None()", nameof(token));
            }
            if (token.Any(each => each < ' ' || each > '~'))
            {
                throw new ArgumentException(
                    "cannot use token: it is not printable ASCII; give a token without other characters", nameof(
                        token));
            }
            return new CredentialProvider(token);
        }

        /// <summary>Returns credentials with the token of a user.</summary>
        /// <param name="user">The name of the user.</param>
        /// <param name="password">The password of the user.</param>
        /// <returns>The credentials.</returns>
        /// <exception cref="ArgumentException">A part is empty, or not printable ASCII.</exception>
        public static CredentialProvider FromUser(string user, string password)
        {
            if (string.IsNullOrEmpty(user) || user.Contains(':') || string.IsNullOrEmpty(password))
            {
                throw new ArgumentException(
                    "cannot use user: the name or the password is empty, or the name has a colon; give both", nameof(
                        user));
            }
            return FromString($"{user}:{password}");
        }

        /// <summary>Returns credentials with the token in an environment variable.</summary>
        /// <param name="variable">The name of the variable.</param>
        /// <returns>The credentials.</returns>
        /// <exception cref="ArgumentException">
        /// The variable is not set, or its token is not printable ASCII.
        /// </exception>
        public static CredentialProvider FromEnvironment(string variable = "GANNET_TOKEN")
        {
            var token = (Environment.GetEnvironmentVariable(variable) ?? string.Empty).Trim();
            if (token.Length == 0)
            {
                throw new ArgumentException(
                    $"cannot read token: environment variable {variable} is not set; export {variable}=TOKEN",
                    nameof(variable));
            }
            return FromString(token);
        }

        /// <inheritdoc/>
        public override string ToString() =>
            HasToken ? "CredentialProvider with a token" : "CredentialProvider without a token";

        internal string? Token => token;
    }
}
