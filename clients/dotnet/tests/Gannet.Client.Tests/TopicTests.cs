using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;

namespace Gannet.Client.Tests
{
    /// <summary>Publishing, subscriptions, and their ends.</summary>
    internal static class TopicTests
    {
        private static TimeSpan Ms(double ms) => TimeSpan.FromMilliseconds(ms);

        // Delays short enough for tests.
        private static readonly Configuration Quick = Servers.Configuration.WithReconnectDelay(Ms(10), Ms(100));

        /// <summary>A loop over a subscription, which collects its events.</summary>
        private sealed class Reader
        {
            private readonly List<TopicEvent> events = new List<TopicEvent>();

            public Reader(SubscribeResult.Subscription subscription)
            {
                Subscription = subscription;
                End = ReadAsync();
            }

            public SubscribeResult.Subscription Subscription { get; }

            public Task End { get; }

            public IReadOnlyList<TopicEvent> Events
            {
                get
                {
                    lock (events)
                    {
                        return events.ToList();
                    }
                }
            }

            public IReadOnlyList<string> Values =>
                Events.OfType<TopicEvent.Item>().Select(each => each.ValueString).ToList();

            public Task UntilAsync(string value) =>
                Wait.UntilAsync($"'{value}' arrives", () => Values.Contains(value));

            public async Task<CacheError> ErrorAsync()
            {
                await Wait.UntilAsync("the subscription ends", () => End.IsCompleted);
                var error = Assert.Is<TopicEvent.Error>(Events.Last());
                Assert.Code(error);
                return error.Details;
            }

            private async Task ReadAsync()
            {
                await foreach (var each in Subscription)
                {
                    lock (events)
                    {
                        events.Add(each);
                    }
                }
            }
        }

        private static async Task<Reader> SubscribeAsync(
            CacheClient client, string topic, TopicPosition? from = null, CancellationToken cancellation = default) =>
            new Reader(Assert.Is<SubscribeResult.Subscription>(
                await client.Topics.SubscribeAsync(topic, from, cancellationToken: cancellation)));

        private static async Task PublishAsync(CacheClient client, string topic, params string[] values)
        {
            foreach (var value in values)
            {
                Assert.Is<DoneResult.Success>(await client.Topics.PublishAsync(topic, value));
            }
        }

        [Test("topic: text and bytes arrive in order, with consecutive numbers")]
        private static async Task Messages()
        {
            await using var client = await Servers.ClientAsync();
            var reader = await SubscribeAsync(client, "mixed");
            var other = await SubscribeAsync(client, "other");
            await PublishAsync(client, "mixed", "ü", string.Empty);
            Assert.Is<DoneResult.Success>(await client.Topics.PublishAsync("mixed", new byte[] { 0, 255 }));
            await PublishAsync(client, "mixed", "last");
            await reader.UntilAsync("last");
            Assert.Is<TopicEvent.Heartbeat>(reader.Events[0]);
            var items = reader.Events.OfType<TopicEvent.Item>().ToList();
            Assert.Equal(new ulong[] { 1, 2, 3, 4 }, items.Select(each => each.Sequence));
            Assert.Equal(1, items.Select(each => each.Page).Distinct().Count());
            Assert.Equal(new[] { true, true, false, true }, items.Select(each => each.IsText));
            Assert.Equal(Encoding.UTF8.GetBytes("ü"), items[0].ValueBytes.ToArray());
            Assert.Equal(new byte[] { 0, 255 }, items[2].ValueBytes.ToArray());
            Assert.Equal(("ü", string.Empty, string.Empty), (items[0].ValueString, items[1].ValueString, items[0].PublisherId));
            Assert.Equal(new TopicPosition(5, items[0].Page), reader.Subscription.Next);
            Assert.Equal(0, other.Values.Count);
            // A later subscription continues anywhere.
            var again = await SubscribeAsync(client, "mixed", new TopicPosition(3, items[0].Page));
            await again.UntilAsync("last");
            Assert.Equal(2, again.Values.Count);
            var all = await SubscribeAsync(client, "mixed", TopicPosition.Oldest);
            await all.UntilAsync("last");
            Assert.Equal(4, all.Values.Count);
        }

