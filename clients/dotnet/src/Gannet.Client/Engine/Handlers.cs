using System;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Security;
using System.Reflection;
using System.Security.Cryptography.X509Certificates;
using System.Threading;

namespace Gannet.Client.Engine
{
    /// <summary>
    /// Creates handlers of HTTP/2. netstandard2.1 has no <c>SocketsHttpHandler</c>, although each runtime that
    /// implements it has, and later runtimes have properties that the first ones lack. They are set by reflection, once
    /// for each connection.
    /// </summary>
    internal static class Handlers
    {
        private static readonly Type Sockets = typeof(HttpClient).Assembly.GetType("System.Net.Http.SocketsHttpHandler")
            ?? throw new PlatformNotSupportedException(
                "cannot connect: this runtime has no SocketsHttpHandler; use .NET Core 3.1, .NET 5 or newer");

        // From .NET 5, a request says that it needs HTTP/2 itself; before, a switch of the process allows it without
        // TLS.
        private static readonly Action<HttpRequestMessage>? SetPolicy = PolicySetter();

        // .NET refuses shorter times of its own pings.
        private static readonly TimeSpan PingTimeMin = TimeSpan.FromSeconds(1);

        static Handlers()
        {
            AppContext.SetSwitch("System.Net.Http.SocketsHttpHandler.Http2UnencryptedSupport", true);
        }

        /// <summary>True if the runtime pings connections with these settings by itself.</summary>
        public static bool PingsConnections(Configuration configuration) =>
            Sockets.GetProperty("KeepAlivePingDelay") != null
            && configuration.KeepaliveTime >= PingTimeMin
            && configuration.KeepaliveTimeout >= PingTimeMin;

        /// <summary>Creates a handler, which opens one connection.</summary>
        public static HttpMessageHandler Create(Target target, Configuration configuration)
        {
            var handler = (HttpMessageHandler)Activator.CreateInstance(Sockets);
            Set(handler, "UseProxy", false);
            Set(handler, "UseCookies", false);
            Set(handler, "AllowAutoRedirect", false);
            Set(handler, "AutomaticDecompression", DecompressionMethods.None);
            Set(handler, "MaxConnectionsPerServer", 1);
            Set(handler, "ConnectTimeout", configuration.ConnectTimeout);
            Set(handler, "PooledConnectionIdleTimeout", Timeout.InfiniteTimeSpan);
            Set(handler, "PooledConnectionLifetime", Timeout.InfiniteTimeSpan);
            Set(handler, "ActivityHeadersPropagator", null);
            if (target.UsesTls)
            {
                Set(handler, "SslOptions", SslOptions(target));
            }
            if (PingsConnections(configuration))
            {
                Set(handler, "KeepAlivePingDelay", configuration.KeepaliveTime);
                Set(handler, "KeepAlivePingTimeout", configuration.KeepaliveTimeout);
                // 0 pings only connections with requests, 1 all of them.
                Set(handler, "KeepAlivePingPolicy", configuration.KeepaliveWithoutCalls ? 1 : 0);
            }
            return handler;
        }

        /// <summary>Makes a request use HTTP/2 and no other version.</summary>
        public static void RequireHttp2(HttpRequestMessage request)
        {
            request.Version = HttpVersion.Version20;
            SetPolicy?.Invoke(request);
        }

        private static void Set(object handler, string name, object? value)
        {
            var property = Sockets.GetProperty(name);
            if (property == null)
            {
                return;
            }
            property.SetValue(
                handler, property.PropertyType.IsEnum ? Enum.ToObject(property.PropertyType, value) : value);
        }

        private static Action<HttpRequestMessage>? PolicySetter()
        {
            var property = typeof(HttpRequestMessage).GetProperty("VersionPolicy");
            if (property == null)
            {
                return null;
            }
            // A delegate of the setter costs a call no reflection.
            var exact = Enum.Parse(property.PropertyType, "RequestVersionExact");
            var create = typeof(Handlers).GetMethod(nameof(Bind), BindingFlags.NonPublic | BindingFlags.Static);
            return (Action<HttpRequestMessage>)create!.MakeGenericMethod(property.PropertyType)
                .Invoke(null, new[] { property.SetMethod, exact })!;
        }

        private static Action<HttpRequestMessage> Bind<TPolicy>(MethodInfo setter, TPolicy policy)
        {
            var set = (Action<HttpRequestMessage, TPolicy>)setter.CreateDelegate(
                typeof(Action<HttpRequestMessage, TPolicy>));
            return request => set(request, policy);
        }

        private static SslClientAuthenticationOptions SslOptions(Target target)
        {
            var options = new SslClientAuthenticationOptions { TargetHost = target.Host };
            if (target.Authority != null)
            {
                options.RemoteCertificateValidationCallback = (_, certificate, chain, errors) =>
                    IsTrusted(target.Authority, certificate, chain, errors);
            }
            return options;
        }

        /// <summary>Returns true if the name of the certificate is right, and one of these CAs has signed it.</summary>
        private static bool IsTrusted(
            X509Certificate2Collection authority, X509Certificate? certificate, X509Chain? sent, SslPolicyErrors errors)
        {
            var others = errors & ~SslPolicyErrors.RemoteCertificateChainErrors;
            if (certificate == null || others != SslPolicyErrors.None)
            {
                return false;
            }
            using var chain = new X509Chain();
            using var own = new X509Certificate2(certificate);
            chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
            chain.ChainPolicy.VerificationFlags = X509VerificationFlags.AllowUnknownCertificateAuthority;
            chain.ChainPolicy.ExtraStore.AddRange(authority);
            if (sent != null)
            {
                foreach (var element in sent.ChainElements)
                {
                    chain.ChainPolicy.ExtraStore.Add(element.Certificate);
                }
            }
            if (!chain.Build(own) || chain.ChainElements.Count == 0)
            {
                return false;
            }
            // The flag above also accepts a chain that ends at another CA.
            var root = chain.ChainElements[chain.ChainElements.Count - 1].Certificate;
            return authority.Cast<X509Certificate2>().Any(each => each.RawData.AsSpan().SequenceEqual(root.RawData));
        }
    }
}
