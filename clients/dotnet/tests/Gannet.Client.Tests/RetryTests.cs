using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>Retries by verb, their strategies and budget, and hedged reads, against a real server.</summary>
    internal static class RetryTests
    {
        private static string Nowhere() => $"127.0.0.1:{Server.FreePort()}";

        private static TimeSpan Ms(double ms) => TimeSpan.FromMilliseconds(ms);

        [Test("only idempotent calls are repeated")]
        private static async Task Idempotent()
        {
            await using var client = await CacheClient.CreateAsync(Nowhere(), Servers.Configuration);
            var steps = new (Func<Task<object>> Call, long Retries)[]
            {
                (async () => await client.GetAsync("k"), 3),
                (async () => await client.SetAsync("k", "v"), 6),
                (async () => await client.GetBatchAsync(new[] { "k" }), 9),
                (async () => await client.IncrementAsync("k"), 9),
                (async () => await client.ListPushBackAsync("k", "v"), 9),
                (async () => await client.SetIfAbsentAsync("k", "v"), 9),
                (async () => await client.UpdateTtlAsync("k", Ms(1000)), 9),
                (async () => await client.SetPopAsync("k"), 9),
            };
            foreach (var (call, retries) in steps)
            {
                Assert.Equal(ErrorCode.Unavailable, Assert.Code(await call()));
                Assert.Equal(retries, client.GetMetrics().Retries);
            }
        }

        [Test("each retry reaches the server's port")]
        private static async Task CountedAtThePort()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Servers.Configuration);
            Assert.Is<DoneResult.Success>(await client.SetAsync("counted", "v"));
            Assert.Equal(1, relay.Gates.Count);
            relay.Gates[0].Hold();
            var call = client.GetAsync("counted");
            await Wait.UntilAsync("the call is sent", () => client.GetMetrics().InFlight == 1);
            await Task.Delay(50);
            relay.Gates[0].Close();
            Assert.Equal("v", Assert.Is<GetResult.Hit>(await call).ValueString);
            Assert.Equal((1L, 2), (client.GetMetrics().Retries, relay.Gates.Count));
            // A call that is not idempotent fails instead.
            relay.Gates[1].Hold();
            var increment = client.IncrementAsync("counted number");
            await Wait.UntilAsync("the call is sent", () => client.GetMetrics().InFlight == 1);
            await Task.Delay(50);
            relay.Gates[1].Close();
            var failed = await increment;
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(failed));
            Assert.Contains("the server closed the connection", Assert.Is<IErrorResult>(failed).Message);
            Assert.Equal(1L, client.GetMetrics().Retries);
        }

        [Test("no retry")]
        private static async Task NoRetries()
        {
            await using var client = await CacheClient.CreateAsync(
                Nowhere(), Servers.Configuration.WithRetryStrategy(new NoRetry()));
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(await client.GetAsync("k")));
            Assert.Equal(0L, client.GetMetrics().Retries);
        }

        private sealed class Broken : RetryStrategy
        {
            public override TimeSpan? Delay(int retries, TimeSpan previous) =>
                throw new InvalidOperationException("broken");
        }

        [Test("an exception of a strategy reaches the caller and leaks no place")]
        private static async Task BrokenStrategy()
        {
            await using var client = await CacheClient.CreateAsync(
                Nowhere(), Servers.Configuration.WithRetryStrategy(new Broken()));
            await Assert.Throws<InvalidOperationException>(() => client.GetAsync("k"));
            Assert.Equal(ErrorCode.Unavailable, Assert.Code(await client.IncrementAsync("k")));
            Assert.Equal(0, client.GetMetrics().InFlight);
        }

        [Test("errors of the server are not repeated")]
        private static async Task ServerErrors()
        {
            await using var client = await Servers.ClientAsync();
            await client.ListPushBackAsync("l", "a");
            Assert.Equal(ErrorCode.FailedPrecondition, Assert.Code(await client.GetAsync("l")));
            Assert.Equal(0L, client.GetMetrics().Retries);
        }

        private static async Task OutlastsRestart(RetryStrategy strategy)
        {
            await using var server = await Server.StartAsync();
            var configuration = Servers.Configuration.WithRetryStrategy(strategy).WithRetryBudget(
                new RetryBudget(10, 1000));
            await using var client = await CacheClient.CreateAsync(server.Address, configuration);
            Assert.Is<DoneResult.Success>(await client.SetAsync("k", "v"));
            await server.KillAsync();
            var call = client.SetAsync("k", "w");
            await Task.Delay(100);
            await server.RestartAsync();
            Assert.Is<DoneResult.Success>(await call);
            Assert.True(client.GetMetrics().Retries > 0, "there was a retry");
            Assert.Equal("w", Assert.Is<GetResult.Hit>(await client.GetAsync("k")).ValueString);
        }

        [Test("a call outlasts a restart of the server with FixedTimeout")]
        private static Task FixedTimeoutOutlasts() => OutlastsRestart(new FixedTimeout(Ms(20)));

        [Test("a call outlasts a restart of the server with ExponentialBackoff")]
        private static Task BackoffOutlasts() => OutlastsRestart(new ExponentialBackoff(null, Ms(50)));

        [Test("the budget bounds the retries")]
        private static async Task Budget()
        {
            var configuration = Servers.Configuration.WithRetryBudget(new RetryBudget(10, 5));
            await using var client = await CacheClient.CreateAsync(Nowhere(), configuration);
            for (var call = 0; call < 100; call++)
            {
                Assert.Is<GetResult.Error>(await client.GetAsync("k"));
            }
            var retries = client.GetMetrics().Retries;
            Assert.True(retries >= 5 + 8 && retries <= 5 + 10, $"{retries}");
        }

        [Test("a token bucket holds at most its burst")]
        private static void Bucket()
        {
            var bucket = new TokenBucket(new RetryBudget(10, 2));
            Assert.Equal(new[] { true, true, false }, new[] { bucket.Take(), bucket.Take(), bucket.Take() });
            for (var share = 0; share < 10; share++)
            {
                bucket.Add();
            }
            Assert.Equal(new[] { true, false }, new[] { bucket.Take(), bucket.Take() });
            for (var share = 0; share < 100; share++)
            {
                bucket.Add();
            }
            Assert.Equal(new[] { true, true, false }, new[] { bucket.Take(), bucket.Take(), bucket.Take() });
        }

        [Test("delays of the strategies")]
        private static void Delays()
        {
            Assert.Equal(null, new NoRetry().Delay(0, TimeSpan.Zero));
            var counted = new FixedCount(2);
            Assert.Equal(TimeSpan.Zero, counted.Delay(1, TimeSpan.Zero));
            Assert.Equal(null, counted.Delay(2, TimeSpan.Zero));
            for (var each = 0; each < 100; each++)
            {
                var delay = new FixedTimeout().Delay(0, TimeSpan.Zero)!.Value;
                Assert.True(delay >= Ms(90) && delay <= Ms(110), $"{delay}");
            }
            var backoff = new ExponentialBackoff();
            var (previous, longest) = (TimeSpan.Zero, TimeSpan.Zero);
            for (var retries = 0; retries < 200; retries++)
            {
                var delay = backoff.Delay(retries, previous)!.Value;
                Assert.True(delay >= Ms(0.5) && delay <= Ms(1000), $"{delay}");
                Assert.True(delay <= Ms(0.5) || delay <= previous * 3, $"{delay} after {previous}");
                previous = delay;
                longest = delay > longest ? delay : longest;
            }
            Assert.True(longest > Ms(0.5), "the delays grow");
            Assert.Throws<ArgumentOutOfRangeException>(() => _ = new FixedCount(-1));
            Assert.Throws<ArgumentOutOfRangeException>(() => _ = new RetryBudget(-1));
            Assert.Throws<ArgumentOutOfRangeException>(() => _ = new ExponentialBackoff(Ms(5), Ms(1)));
        }

        [Test("an attempt without reply is given up and repeated")]
        private static async Task ResponseTimeout()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            var configuration = Servers.Configuration.WithRetryStrategy(new FixedTimeout(Ms(10), Ms(100)));
            await using var client = await CacheClient.CreateAsync(relay.Address, configuration);
            Assert.Is<DoneResult.Success>(await client.SetAsync("slow", "v"));
            relay.Gates[0].Hold();
            var call = client.GetAsync("slow");
            await Task.Delay(250);
            relay.Gates[0].Release();
            Assert.Equal("v", Assert.Is<GetResult.Hit>(await call).ValueString);
            var retries = client.GetMetrics().Retries;
            Assert.True(retries >= 1 && retries <= 5, $"{retries}");
        }

        // One stream for each connection, so that a second request uses another connection.
        private static Configuration Hedged(double delayMs) =>
            Servers.Configuration.WithRequestsInFlightMax(2).WithStreamsPerConnection(1).WithHedging(Ms(delayMs));

        [Test("a hedged read returns the reply that comes first")]
        private static async Task HedgedRead()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Hedged(300));
            Assert.Is<DoneResult.Success>(await client.SetAsync("hedged", "v"));
            Assert.Equal("v", Assert.Is<GetResult.Hit>(await client.GetAsync("hedged")).ValueString);
            Assert.Equal(0L, client.GetMetrics().Hedges);
            relay.Gates[0].Hold();
            var started = Stopwatch.StartNew();
            Assert.Equal("v", Assert.Is<GetResult.Hit>(await client.GetAsync("hedged")).ValueString);
            Assert.True(
                started.ElapsedMilliseconds >= 290 && started.ElapsedMilliseconds < 5000,
                $"{started.ElapsedMilliseconds} ms");
            Assert.Equal((1L, 0), (client.GetMetrics().Hedges, client.GetMetrics().InFlight));
        }

        [Test("only get is hedged")]
        private static async Task OnlyGet()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Hedged(20));
            await client.DeleteAsync("count");
            relay.Gates[0].Hold();
            var call = client.IncrementAsync("count");
            await Task.Delay(150);
            relay.Gates[0].Release();
            Assert.Equal(1L, Assert.Is<IncrementResult.Success>(await call).Value);
            Assert.Equal(0L, client.GetMetrics().Hedges);
            Assert.Equal(2L, Assert.Is<IncrementResult.Success>(await client.IncrementAsync("count")).Value);
        }

        [Test("hedges take tokens of the budget")]
        private static async Task HedgeBudget()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(
                relay.Address, Hedged(20).WithRetryBudget(new RetryBudget(0, 1)));
            Assert.Is<DoneResult.Success>(await client.DeleteAsync("k"));
            relay.Gates[0].Hold();
            Assert.Is<GetResult.Miss>(await client.GetAsync("k"));
            Assert.Equal(ErrorCode.Timeout, Assert.Code(await client.GetAsync("k", Ms(200))));
            Assert.Equal(1L, client.GetMetrics().Hedges);
        }

        [Test("a hedge never waits in the queue")]
        private static async Task HedgeWithoutPlace()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            var configuration = Servers.Configuration.WithRequestsInFlightMax(1).WithHedging(Ms(10));
            await using var client = await CacheClient.CreateAsync(relay.Address, configuration);
            Assert.Is<DoneResult.Success>(await client.DeleteAsync("k"));
            relay.Gates[0].Hold();
            Assert.Equal(ErrorCode.Timeout, Assert.Code(await client.GetAsync("k", Ms(100))));
            Assert.Equal(0L, client.GetMetrics().Hedges);
        }

        [Test("a hedged read that its caller cancels ends at once")]
        private static async Task HedgeCancelled()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Hedged(20));
            Assert.True(await client.ConnectAsync(Ms(5000)), "both connections are open");
            relay.Gates[0].Hold();
            relay.Gates[1].Hold();
            using var cancellation = new CancellationTokenSource(150);
            Assert.Equal(
                ErrorCode.Cancelled, Assert.Code(await client.GetAsync("k", cancellationToken: cancellation.Token)));
            Assert.Equal((1L, 0), (client.GetMetrics().Hedges, client.GetMetrics().InFlight));
        }
    }
}
