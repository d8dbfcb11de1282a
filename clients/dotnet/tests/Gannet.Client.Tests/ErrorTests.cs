using System;
using System.IO;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>Common mistakes: each gives an error whose message names the remedy.</summary>
    internal static class ErrorTests
    {
        private static readonly Configuration Once =
            Configurations.Laptop.V1().WithRetryStrategy(new NoRetry()).WithDeadline(TimeSpan.FromSeconds(5));

        private static async Task<CacheError> FailureAsync(
            Task<CacheClient> creating, ErrorCode code, params string[] parts)
        {
            await using var client = await creating;
            var result = await client.GetAsync("k");
            Assert.Equal(code, Assert.Code(result), Assert.Is<IErrorResult>(result).Message);
            var details = Assert.Is<IErrorResult>(result).Details;
            foreach (var part in parts)
            {
                Assert.Contains(part, details.Message);
            }
            return details;
        }

        [Test("error: no server")]
        private static async Task NoServer()
        {
            var address = $"127.0.0.1:{Server.FreePort()}";
            var error = await FailureAsync(
                CacheClient.CreateAsync(address, Once),
                ErrorCode.Unavailable,
                $"no server listens there; start one with `gannet serve --grpc {address}`");
            Assert.True(error.IsRetryable, "it may succeed later");
        }

        [Test("error: the port of another protocol")]
        private static async Task WrongPort()
        {
            var server = await Servers.SharedAsync();
            foreach (var port in new[] { server.Port, server.RespPort })
            {
                await FailureAsync(
                    CacheClient.CreateAsync($"127.0.0.1:{port}", Once),
                    ErrorCode.Unavailable,
                    "does not speak gRPC",
                    "`gannet serve --grpc`, not the port of memcached, Redis");
            }
        }

        [Test("error: an unknown host")]
        private static Task UnknownHost() => FailureAsync(
            CacheClient.CreateAsync("gannet.invalid:1", Once, tls: false),
            ErrorCode.Unavailable,
            "the host name is unknown; correct it");

        [Test("error: TLS to a port without TLS")]
        private static async Task TlsToPlain()
        {
            var server = await Servers.SharedAsync();
            foreach (var port in new[] { server.GrpcPort, server.RespPort })
            {
                await FailureAsync(
                    CacheClient.CreateAsync($"localhost:{port}", Once, tls: true),
                    ErrorCode.Unavailable,
                    "does not use TLS",
                    "pass tls: false");
            }
        }

        [Test("error: plain to a port with TLS")]
        private static async Task PlainToTls() => await FailureAsync(
            CacheClient.CreateAsync((await Servers.TlsAsync()).Address, Once),
            ErrorCode.Unavailable,
            "does not speak gRPC",
            "if the port uses TLS, pass tls: true");

        [Test("error: a certificate of an unknown CA, or for another host")]
        private static async Task UnknownCa()
        {
            var port = (await Servers.TlsAsync()).GrpcPort;
            await FailureAsync(
                CacheClient.CreateAsync($"localhost:{port}", Once, tls: true),
                ErrorCode.Unavailable,
                "was not signed by a known CA",
                "pass caFile: PATH");
            var other = Files.NewFolder("other-ca");
            using (var process = System.Diagnostics.Process.Start(new System.Diagnostics.ProcessStartInfo(
                Path.Combine(Files.Clients, "certificates"), other) { RedirectStandardError = true })!)
            {
                await process.StandardError.ReadToEndAsync();
                process.WaitForExit();
            }
            await FailureAsync(
                CacheClient.CreateAsync($"localhost:{port}", Once, caFile: Path.Combine(other, "ca.crt")),
                ErrorCode.Unavailable,
                "was not signed by a known CA");
            Directory.Delete(other, true);
            // The certificate does not have this address.
            using var relay = new Relay(port, "127.0.0.2");
            await FailureAsync(
                CacheClient.CreateAsync(relay.Address, Once, caFile: Path.Combine(Servers.CertificateFolder, "ca.crt")),
                ErrorCode.Unavailable,
                "or names another host",
                "an address with the host name of the certificate");
        }

        [Test("TLS with the CA of the server")]
        private static async Task Tls()
        {
            var caFile = Path.Combine(Servers.CertificateFolder, "ca.crt");
            var port = (await Servers.TlsAsync()).GrpcPort;
            foreach (var host in new[] { "localhost", "127.0.0.1" })
            {
                await using var client = await CacheClient.CreateAsync($"{host}:{port}", Once, caFile: caFile);
                Assert.Is<DoneResult.Success>(await client.SetAsync("tls", "v"));
                Assert.Equal("v", Assert.Is<GetResult.Hit>(await client.GetAsync("tls")).ValueString);
            }
            await Assert.Throws<FileNotFoundException>(
                () => CacheClient.CreateAsync("localhost:1", caFile: caFile + ".none"));
            var key = Path.Combine(Servers.CertificateFolder, "ca.key");
            var wrong = await Assert.Throws<ArgumentException>(
                () => CacheClient.CreateAsync("localhost:1", caFile: key));
            Assert.Contains("it contains no certificate; give a PEM file with the CA", wrong.Message);
        }

        [Test("TLS is on unless the address is local")]
        private static void TlsByDefault()
        {
            foreach (var (address, tls) in new[]
            {
                ("localhost:1", false), ("127.0.0.1:1", false), ("127.9.9.9:1", false), ("[::1]:1", false),
                ("gannet.invalid:1", true), ("10.0.0.1:1", true), ("[2001:db8::1]:1", true),
            })
            {
                var target = new Engine.Target(address, null, null, CredentialProvider.None(), TimeSpan.FromSeconds(1));
                Assert.Equal(tls, target.UsesTls, address);
            }
        }

        [Test("tokens")]
        private static async Task Tokens()
        {
            await using var server = await Server.StartAsync();
            Assert.Equal("+OK", server.Redis("ACL", "SETUSER", "reader", "on", ">word", "~*", "+get"));
            Assert.Equal("+OK", server.Redis("ACL", "SETUSER", "default", "resetpass", ">secret"));
            Task<CacheClient> CreateAsync(CredentialProvider credentials) =>
                CacheClient.CreateAsync(server.Address, Once, credentials);
            await FailureAsync(
                CreateAsync(CredentialProvider.None()),
                ErrorCode.Unauthenticated,
                "none was passed; pass CredentialProvider.FromString");
            var wrong = await FailureAsync(
                CreateAsync(CredentialProvider.FromString("nope!")),
                ErrorCode.Unauthenticated,
                "does not accept the token");
            Assert.True(!wrong.Message.Contains("nope!") && !wrong.IsRetryable, wrong.Message);
            await using var client = await CreateAsync(CredentialProvider.FromString("secret"));
            Assert.Is<DoneResult.Success>(await client.SetAsync("k", "v"));
            Assert.Is<ListCachesResult.Success>(await client.ListCachesAsync());
            await using var reader = await CreateAsync(CredentialProvider.FromUser("reader", "word"));
            Assert.Equal("v", Assert.Is<GetResult.Hit>(await reader.GetAsync("k")).ValueString);
            var denied = await reader.SetAsync("k", "v");
            Assert.Equal(ErrorCode.PermissionDenied, Assert.Code(denied));
            Assert.True(!Assert.Is<IErrorResult>(denied).Details.IsRetryable, "a right does not come by itself");
            foreach (var part in new[] { "gannet user token", "Tokens.GenerateDisposableTokenAsync", "ACL SETUSER" })
            {
                Assert.Contains(part, Assert.Is<IErrorResult>(denied).Details.Remedy);
            }
        }

        [Test("credentials")]
        private static void Credentials()
        {
            Environment.SetEnvironmentVariable("GANNET_TOKEN_OF_TEST", null);
            var missing = Assert.Throws<ArgumentException>(
                () => CredentialProvider.FromEnvironment("GANNET_TOKEN_OF_TEST"));
            Assert.Contains("export GANNET_TOKEN_OF_TEST=TOKEN", missing.Message);
            Environment.SetEnvironmentVariable("GANNET_TOKEN_OF_TEST", "user:word\n");
            var provider = CredentialProvider.FromEnvironment("GANNET_TOKEN_OF_TEST");
            Assert.Equal("user:word", provider.Token);
            Assert.True(!provider.ToString().Contains("word"), "a log does not show the token");
            Assert.Contains(
                "it is empty",
                Assert.Throws<ArgumentException>(() => CredentialProvider.FromString(string.Empty)).Message);
            Assert.Contains(
                "not printable ASCII",
                Assert.Throws<ArgumentException>(() => CredentialProvider.FromString("a\nb")).Message);
            Assert.Throws<ArgumentException>(() => CredentialProvider.FromUser("a:b", "c"));
            Assert.True(!CredentialProvider.None().HasToken, "there is none");
        }

        [Test("error: arguments and limits of the server")]
        private static async Task Limits()
        {
            await using var client = await Servers.ClientAsync();
            Assert.Equal(ErrorCode.InvalidArgument, Assert.Code(await client.GetAsync(string.Empty)));
            foreach (var (bytes, cause, remedy) in new[]
            {
                (
                    2_000_000,
                    "and the request has 20000",
                    "store less in one item, or raise the limit by --item-max of the server"),
                // The maximum of a message is fixed.
                (12_000_000, "the message is longer than 10 MiB", "send less in one call"),
            })
            {
                var result = await client.SetAsync("too long", new byte[bytes]);
                Assert.Equal(ErrorCode.LimitExceeded, Assert.Code(result), Assert.Is<IErrorResult>(result).Message);
                var details = Assert.Is<IErrorResult>(result).Details;
                Assert.True(!details.IsRetryable, "it fails again");
                Assert.Contains(cause, details.Message);
                Assert.Equal(remedy, details.Remedy);
            }
            Assert.Is<GetResult.Miss>(await client.GetAsync("too long"));
            await client.SetAsync("text", "v");
            var other = await client.ListLengthAsync("text");
            Assert.Equal(ErrorCode.FailedPrecondition, Assert.Code(other));
            Assert.Contains("GetItemTypeAsync", Assert.Is<IErrorResult>(other).Details.Remedy);
            Assert.Equal(0L, client.GetMetrics().Retries);
        }

        [Test("error: a reply above the maximum")]
        private static async Task LongReply()
        {
            await using var client = await Servers.ClientAsync(Servers.Configuration.WithMessageBytesMax(1000));
            await client.SetAsync("reply", new byte[900]);
            Assert.Is<GetResult.Hit>(await client.GetAsync("reply"));
            await using var other = await Servers.ClientAsync();
            await other.SetAsync("reply", new byte[200_000]);
            var result = await client.GetAsync("reply");
            Assert.Equal(ErrorCode.LimitExceeded, Assert.Code(result));
            Assert.Contains("raise MessageBytesMax", Assert.Is<IErrorResult>(result).Message);
            Assert.Is<GetResult.Miss>(await client.GetAsync("no such reply"));
        }

        [Test("error: an address that is none")]
        private static async Task WrongAddress()
        {
            foreach (
                var address in new[]
                {
                    "localhost", "http://localhost:7000", ":7000", "localhost:0", "localhost:x", "a b:1", "::1:7", "h:+1",
                })
            {
                var wrong = await Assert.Throws<ArgumentException>(() => CacheClient.CreateAsync(address));
                Assert.Contains("it is not HOST:PORT; give one", wrong.Message);
            }
            await Assert.Throws<ArgumentOutOfRangeException>(
                () => CacheClient.CreateAsync("localhost:1", defaultTtl: TimeSpan.Zero));
        }

        [Test("error: an address of IPv6 without a server")]
        private static async Task Ipv6()
        {
            await using var client = await CacheClient.CreateAsync("[::1]:7", Once);
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(await client.GetAsync("k")));
        }

        [Test("an error becomes an exception on request")]
        private static async Task ToException()
        {
            await using var client = await Servers.ClientAsync();
            var error = Assert.Is<GetResult.Error>(await client.GetAsync(string.Empty));
            var exception = error.Details.ToException();
            Assert.Equal(error.Message, exception.Message);
            Assert.Equal(error.Details, exception.Error);
            Assert.Equal($"InvalidArgument: {error.Message}", error.Details.ToString());
        }
    }
}
