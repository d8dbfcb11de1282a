using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>Copies of values in the client, and the reports that drop them.</summary>
    internal static class NearCacheTests
    {
        private static TimeSpan Ms(double ms) => TimeSpan.FromMilliseconds(ms);

        private static Configuration Near(int entriesMax = 100, long bytesMax = 100_000, params string[] prefixes) =>
            Servers.Configuration.WithReconnectDelay(Ms(10), Ms(100)).WithRetryStrategy(new NoRetry())
                .WithNearCache(entriesMax, bytesMax, prefixes);

        private static async Task<CacheClient> WatchingAsync(string address, Configuration configuration)
        {
            var client = await CacheClient.CreateAsync(address, configuration);
            Assert.True(await client.WatchNearCacheAsync(Ms(10_000)), "the watch has begun");
            Assert.True(Metrics(client).IsWatching, "the metrics show the watch");
            return client;
        }

        private static NearCacheMetrics Metrics(CacheClient client) => client.GetMetrics().NearCache!;

        private static async Task<string?> ValueAsync(CacheClient client, string key)
        {
            var result = await client.GetAsync(key);
            Assert.True(!(result is IErrorResult), (result as IErrorResult)?.Message ?? string.Empty);
            return (result as GetResult.Hit)?.ValueString;
        }

        [Test("near cache: copies are bounded in number and bytes, and the least recently used give way")]
        private static async Task Bounds()
        {
            await using var client = await WatchingAsync((await Servers.SharedAsync()).Address, Near(3, 100_000, "b:"));
            await using var other = await Servers.ClientAsync();
            foreach (var key in new[] { "b:1", "b:2", "b:3", "b:4", "c:1" })
            {
                await other.SetAsync(key, key);
            }
            await Task.Delay(100);
            async Task<bool> IsHitAsync(string key)
            {
                var before = Metrics(client).Hits;
                Assert.Equal(key, await ValueAsync(client, key));
                return Metrics(client).Hits > before;
            }

            foreach (var key in new[] { "b:1", "b:2", "b:3" })
            {
                Assert.True(!await IsHitAsync(key), "the first read");
            }
            Assert.True(await IsHitAsync("b:1"), "a copy");
            Assert.True(!await IsHitAsync("b:4"), "the first read");
            Assert.Equal((3, 3 * (128 + 6L)), (Metrics(client).Entries, Metrics(client).Bytes));
            Assert.True(await IsHitAsync("b:1") && await IsHitAsync("b:3") && await IsHitAsync("b:4"), "copies");
            Assert.True(!await IsHitAsync("b:2"), "the least recently used one gave way");
            // Keys without a prefix are not reported.
            Assert.True(!await IsHitAsync("c:1") && !await IsHitAsync("c:1"), "no copy of another key");
            await using var small = await WatchingAsync((await Servers.SharedAsync()).Address, Near(100, 1000));
            await other.SetAsync("large", new string('x', 2000));
            await other.SetAsync("half", new string('x', 400));
            await other.SetAsync("other half", new string('x', 400));
            await Task.Delay(100);
            foreach (var key in new[] { "half", "large", "other half" })
            {
                await ValueAsync(small, key);
            }
            Assert.Equal((1, 128 + 10 + 400L), (Metrics(small).Entries, Metrics(small).Bytes));
        }

        [Test("near cache: changes of other clients and protocols drop copies")]
        private static async Task Changes()
        {
            await using var server = await Server.StartAsync();
            await using var client = await WatchingAsync(server.Address, Near());
            server.Redis("SET", "k", "v");
            await Task.Delay(100);
            Assert.Equal("v", await ValueAsync(client, "k"));
            Assert.Equal("v", await ValueAsync(client, "k"));
            await server.PauseAsync();
            Assert.Equal("v", await ValueAsync(client, "k"));
            server.Resume();
            Assert.Equal((2L, 1L, 0L), Counts(client));
            server.Redis("SET", "k", "w");
            await Wait.UntilAsync("the copy is dropped", () => Counts(client) == (2L, 1L, 1L));
            Assert.Equal("w", await ValueAsync(client, "k"));
            Assert.Equal("w", await ValueAsync(client, "k"));
            server.Redis("FLUSHALL");
            await Wait.UntilAsync("the copy is dropped", () => Metrics(client).Entries == 0);
            Assert.Equal(null, await ValueAsync(client, "k"));
        }

        private static (long, long, long) Counts(CacheClient client) =>
            (Metrics(client).Hits, Metrics(client).Misses, Metrics(client).Invalidations);

        [Test("near cache: a client sees its own changes at once")]
        private static async Task OwnChanges()
        {
            await using var server = await Server.StartAsync();
            await using var client = await WatchingAsync(server.Address, Near());
            for (var round = 0; round < 200; round++)
            {
                await client.SetAsync("k", $"{round}");
                Assert.Equal($"{round}", await ValueAsync(client, "k"));
                Assert.Equal($"{round}", await ValueAsync(client, "k"));
                await client.SetBatchAsync(new Dictionary<string, string> { ["k"] = "b" });
                Assert.Equal("b", await ValueAsync(client, "k"));
                await client.SetIfEqualAsync("k", "c", "b");
                Assert.Equal("c", await ValueAsync(client, "k"));
                await client.FlushCacheAsync("default");
                Assert.Equal(null, await ValueAsync(client, "k"));
            }
            await client.IncrementAsync("n", 1);
            Assert.Equal("1", await ValueAsync(client, "n"));
            await client.WithCache("default").IncrementAsync("n", 1);
            Assert.Equal("2", await ValueAsync(client, "n"));
            await client.DeleteAsync("n");
            Assert.Equal(null, await ValueAsync(client, "n"));
            await client.CreateCacheAsync("other");
            Assert.Equal(null, await ValueAsync(client.WithCache("other"), "n"));
        }

        [Test("near cache: a read that a change overtakes leaves no old copy")]
        private static async Task Overtaken()
        {
            await using var server = await Server.StartAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await WatchingAsync(relay.Address, Near());
            await using var other = await CacheClient.CreateAsync(server.Address, Servers.Configuration);
            await other.SetAsync("k", "old");
            // The connection of the watch is the first one.
            await ValueAsync(client, "none");
            await Wait.UntilAsync("both connections are open", () => relay.Gates.Count == 2);
            relay.Gates[1].Hold();
            var reading = client.GetAsync("k");
            await Task.Delay(100);
            await other.SetAsync("k", "new");
            await Task.Delay(100);
            relay.Gates[1].Release();
            Assert.Equal("old", Assert.Is<GetResult.Hit>(await reading).ValueString);
            Assert.Equal("new", await ValueAsync(client, "k"));
            Assert.Equal(0L, Metrics(client).Hits);
        }

        [Test("near cache: while the watch is lost, reads go to the server")]
        private static async Task LostWatch()
        {
            await using var server = await Server.StartAsync();
            await using var client = await WatchingAsync(server.Address, Near());
            await client.SetAsync("k", "v");
            await Wait.UntilAsync("there is a copy", async () =>
            {
                await ValueAsync(client, "k");
                return Metrics(client).Hits > 0;
            });
            await server.KillAsync();
            await Wait.UntilAsync("the copies are dropped", () => !Metrics(client).IsWatching);
            Assert.Equal((0, 0L), (Metrics(client).Entries, Metrics(client).Bytes));
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(await client.GetAsync("k")));
            await server.RestartAsync();
            Assert.True(await client.WatchNearCacheAsync(Ms(10_000)), "the watch begins again");
            await Wait.UntilAsync("reads succeed", async () => await client.GetAsync("k") is GetResult.Miss);
            Assert.True(client.GetMetrics().Resumes >= 1, "the watch was resumed");
        }

        [Test("near cache: a silent network path makes no copy older than its bound")]
        private static async Task Silence()
        {
            await using var server = await Server.StartAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await WatchingAsync(relay.Address, Near().WithKeepalive(TimeSpan.Zero));
            await client.SetAsync("k", "v");
            await Wait.UntilAsync("there is a copy", async () =>
            {
                await ValueAsync(client, "k");
                return Metrics(client).Hits > 0;
            });
            relay.IsSilent = true;
            client.Engine.StreamSilenceMax = Ms(400);
            await Task.Delay(450);
            var hits = Metrics(client).Hits;
            Assert.Equal(ErrorCode.Timeout, Assert.Code(await client.GetAsync("k", Ms(100))));
            Assert.Equal(hits, Metrics(client).Hits);
            relay.IsSilent = false;
        }

        [Test("near cache: a user without the right to watch reads from the server, and the metrics say why")]
        private static async Task Refused()
        {
            await using var server = await Server.StartAsync();
            Assert.Equal("+OK", server.Redis("ACL", "SETUSER", "reader", "on", ">word", "~*", "+get"));
            server.Redis("SET", "k", "v");
            await using var client = await CacheClient.CreateAsync(
                server.Address, Near(), CredentialProvider.FromUser("reader", "word"));
            Assert.Equal(false, await client.WatchNearCacheAsync(Ms(10_000)));
            var error = Metrics(client).WatchError!;
            Assert.Equal(ErrorCode.PermissionDenied, error.Code);
            Assert.Contains("cannot execute WatchKeys", error.Message);
            Assert.Equal("v", await ValueAsync(client, "k"));
            Assert.Equal("v", await ValueAsync(client, "k"));
            Assert.Equal((0L, 2L, 0L), Counts(client));
        }

        [Test("near cache: under changes by others, no read is older than the report of a later change")]
        private static async Task Load()
        {
            await using var server = await Server.StartAsync();
            await using var client = await WatchingAsync(server.Address, Near(50));
            await using var writer = await CacheClient.CreateAsync(server.Address, Servers.Configuration);
            var isOver = false;
            var reads = 0;
            var loads = Enumerable.Range(0, 8).Select(_ => Task.Run(async () =>
            {
                var random = new Random(_);
                var seen = new int[100];
                while (!isOver)
                {
                    var key = random.Next(100);
                    var value = int.Parse(await ValueAsync(client, $"k{key}") ?? "0");
                    // A value may be old, but a reader never goes back by more than a report takes.
                    seen[key] = Math.Max(seen[key], value);
                    Interlocked.Increment(ref reads);
                }
            })).ToList();
            var last = new int[100];
            var random = new Random(1);
            for (var change = 1; change <= 2000; change++)
            {
                var key = random.Next(100);
                await writer.SetAsync($"k{key}", $"{change}");
                last[key] = change;
            }
            await Task.Delay(300);
            for (var key = 0; key < 100; key++)
            {
                Assert.Equal($"{last[key]}", await ValueAsync(client, $"k{key}") ?? "0", $"k{key}");
            }
            isOver = true;
            await Task.WhenAll(loads);
            var metrics = Metrics(client);
            Assert.True(reads > 1000 && metrics.Hits > 100 && metrics.Invalidations > 100, $"{reads} {Counts(client)}");
            Assert.True(metrics.Entries <= 50, $"{metrics.Entries} copies");
        }

        [Test("near cache: bounds are checked, and a client without one has no metrics of it")]
        private static async Task Settings()
        {
            Assert.Throws<ArgumentOutOfRangeException>(() => Near(0));
            Assert.Throws<ArgumentOutOfRangeException>(() => Near(1, 0));
            Assert.Throws<ArgumentException>(() => Near(1, 1, new string('x', 257)));
            Assert.Throws<ArgumentException>(() => Near(1, 1, Enumerable.Repeat("x", 257).ToArray()));
            await using var client = await Servers.ClientAsync();
            Assert.Equal(null, client.GetMetrics().NearCache);
            var none = await Assert.Throws<InvalidOperationException>(() => client.WatchNearCacheAsync(Ms(1)));
            Assert.Contains("create it with Configuration.WithNearCache", none.Message);
            await using (var absent = await CacheClient.CreateAsync($"127.0.0.1:{Server.FreePort()}", Near()))
            {
                Assert.Equal(false, await absent.WatchNearCacheAsync(Ms(50)));
                using var cancelled = new CancellationTokenSource(20);
                await Assert.Throws<OperationCanceledException>(
                    () => absent.WatchNearCacheAsync(Ms(10_000), cancelled.Token));
                var waiting = absent.WatchNearCacheAsync(Ms(60_000));
                await absent.DisposeAsync();
                Assert.Equal(false, await waiting);
            }
            var near = await WatchingAsync((await Servers.SharedAsync()).Address, Near());
            await near.DisposeAsync();
            Assert.Equal(ErrorCode.Cancelled, Assert.Code(await near.GetAsync("k")));
            await Wait.UntilAsync("the watch has ended", () => near.GetMetrics().Streams == 0);
        }
    }
}
