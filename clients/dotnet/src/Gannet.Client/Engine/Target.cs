using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Gannet.Client.Protocol;
using Gannet.V1;

namespace Gannet.Client.Engine
{
    /// <summary>The server that a client talks to, with everything that a connection to it needs.</summary>
    internal sealed class Target
    {
        private readonly IReadOnlyDictionary<Method, Uri> uris;

        /// <summary>Without <paramref name="tls"/>, TLS is used unless the address is local.</summary>
        public Target(
            string address, bool? tls, string? caFile, CredentialProvider credentials, TimeSpan connectTimeout)
        {
            var (host, port) = Split(address);
            Address = address;
            Host = host;
            UsesTls = tls ?? (caFile != null || !IsLocal(host));
            Authority = caFile == null || !UsesTls ? null : ReadCertificates(caFile);
            Token = credentials.Token;
            ConnectTimeout = connectTimeout;
            var bracketed = host.Contains(':') ? $"[{host}]" : host;
            Base = $"{(UsesTls ? "https" : "http")}://{bracketed}:{port}";
            uris = Methods.All.ToDictionary(method => method, method => new Uri(Base + method.Path));
        }

        /// <summary>HOST:PORT, as the user wrote it.</summary>
        public string Address { get; }

        public string Host { get; }

        public bool UsesTls { get; }

        /// <summary>The CAs of the server's certificate, or null for those of the system.</summary>
        public X509Certificate2Collection? Authority { get; }

        public string? Token { get; }

        public TimeSpan ConnectTimeout { get; }

        /// <summary>Further metadata of all calls of the user. Tests of the library ask the server for faults by it.</summary>
        public IReadOnlyList<KeyValuePair<string, string>> Metadata { get; set; } =
            Array.Empty<KeyValuePair<string, string>>();

        /// <summary>The beginning of all URIs.</summary>
        public string Base { get; }

        /// <summary>Returns the URI of a call. To parse one takes longer than to find it.</summary>
        public Uri UriOf(Method method) => uris[method];

        private static (string Host, int Port) Split(string address)
        {
            _ = address ?? throw new ArgumentNullException(nameof(address));
            var colon = address.LastIndexOf(':');
            var host = colon < 0 ? string.Empty : address.Substring(0, colon);
            var isBracketed = host.StartsWith("[", StringComparison.Ordinal) && host.EndsWith(
                "]", StringComparison.Ordinal);
            host = isBracketed ? host.Substring(1, host.Length - 2) : host;
            var kind = Uri.CheckHostName(host);
            if ((kind == UriHostNameType.IPv6) == isBracketed && kind != UriHostNameType.Unknown
                && int.TryParse(
                    address.Substring(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out var port)
                && port > 0 && port < 65536)
            {
                return (host, port);
            }
            throw new ArgumentException(
                $"cannot use address '{address}': it is not HOST:PORT; give one such as 127.0.0.1:7000", nameof(
                    address));
        }

        private static bool IsLocal(string host) =>
            host == "localhost" || (IPAddress.TryParse(host, out var address) && IPAddress.IsLoopback(address));

        private static X509Certificate2Collection ReadCertificates(string path)
        {
            const string Begin = "-----BEGIN CERTIFICATE-----";
            const string End = "-----END CERTIFICATE-----";
            var found = new X509Certificate2Collection();
            var text = File.ReadAllText(path);
            for (var at = text.IndexOf(Begin, StringComparison.Ordinal); at >= 0;)
            {
                var start = at + Begin.Length;
                var end = text.IndexOf(End, start, StringComparison.Ordinal);
                if (end < 0)
                {
                    break;
                }
                try
                {
                    found.Add(new X509Certificate2(Convert.FromBase64String(text.Substring(start, end - start))));
                }
                catch (Exception exception) when (exception is FormatException || exception is CryptographicException)
                {
                    throw new ArgumentException(
                        $"cannot read {path}: a certificate is damaged; give a PEM file with the CA",
                        nameof(path),
                        exception);
                }
                at = text.IndexOf(Begin, end, StringComparison.Ordinal);
            }
            return found.Count > 0
                ? found
                : throw new ArgumentException(
                    $"cannot read {path}: it contains no certificate; give a PEM file with the CA", nameof(path));
        }
    }
}
