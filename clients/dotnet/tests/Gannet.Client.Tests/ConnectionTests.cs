using System;
using System.Diagnostics;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>Connections: their number, their failures, and their way back.</summary>
    internal static class ConnectionTests
    {
        private static readonly Configuration Once = Servers.Configuration.WithRetryStrategy(new NoRetry());

        private static TimeSpan Ms(double ms) => TimeSpan.FromMilliseconds(ms);

        [Test("connections are as many as the cap needs")]
        private static async Task Number()
        {
            await using var server = await Server.StartAsync();
            foreach (var (inFlight, connections) in new[] { (100, 1), (101, 2), (250, 3) })
            {
                var configuration = Servers.Configuration.WithRequestsInFlightMax(inFlight).WithEagerConnect(true);
                Assert.Equal(connections, configuration.ConnectionsMax);
                await using (var client = await CacheClient.CreateAsync(server.Address, configuration))
                {
                    Assert.Equal(connections, server.Connections());
                    await Task.WhenAll(Enumerable.Range(0, 1000).Select(_ => client.GetAsync("k")));
                    Assert.Equal(connections, server.Connections());
                    Assert.Equal(connections, client.GetMetrics().Connections);
                }
                await Wait.UntilAsync("the connections are closed", () => server.Connections() == 0);
            }
        }

        [Test("few requests use one connection")]
        private static async Task Few()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Servers.Configuration);
            for (var call = 0; call < 20; call++)
            {
                await client.GetAsync("k");
            }
            Assert.Equal((2, 1), (client.GetMetrics().Connections, server.Connections()));
        }

        [Test("eager connect opens all connections before the first call")]
        private static async Task Eager()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(
                server.Address, Configurations.InRegion.Default.V1());
            // The connection by which the test saw that the server listens may end a little later.
            await Wait.UntilAsync("4 connections are open", () => server.Connections() == 4);
        }

        [Test("eager connect does not wait for a server that is not there")]
        private static async Task EagerNowhere()
        {
            var started = Stopwatch.StartNew();
            var configuration = Configurations.InRegion.Default.V1().WithConnectTimeout(Ms(20_000));
            await using var client = await CacheClient.CreateAsync($"127.0.0.1:{Server.FreePort()}", configuration);
            Assert.True(started.ElapsedMilliseconds < 10_000, $"{started.ElapsedMilliseconds} ms");
            Assert.Equal(false, await client.ConnectAsync(Ms(100)));
        }

        [Test("connect waits for a server that starts later")]
        private static async Task ConnectLater()
        {
            await using var server = await Server.StartAsync();
            await server.KillAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Once);
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(await client.GetAsync("k")));
            var connecting = client.ConnectAsync(Ms(10_000));
            await Task.Delay(100);
            await server.RestartAsync();
            Assert.True(await connecting, "the connections are open");
            Assert.Equal(2, server.Connections());
        }

        [Test("a host that does not answer the handshake fails after the time for connecting")]
        private static async Task SilentHost()
        {
            using var silent = new Relay((await Servers.SharedAsync()).GrpcPort) { IsSilent = true };
            await using (var client = await CacheClient.CreateAsync(silent.Address, Once.WithConnectTimeout(Ms(150))))
            {
                for (var call = 0; call < 2; call++)
                {
                    var started = Stopwatch.StartNew();
                    var result = await client.GetAsync("k");
                    Assert.Equal(ErrorCode.Unavailable, Assert.Code(result));
                    Assert.Contains("no connection was opened within 150 ms", Assert.Is<IErrorResult>(result).Message);
                    Assert.True(started.ElapsedMilliseconds < 5000, $"{started.ElapsedMilliseconds} ms");
                }
            }
            await using (var client = await CacheClient.CreateAsync(silent.Address, Once))
            {
                var late = await client.GetAsync("k", Ms(50));
                Assert.Equal(ErrorCode.Timeout, Assert.Code(late));
                Assert.Contains(
                    "the deadline of 50 ms passed before a connection was open; raise the deadline of",
                    Assert.Is<IErrorResult>(late).Message);
            }
            silent.IsSilent = false;
            await Wait.UntilAsync("no socket is left open", () => silent.Gates.All(gate => !gate.IsOpen));
        }

        [Test("a client reconnects after kill -9, within the longest delay")]
        private static async Task Kill()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Once);
            Assert.True(await client.ConnectAsync(Ms(5000)), "the connections are open");
            for (var round = 0; round < 3; round++)
            {
                Assert.Is<DoneResult.Success>(await client.SetAsync("k", "v"));
                await server.KillAsync();
                Assert.Equal(ErrorCode.Unavailable, Assert.Code(await client.GetAsync("k")));
                await Task.Delay(300);
                Assert.Equal(ErrorCode.Unavailable, Assert.Code(await client.GetAsync("k")));
                await server.RestartAsync();
                var started = Stopwatch.StartNew();
                await Wait.UntilAsync(
                    "the client connects again", async () => await client.GetAsync("k") is GetResult.Miss);
                Assert.True(started.ElapsedMilliseconds < 1500, $"{started.ElapsedMilliseconds} ms");
                Assert.True(server.Connections() <= 2, $"{server.Connections()} connections");
            }
        }

        [Test("calls in flight end when the server is killed")]
        private static async Task KillInFlight()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Once);
            Assert.True(await client.ConnectAsync(Ms(5000)), "the connections are open");
            await server.PauseAsync();
            var calls = Enumerable.Range(0, 150).Select(_ => client.GetAsync("k")).ToList();
            await Task.Delay(100);
            await server.KillAsync();
            var results = await Task.WhenAll(calls);
            Assert.True(results.All(each => Assert.Code(each) == ErrorCode.Unavailable), results[0].ToString()!);
            Assert.Equal((0, 0), (client.GetMetrics().InFlight, client.GetMetrics().Queued));
        }

        [Test("an orderly stop of the server (GOAWAY) fails no call that it has accepted")]
        private static async Task GoAway()
        {
            await using var server = await Server.StartAsync();
            var configuration = Servers.Configuration.WithRetryStrategy(new FixedTimeout(Ms(10))).WithRetryBudget(
                new RetryBudget(10, 100_000));
            await using var client = await CacheClient.CreateAsync(server.Address, configuration);
            Assert.True(await client.ConnectAsync(Ms(5000)), "the connections are open");
            var isOver = false;
            var loads = Enumerable.Range(0, 50).Select(number => Task.Run(async () =>
            {
                var calls = 0;
                for (; !isOver; calls++)
                {
                    Assert.Is<DoneResult.Success>(await client.SetAsync($"k{number}", "v"));
                }
                return calls;
            })).ToList();
            await Task.Delay(200);
            await server.StopAsync();
            await Task.Delay(100);
            await server.RestartAsync();
            await Task.Delay(300);
            isOver = true;
            var counts = await Task.WhenAll(loads);
            Assert.True(counts.All(count => count > 0), "each load had calls");
            Assert.True(server.Connections() <= 2, $"{server.Connections()} connections");
        }

        private static async Task SilentPath(TimeSpan time, TimeSpan timeout, int withinMs)
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Once.WithKeepalive(time, timeout));
            Assert.Is<GetResult.Miss>(await client.GetAsync("no such key"));
            await Task.Delay(time * 2.5);
            Assert.Is<GetResult.Miss>(await client.GetAsync("no such key"));
            Assert.Equal(1, relay.Gates.Count);
            relay.IsSilent = true;
            var started = Stopwatch.StartNew();
            var result = await client.GetAsync("k");
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(result), Assert.Is<IErrorResult>(result).Message);
            Assert.True(started.ElapsedMilliseconds < withinMs, $"{started.ElapsedMilliseconds} ms");
            relay.IsSilent = false;
            await Wait.UntilAsync(
                "the client connects again", async () => await client.GetAsync("no such key") is GetResult.Miss);
        }

        [Test("checks find a silent network path before the deadline")]
        private static Task SilentChecks() => SilentPath(Ms(200), Ms(200), 3000);

        [Test("keepalive with whole seconds finds a silent network path before the deadline")]
        private static Task SilentPings() => SilentPath(Ms(1000), Ms(1000), 6000);

        [Test("an idle connection whose path is silent is closed, and the next call succeeds")]
        private static async Task SilentIdle()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Once.WithKeepalive(Ms(100), Ms(100)));
            Assert.Is<GetResult.Miss>(await client.GetAsync("no such key"));
            relay.IsSilent = true;
            await Task.Delay(800);
            relay.IsSilent = false;
            Assert.Is<GetResult.Miss>(await client.GetAsync("no such key"));
            Assert.Equal(2, relay.Gates.Count);
            // The relay sees the end only when it reads again.
            await Wait.UntilAsync("the silent connection is closed", () => !relay.Gates[0].IsOpen);
        }

        [Test("checks are off without a keepalive time, and on idle connections only if wanted")]
        private static async Task NoChecks()
        {
            var server = await Servers.SharedAsync();
            foreach (var configuration in new[]
            {
                Once.WithKeepalive(TimeSpan.Zero), Once.WithKeepalive(Ms(50), Ms(50), withoutCalls: false),
            })
            {
                using var relay = new Relay(server.GrpcPort);
                await using var client = await CacheClient.CreateAsync(relay.Address, configuration);
                Assert.Is<GetResult.Miss>(await client.GetAsync("no such key"));
                relay.IsSilent = true;
                await Task.Delay(300);
                relay.IsSilent = false;
                Assert.Is<GetResult.Miss>(await client.GetAsync("no such key"));
                Assert.Equal(1, relay.Gates.Count);
            }
        }

        [Test("a connection that is cut in the middle of replies leaves no place taken")]
        private static async Task Cuts()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Servers.Configuration);
            var isOver = false;
            var (good, bad) = (0, 0);
            var loads = Enumerable.Range(0, 20).Select(_ => Task.Run(async () =>
            {
                while (!isOver)
                {
                    var result = await client.GetBatchAsync(new[] { "a", "b", "c" });
                    if (result is GetBatchResult.Success)
                    {
                        System.Threading.Interlocked.Increment(ref good);
                        continue;
                    }
                    Assert.Equal(ErrorCode.Unavailable, Assert.Code(result), Assert.Is<IErrorResult>(result).Message);
                    System.Threading.Interlocked.Increment(ref bad);
                    await Task.Delay(1);
                }
            })).ToList();
            for (var cut = 0; cut < 10; cut++)
            {
                var before = good;
                await Wait.UntilAsync("calls succeed again", () => good > before + 20);
                relay.Cut();
            }
            isOver = true;
            await Task.WhenAll(loads);
            Assert.True(
                good > 200 && relay.Gates.Count >= 10, $"{good} good, {bad} bad, {relay.Gates.Count} connections");
            Assert.Equal((0, 0), (client.GetMetrics().InFlight, client.GetMetrics().Queued));
            await Wait.UntilAsync(
                "the client connects again", async () => await client.GetAsync("no such key") is GetResult.Miss);
        }

        [Test("an HTTP/1.1 server is not taken for one of gRPC")]
        private static async Task WebServer()
        {
            var listener = new TcpListener(IPAddress.Loopback, 0);
            listener.Start();
            _ = Task.Run(async () =>
            {
                while (true)
                {
                    using var socket = await listener.AcceptSocketAsync();
                    await socket.ReceiveAsync(new byte[1000], SocketFlags.None);
                    await socket.SendAsync(
                        System.Text.Encoding.ASCII.GetBytes("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
                        SocketFlags.None);
                    await Task.Delay(50);
                }
            });
            await using var client = await CacheClient.CreateAsync(listener.LocalEndpoint.ToString()!, Once);
            var result = await client.GetAsync("k");
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(result));
            Assert.Contains("does not speak gRPC", Assert.Is<IErrorResult>(result).Message);
            listener.Stop();
        }
    }
}