        [Test("topic: a subscription whose connection is cut continues without a gap or a repetition")]
        private static async Task Cut()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var publisher = await Servers.ClientAsync();
            await using var client = await CacheClient.CreateAsync(relay.Address, Quick);
            var reader = await SubscribeAsync(client, "cut");
            var sent = 0;
            for (var round = 0; round < 5; round++)
            {
                for (var message = 0; message < 20; message++)
                {
                    await PublishAsync(publisher, "cut", $"{++sent}");
                }
                await reader.UntilAsync($"{sent}");
                relay.Cut();
                await PublishAsync(publisher, "cut", $"{++sent}");
            }
            await reader.UntilAsync($"{sent}");
            Assert.Equal(Enumerable.Range(1, sent).Select(each => $"{each}"), reader.Values);
            Assert.Equal(0, reader.Events.OfType<TopicEvent.Discontinuity>().Count());
            Assert.True(relay.Gates.Count > 5, $"{relay.Gates.Count} connections");
        }

        [Test("topic: a subscription outlives a crash of the server, and reports the lost messages")]
        private static async Task Crash()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Quick);
            var reader = await SubscribeAsync(client, "crash");
            await PublishAsync(client, "crash", "before");
            await reader.UntilAsync("before");
            await server.KillAsync();
            await Task.Delay(200);
            await server.RestartAsync();
            await Wait.UntilAsync("the subscription continues", async () =>
            {
                await client.Topics.PublishAsync("crash", "after");
                return reader.Values.Contains("after");
            });
            var gap = Assert.Is<TopicEvent.Discontinuity>(
                reader.Events.First(each => each is TopicEvent.Discontinuity));
            var after = reader.Events.OfType<TopicEvent.Item>().First(each => each.ValueString == "after");
            Assert.Equal((gap.NewSequence, gap.NewPage), (after.Sequence, after.Page));
            Assert.True(after.Page > reader.Events.OfType<TopicEvent.Item>().First().Page, "a later page");
        }

        [Test("topic: an orderly stop of the server breaks no subscription")]
        private static async Task Stop()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Quick);
            var reader = await SubscribeAsync(client, "stop");
            await server.StopAsync();
            await server.RestartAsync();
            await Wait.UntilAsync("the subscription continues", async () =>
            {
                await client.Topics.PublishAsync("stop", "after");
                return reader.Values.Contains("after");
            });
        }

        [Test("topic: a slow reader holds back the server, not memory")]
        private static async Task SlowReader()
        {
            await using var client = await Servers.ClientAsync();
            await using var subscription = Assert.Is<SubscribeResult.Subscription>(
                await client.Topics.SubscribeAsync("slow"));
            const int Count = 800;
            var value = new string('x', 20_000);
            for (var message = 0; message < Count; message++)
            {
                await PublishAsync(client, "slow", value);
            }
            var (items, gaps) = (0, new List<TopicEvent.Discontinuity>());
            await foreach (var each in subscription)
            {
                items += each is TopicEvent.Item ? 1 : 0;
                if (each is TopicEvent.Discontinuity gap)
                {
                    gaps.Add(gap);
                }
                if (subscription.Next?.Sequence == Count + 1)
                {
                    break;
                }
            }
            // The server has kept 1 MiB, and the windows hold less than a tenth of all messages.
            Assert.Equal(1, gaps.Count);
            Assert.True(items > 20 && items < Count / 2, $"{items} messages");
            Assert.Equal((ulong)items, Count - (gaps[0].NewSequence - gaps[0].LastSequence - 1));
        }

        [Test("topic: subscriptions take no places of requests in flight")]
        private static async Task Places()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Quick.WithRequestsInFlightMax(1));
            var readers = new List<Reader>();
            for (var number = 0; number < 150; number++)
            {
                readers.Add(await SubscribeAsync(client, $"topic {number}"));
            }
            Assert.Equal((0, 0, 150), Counts(client));
            Assert.Is<GetResult.Miss>(await client.GetAsync("k"));
            // A stream of each connection is left for checks: 99 and 51, beside the connection of the requests.
            Assert.Equal(3, server.Connections());
            await PublishAsync(client, "topic 0", "first");
            await PublishAsync(client, "topic 149", "last");
            await readers[0].UntilAsync("first");
            await readers[149].UntilAsync("last");
            foreach (var reader in readers)
            {
                await reader.Subscription.DisposeAsync();
            }
            await Task.WhenAll(readers.Select(each => each.End));
            Assert.Equal((0, 0, 0), Counts(client));
            await Wait.UntilAsync("their connections are closed", () => server.Connections() == 1);
        }

        private static (int, int, int) Counts(CacheClient client)
        {
            var metrics = client.GetMetrics();
            return (metrics.InFlight, metrics.Queued, metrics.Streams);
        }

        [Test("topic: a silent network path is found, and the subscription continues on another connection")]
        private static async Task Silence()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var publisher = await Servers.ClientAsync();
            await using var client = await CacheClient.CreateAsync(
                relay.Address, Quick.WithKeepalive(Ms(200), Ms(200)).WithConnectTimeout(Ms(500)));
            var reader = await SubscribeAsync(client, "silence");
            await PublishAsync(publisher, "silence", "before");
            await reader.UntilAsync("before");
            relay.IsSilent = true;
            await PublishAsync(publisher, "silence", "meanwhile");
            await Wait.UntilAsync("the client connects again", () => relay.Gates.Count > 1);
            relay.IsSilent = false;
            await reader.UntilAsync("meanwhile");
            Assert.Equal(new[] { "before", "meanwhile" }, reader.Values);
        }

        [Test("topic: a server that sends no heartbeats is given up without keepalive too")]
        private static async Task NoHeartbeats()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(
                server.Address, Quick.WithKeepalive(TimeSpan.Zero).WithConnectTimeout(Ms(300)));
            client.Engine.StreamSilenceMax = Ms(300);
            var reader = await SubscribeAsync(client, "silence");
            await server.PauseAsync();
            await Wait.UntilAsync("the stream is given up", () => client.GetMetrics().Streams == 0);
            server.Resume();
            await Wait.UntilAsync("it is open again", () => client.GetMetrics().Streams == 1);
            Assert.True(!reader.End.IsCompleted, "the subscription goes on");
        }

        [Test("topic: a stream that is silent leaves the connection, although another stream of it is not")]
        private static async Task SilentBesideAnother()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var publisher = await Servers.ClientAsync();
            await using var client =
                await CacheClient.CreateAsync(relay.Address, Quick.WithKeepalive(TimeSpan.Zero));
            client.Engine.StreamSilenceMax = Ms(500);
            await SubscribeAsync(client, "silent beside");
            await SubscribeAsync(client, "busy beside");
            var before = relay.Gates.Count;
            for (var at = 0; at < 40 && relay.Gates.Count == before; at++)
            {
                await PublishAsync(publisher, "busy beside", "a");
                await Task.Delay(50);
            }
            Assert.True(relay.Gates.Count > before, "it has a connection of its own");
        }

        [Test("topic: an event of a later schema is skipped")]
        private static void LaterSchema()
        {
            // The field 15 of the schema, which is empty.
            var reply = new byte[] { (15 << 3) | 2, 0 };
            Assert.True(new TopicSource("t", null).EventOf(reply) == null, "a topic");
            var report = new WatchKeysSource(new List<Bytes>()).EventOf(reply);
            Assert.True(report.Keys.Count == 0 && !report.IsOfAll, "a watch");
        }

        [Test("topic: streams end by the statuses of the table that all clients share")]
        private static void Statuses()
        {
            // The numbers of gRPC.
            var names = new[]
            {
                "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
                "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
                "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
            };
            var table = File.ReadAllText(Path.Combine(Files.Repository, "clients/streams.toml"));
            var lasting = table.Substring(table.IndexOf("lasting = [", StringComparison.Ordinal));
            lasting = lasting.Substring(0, lasting.IndexOf(']'));
            for (var status = 0; status < names.Length; status++)
            {
                Assert.True(table.Contains($"\"{names[status]}\"", StringComparison.Ordinal), names[status]);
                var isLasting = lasting.Contains($"\"{names[status]}\"", StringComparison.Ordinal);
                Assert.Equal((names[status], isLasting), (names[status], GrpcStatus.IsLasting(status)));
            }
        }

        [Test("topic: a subscription ends without an error when its reader wants")]
        private static async Task Ends()
        {
            await using var client = await Servers.ClientAsync();
            var disposed = await SubscribeAsync(client, "ends");
            await disposed.Subscription.DisposeAsync();
            await disposed.Subscription.DisposeAsync();
            using var source = new CancellationTokenSource();
            var cancelled = await SubscribeAsync(client, "ends", null, source.Token);
            source.Cancel();
            using var other = new CancellationTokenSource();
            var waiting = Assert.Is<SubscribeResult.Subscription>(await client.Topics.SubscribeAsync("ends"));
            var loop = Task.Run(async () =>
            {
                await foreach (var each in waiting.WithCancellation(other.Token))
                {
                    Assert.Is<TopicEvent.Heartbeat>(each);
                    other.CancelAfter(50);
                }
            });
            var left = Assert.Is<SubscribeResult.Subscription>(await client.Topics.SubscribeAsync("ends"));
            await foreach (var _ in left)
            {
                break;
            }
            var unread = Assert.Is<SubscribeResult.Subscription>(await client.Topics.SubscribeAsync("ends"));
            await unread.DisposeAsync();
            await Wait.UntilAsync("all have ended", () => Task.WhenAll(disposed.End, cancelled.End, loop).IsCompleted);
            await loop;
            Assert.True(!disposed.Events.Concat(cancelled.Events).Any(each => each is TopicEvent.Error), "no error");
            Assert.Equal(0, client.GetMetrics().Streams);
            var last = await SubscribeAsync(client, "ends");
            await client.DisposeAsync();
            await Wait.UntilAsync("it has ended", () => last.End.IsCompleted);
            Assert.True(!last.Events.Any(each => each is TopicEvent.Error), "no error");
            Assert.Equal(ErrorCode.Cancelled, Assert.Code(await client.Topics.SubscribeAsync("ends")));
        }

        [Test("topic: two readers of one subscription at once are refused")]
        private static async Task TwoReaders()
        {
            await using var client = await Servers.ClientAsync();
            var reader = await SubscribeAsync(client, "two");
            await Wait.UntilAsync("it reads", () => reader.Events.Count == 1);
            var thrown = await Assert.Throws<InvalidOperationException>(async () =>
            {
                await foreach (var _ in reader.Subscription)
                {
                    break;
                }
            });
            Assert.Contains("use one reader", thrown.Message);
        }

        [Test("topic: errors that do not pass end a subscription")]
        private static async Task Errors()
        {
            await using var server = await Server.StartAsync();
            Assert.Equal("+OK", server.Redis("ACL", "SETUSER", "reader", "on", ">word", "~*", "&*", "+@all"));
            await using var client = await CacheClient.CreateAsync(server.Address, Quick);
            await using var user = await CacheClient.CreateAsync(
                server.Address, Quick, CredentialProvider.FromUser("reader", "word"));
            await using var stranger = await CacheClient.CreateAsync(
                server.Address, Quick, CredentialProvider.FromUser("reader", "wrong"));
            async Task RefusedAsync(CacheClient of, string topic, ErrorCode code, string part)
            {
                var refused = Assert.Is<SubscribeResult.Error>(await of.Topics.SubscribeAsync(topic));
                Assert.Equal(code, Assert.Code(refused), refused.Message);
                Assert.Contains(part, refused.Message);
            }

            await RefusedAsync(client.WithCache("absent"), "t", ErrorCode.NotFoundCache, "CreateCacheAsync");
            await RefusedAsync(client, string.Empty, ErrorCode.InvalidArgument, "1 to 1024 bytes");
            await RefusedAsync(stranger, "t", ErrorCode.Unauthenticated, "does not accept the token");
            await client.CreateCacheAsync("shop");
            var ofCache = await SubscribeAsync(client.WithCache("shop"), "t");
            var ofUser = await SubscribeAsync(user, "t");
            await client.DeleteCacheAsync("shop");
            Assert.Equal(ErrorCode.NotFoundCache, (await ofCache.ErrorAsync()).Code);
            Assert.Equal("+OK", server.Redis("ACL", "SETUSER", "reader", "-subscribe"));
            Assert.Equal(ErrorCode.PermissionDenied, (await ofUser.ErrorAsync()).Code);
            await RefusedAsync(user, "t", ErrorCode.PermissionDenied, "create a token with this permission");
            Assert.Equal(0, client.GetMetrics().Streams);
        }

        [Test("topic: a subscription to no server fails within its deadline, and names the remedy")]
        private static async Task NoServer()
        {
            var address = $"127.0.0.1:{Server.FreePort()}";
            await using var client = await CacheClient.CreateAsync(address, Quick);
            var refused = Assert.Is<SubscribeResult.Error>(await client.Topics.SubscribeAsync("t"));
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(refused));
            Assert.Contains($"start one with `gannet serve --grpc {address}`", refused.Message);
            using var silent = new Relay((await Servers.SharedAsync()).GrpcPort) { IsSilent = true };
            await using var other = await CacheClient.CreateAsync(silent.Address, Quick);
            var late = await other.Topics.SubscribeAsync("t", deadline: Ms(100));
            Assert.Contains("check the address, the network", Assert.Is<SubscribeResult.Error>(late).Message);
            Assert.Equal(0, other.GetMetrics().Streams);
            await Assert.Throws<ArgumentNullException>(() => client.Topics.SubscribeAsync(null!));
            await Assert.Throws<ArgumentOutOfRangeException>(
                () => client.Topics.SubscribeAsync("t", deadline: TimeSpan.FromSeconds(-1)));
        }

        [Test("topic: a wrong port, wrong TLS and a missing token name their remedies")]
        private static async Task Mistakes()
        {
            var shared = await Servers.SharedAsync();
            var tls = await Servers.TlsAsync();
            await using var server = await Server.StartAsync();
            Assert.Equal("+OK", server.Redis("ACL", "SETUSER", "default", "resetpass", ">secret"));
            foreach (var (address, usesTls, code, remedy) in new[]
            {
                ($"127.0.0.1:{shared.RespPort}", false, ErrorCode.Unavailable, "not the port of memcached, Redis"),
                (tls.Address, false, ErrorCode.Unavailable, "if the port uses TLS, pass tls: true"),
                (shared.Address, true, ErrorCode.Unavailable, "pass tls: false"),
                (server.Address, false, ErrorCode.Unauthenticated, "pass CredentialProvider.FromString"),
            })
            {
                await using var client = await CacheClient.CreateAsync(address, Quick, tls: usesTls);
                var refused = Assert.Is<SubscribeResult.Error>(await client.Topics.SubscribeAsync("t"));
                Assert.Equal(code, Assert.Code(refused), refused.Message);
                Assert.Contains(remedy, refused.Message);
                Assert.Equal(0, client.GetMetrics().Streams);
            }
        }

        [Test("topic: a subscription that ends at any instant leaves no stream open")]
        private static async Task EndAtAnyInstant()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var publisher = await Servers.ClientAsync();
            await using var client = await CacheClient.CreateAsync(relay.Address, Quick);
            var random = new Random(11);
            var isOver = false;
            var publishing = Task.Run(async () =>
            {
                while (!isOver)
                {
                    await publisher.Topics.PublishAsync("instant", "v");
                }
            });
            var (ended, refused) = (0, 0);
            for (var round = 0; round < 150; round++)
            {
                using var source = new CancellationTokenSource();
                source.CancelAfter(random.Next(1, 20));
                if (round % 10 == 0)
                {
                    relay.Cut();
                }
                var result = await client.Topics.SubscribeAsync("instant", cancellationToken: source.Token);
                if (!(result is SubscribeResult.Subscription subscription))
                {
                    refused++;
                    continue;
                }
                var reader = new Reader(subscription);
                if (random.Next(2) == 0)
                {
                    await Task.Delay(random.Next(5));
                    await subscription.DisposeAsync();
                }
                await reader.End;
                ended++;
            }
            isOver = true;
            await publishing;
            Assert.True(ended > 50, $"{ended} ended, {refused} were refused");
            await Wait.UntilAsync("no stream is open", () => client.GetMetrics().Streams == 0);
            // The client is as good as new.
            var last = await SubscribeAsync(client, "instant");
            await PublishAsync(publisher, "instant", "last");
            await last.UntilAsync("last");
        }
    }
}
