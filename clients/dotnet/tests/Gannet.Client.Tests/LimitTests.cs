using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;

namespace Gannet.Client.Tests
{
    /// <summary>The cap on requests in flight, its queue, cancellation, deadlines, middleware and metrics.</summary>
    internal static class LimitTests
    {
        private static int Pending(CacheClient client) => client.GetMetrics().InFlight + client.GetMetrics().Queued;

        private static void Drained(CacheClient client)
        {
            Assert.Equal((0, 0), (client.GetMetrics().InFlight, client.GetMetrics().Queued));
        }

        [Test("requests beyond the cap wait, and all are served")]
        private static async Task Cap()
        {
            await using var client = await Servers.ClientAsync(Servers.Configuration.WithRequestsInFlightMax(7));
            var most = 0;
            async Task<string> WorkAsync(int number)
            {
                Assert.Is<DoneResult.Success>(await client.SetAsync($"t{number}", $"{number}"));
                lock (client)
                {
                    most = Math.Max(most, client.GetMetrics().InFlight);
                }
                return Assert.Is<GetResult.Hit>(await client.GetAsync($"t{number}")).ValueString;
            }

            var numbers = Enumerable.Range(0, 1000).ToList();
            Assert.Equal(numbers.Select(number => $"{number}"), await Task.WhenAll(numbers.Select(WorkAsync)));
            Drained(client);
            Assert.Equal(7, most);
            var get = client.GetMetrics().Methods["Get"];
            Assert.Equal(1000L, get.Calls);
            Assert.Equal(0, get.Errors.Count);
            Assert.True(
                TimeSpan.Zero < get.P50 && get.P50 <= get.P99 && get.P99 <= get.P999,
                $"{get.P50} {get.P99} {get.P999}");
        }

        [Test("5,000 calls at once stay under the caps")]
        private static async Task Many()
        {
            await using var server = await Server.StartAsync();
            var configuration = Configurations.InRegion.Default.V1().WithDeadline(TimeSpan.FromSeconds(20));
            await using var client = await CacheClient.CreateAsync(server.Address, configuration);
            await Wait.UntilAsync("4 connections are open", () => server.Connections() == 4);
            // No call ends while the server is stopped, so that all of them are in flight or in the queue.
            await server.PauseAsync();
            var all = Task.WhenAll(Enumerable.Range(0, 5000).Select(number => client.SetAsync($"k{number}", "v")));
            await Wait.UntilAsync("all calls have begun", () => Pending(client) == 5000);
            var metrics = client.GetMetrics();
            Assert.Equal((400, 4600, 4), (metrics.InFlight, metrics.Queued, server.Connections()));
            server.Resume();
            Assert.Equal(5000, (await all).OfType<DoneResult.Success>().Count());
            Assert.Equal(4, server.Connections());
            Drained(client);
            // Threads of the pool that call in turn reach the cap again and again.
            var loads = Enumerable.Range(0, 5000).Select(number => Task.Run(async () =>
            {
                for (var call = 0; call < 3; call++)
                {
                    Assert.Is<GetResult.Hit>(await client.GetAsync($"k{number}"));
                }
            }));
            await Task.WhenAll(loads);
            Assert.Equal(4, server.Connections());
        }

        [Test("cancellation in the queue sends nothing, and keeps the order of the others")]
        private static async Task CancelInQueue()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(
                server.Address, Servers.Configuration.WithRequestsInFlightMax(1));
            Assert.Is<DoneResult.Success>(await client.DeleteAsync("order"));
            await server.PauseAsync();
            using var cancellation = new CancellationTokenSource();
            var calls = new List<Task<ListLengthResult>>();
            for (var number = 0; number < 50; number++)
            {
                var token = number % 3 == 1 ? cancellation.Token : default;
                calls.Add(client.ListPushBackAsync("order", $"{number}", cancellationToken: token));
            }
            Assert.Equal(50, Pending(client));
            cancellation.Cancel();
            foreach (var number in Enumerable.Range(0, 50).Where(number => number % 3 == 1))
            {
                Assert.Equal(ErrorCode.Cancelled, Assert.Code(await calls[number]));
            }
            server.Resume();
            foreach (var number in Enumerable.Range(0, 50).Where(number => number % 3 != 1))
            {
                Assert.Is<ListLengthResult.Success>(await calls[number]);
            }
            var order = Assert.Is<ListResult.Hit>(await client.ListFetchAsync("order")).ElementsString;
            Assert.Equal(Enumerable.Range(0, 50).Where(number => number % 3 != 1).Select(number => $"{number}"), order);
            Drained(client);
        }

        [Test("a full queue refuses at once")]
        private static async Task FullQueue()
        {
            await using var server = await Server.StartAsync();
            var configuration = Servers.Configuration.WithRequestsInFlightMax(2).WithRequestsQueuedMax(3);
            await using var client = await CacheClient.CreateAsync(server.Address, configuration);
            await client.GetAsync("k");
            await server.PauseAsync();
            var calls = Enumerable.Range(0, 5).Select(_ => client.GetAsync("k")).ToList();
            var refused = await client.GetAsync("k");
            Assert.Equal(ErrorCode.ClientQueueFull, Assert.Code(refused));
            Assert.Contains("3 requests wait in the client's queue", Assert.Is<IErrorResult>(refused).Message);
            server.Resume();
            Assert.Equal(5, (await Task.WhenAll(calls)).OfType<GetResult.Miss>().Count());
        }

        [Test("a sent call is cancelled, and its place is free")]
        private static async Task CancelSent()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Servers.Configuration);
            await client.GetAsync("k");
            await server.PauseAsync();
            foreach (var call in new Func<CancellationToken, Task>[]
            {
                token => client.GetAsync("k", cancellationToken: token),
                token => client.GetBatchAsync(new[] { "k" }, cancellationToken: token),
            })
            {
                using var cancellation = new CancellationTokenSource();
                var result = call(cancellation.Token);
                await Wait.UntilAsync("the call is in flight", () => client.GetMetrics().InFlight == 1);
                await Task.Delay(20);
                cancellation.Cancel();
                await result;
                Assert.Equal(ErrorCode.Cancelled, Assert.Code(((dynamic)result).Result));
                Assert.Equal(0, client.GetMetrics().InFlight);
                var again = call(cancellation.Token);
                await again;
                Assert.Equal(ErrorCode.Cancelled, Assert.Code(((dynamic)again).Result));
            }
            server.Resume();
            Assert.Is<GetResult.Miss>(await client.GetAsync("k"));
        }

        [Test("a token keeps no registrations of calls that have ended")]
        private static async Task Registrations()
        {
            await using var client = await Servers.ClientAsync();
            using var cancellation = new CancellationTokenSource();
            for (var call = 0; call < 1000; call++)
            {
                await client.GetAsync("k", cancellationToken: cancellation.Token);
            }
            var started = Stopwatch.StartNew();
            cancellation.Cancel();
            Assert.True(started.ElapsedMilliseconds < 100, "callbacks of ended calls ran");
            Assert.Is<GetResult.Miss>(await client.GetAsync("no such key"));
        }

        [Test("a call that is cancelled while it waits for its retry ends at once")]
        private static async Task CancelRetry()
        {
            var configuration = Servers.Configuration.WithRetryStrategy(new FixedTimeout(TimeSpan.FromSeconds(5)));
            await using var client = await CacheClient.CreateAsync($"127.0.0.1:{Server.FreePort()}", configuration);
            using var cancellation = new CancellationTokenSource(300);
            var started = Stopwatch.StartNew();
            Assert.Equal(
                ErrorCode.Cancelled, Assert.Code(await client.GetAsync("k", cancellationToken: cancellation.Token)));
            Assert.True(started.ElapsedMilliseconds < 4000, $"{started.ElapsedMilliseconds} ms");
            Assert.Equal(1L, client.GetMetrics().Retries);
        }

        [Test("disposing ends waiting and sent calls, and later calls fail")]
        private static async Task Dispose()
        {
            await using var server = await Server.StartAsync();
            var client = await CacheClient.CreateAsync(
                server.Address, Servers.Configuration.WithRequestsInFlightMax(1));
            await client.GetAsync("k");
            await server.PauseAsync();
            var calls = Enumerable.Range(0, 20).Select(_ => client.GetAsync("k")).ToList();
            var batch = client.GetBatchAsync(new[] { "k" });
            Assert.Equal(21, Pending(client));
            await client.DisposeAsync();
            Assert.True(calls.All(call => call.IsCompleted) && batch.IsCompleted, "all calls have ended");
            foreach (var call in calls)
            {
                Assert.Equal(ErrorCode.Cancelled, Assert.Code(await call));
            }
            Assert.Equal(ErrorCode.Cancelled, Assert.Code(await batch));
            Drained(client);
            var late = await client.GetAsync("k");
            Assert.Equal(ErrorCode.Cancelled, Assert.Code(late));
            Assert.Contains("the client is disposed of; create a new client", Assert.Is<IErrorResult>(late).Message);
            Assert.Equal(false, await client.ConnectAsync(TimeSpan.FromMilliseconds(100)));
            await client.DisposeAsync();
            client.Dispose();
            server.Resume();
            await Wait.UntilAsync("the connections are closed", () => server.Connections() == 0);
        }

        [Test("disposing under load ends every call")]
        private static async Task DisposeUnderLoad()
        {
            var client = await Servers.ClientAsync(Configurations.InRegion.Default.V1());
            var loads = Enumerable.Range(0, 500).Select(_ => Task.Run(async () =>
            {
                while (true)
                {
                    if (await client.GetAsync("k") is GetResult.Error error)
                    {
                        return error.Code;
                    }
                }
            })).ToList();
            await Task.Delay(200);
            await client.DisposeAsync();
            var codes = await Task.WhenAll(loads);
            Assert.True(codes.All(code => code == ErrorCode.Cancelled), string.Join(" ", codes.Distinct()));
            Drained(client);
        }

        // The client writes headers without compression: the name, a byte with the length of the value, the value.
        private static int TimeoutMs(Relay relay)
        {
            var timeouts = Regex.Matches(relay.Gates[0].Sent, "grpc-timeout.(\\d+)m", RegexOptions.Singleline);
            return int.Parse(timeouts.Last().Groups[1].Value);
        }

        [Test("a call ends at its deadline, which the request contains")]
        private static async Task Deadline()
        {
            await using var server = await Server.StartAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var client = await CacheClient.CreateAsync(relay.Address, Servers.Configuration);
            await client.DeleteAsync("late");
            Assert.True(TimeoutMs(relay) > 5000 && TimeoutMs(relay) <= 10_000, $"{TimeoutMs(relay)}");
            await server.PauseAsync();
            var started = Stopwatch.StartNew();
            var late = await client.GetAsync("late", TimeSpan.FromMilliseconds(150));
            Assert.Equal(ErrorCode.Timeout, Assert.Code(late));
            Assert.True(
                started.ElapsedMilliseconds >= 140 && started.ElapsedMilliseconds < 3000,
                $"{started.ElapsedMilliseconds} ms");
            Assert.True(TimeoutMs(relay) > 50 && TimeoutMs(relay) <= 150, $"{TimeoutMs(relay)}");
            server.Resume();
            var code = Assert.Code(await client.SetAsync("late", "v", deadline: TimeSpan.Zero));
            Assert.True(code == ErrorCode.Timeout || code == ErrorCode.ClientQueueTimeout, $"{code}");
            Assert.Is<GetResult.Miss>(await client.GetAsync("late"));
        }

        [Test("retries share the deadline of their call")]
        private static async Task DeadlineOfRetries()
        {
            var strategy = new FixedTimeout(TimeSpan.FromMilliseconds(20));
            var configuration = Servers.Configuration.WithRetryStrategy(strategy).WithRetryBudget(
                new RetryBudget(10, 1000));
            await using var client = await CacheClient.CreateAsync($"127.0.0.1:{Server.FreePort()}", configuration);
            var started = Stopwatch.StartNew();
            Assert.Equal(
                ErrorCode.Unavailable, Assert.Code(await client.GetAsync("k", TimeSpan.FromMilliseconds(300))));
            Assert.True(
                started.ElapsedMilliseconds > 200 && started.ElapsedMilliseconds < 2000,
                $"{started.ElapsedMilliseconds} ms");
            Assert.True(client.GetMetrics().Retries >= 5, $"{client.GetMetrics().Retries}");
        }

        private sealed class Recording : Middleware
        {
            private readonly string name;
            private readonly List<string> events;

            public Recording(string name, List<string> events)
            {
                this.name = name;
                this.events = events;
            }

            public override void Before(CallStart call) =>
                events.Add($"{name} before {call.Method} {call.Cache} {call.RequestBytes}");

            public override void After(CallEnd call) => events.Add(
                $"{name} after {call.Method} {call.Cache} {call.Error?.Code} "
                + $"{call.Retries} {call.IsHedged} {call.Duration > TimeSpan.Zero}");
        }

        private sealed class Broken : Middleware
        {
            public override void After(CallEnd call) => throw new InvalidOperationException("broken");
        }

        [Test("middleware runs around each call")]
        private static async Task MiddlewareRuns()
        {
            var events = new List<string>();
            var configuration = Servers.Configuration.WithMiddleware(new Recording("a", events)).WithMiddleware(
                new Recording("b", events));
            await using var client = await Servers.ClientAsync(configuration);
            await client.ListPushBackAsync("middleware", "v");
            events.Clear();
            Assert.Equal(ErrorCode.FailedPrecondition, Assert.Code(await client.GetAsync("middleware")));
            Assert.Equal(
                new[]
                {
                    "a before Get default 12",
                    "b before Get default 12",
                    "b after Get default FailedPrecondition 0 False True",
                    "a after Get default FailedPrecondition 0 False True",
                },
                events);
            Assert.Equal(1L, client.GetMetrics().Methods["Get"].Errors[ErrorCode.FailedPrecondition]);
        }

        [Test("an exception of middleware reaches the caller and leaks no place")]
        private static async Task MiddlewareThrows()
        {
            await using var client = await Servers.ClientAsync(Servers.Configuration.WithMiddleware(new Broken()));
            await Assert.Throws<InvalidOperationException>(() => client.GetAsync("k"));
            Drained(client);
        }

        [Test("metrics by method are off unless enabled")]
        private static async Task NoMetrics()
        {
            await using var client = await Servers.ClientAsync(Configurations.Laptop.Latest());
            await client.GetAsync("k");
            Assert.Equal(0, client.GetMetrics().Methods.Count);
        }

        private sealed class Streams : IStreams
        {
            public int InFlight { get; set; }
        }

        [Test("the queue agrees with a model under random changes")]
        private static void Model()
        {
            var random = new Random(12345);
            var connections = Enumerable.Range(0, 3).Select(_ => new Streams()).ToArray();
            var limiter = new Limiter<Streams>(connections, 5, 8, 2);
            var (held, model) = (new List<Streams>(), new List<Waiter<Streams>>());
            var (refused, removed, granted) = (0, 0, 0);
            for (var step = 0; step < 20_000; step++)
            {
                var choice = random.Next(4);
                if (choice < 2)
                {
                    var connection = limiter.Acquire(out var waiter);
                    if (connection != null)
                    {
                        var before = connections.TakeWhile(each => each != connection);
                        Assert.True(
                            model.Count == 0 && before.All(each => each.InFlight == 2), "the first free one is used");
                        held.Add(connection);
                    }
                    else if (waiter != null)
                    {
                        model.Add(waiter);
                    }
                    else
                    {
                        refused++;
                    }
                }
                else if (choice == 2 && held.Count > 0)
                {
                    var connection = held[random.Next(held.Count)];
                    held.Remove(connection);
                    limiter.Release(connection);
                    if (model.Count > 0)
                    {
                        Assert.Equal(connection, model[0].Granted.Result);
                        model.RemoveAt(0);
                        held.Add(connection);
                        granted++;
                    }
                }
                else if (choice == 3 && model.Count > 0 && random.Next(3) == 0)
                {
                    var waiter = model[random.Next(model.Count)];
                    model.Remove(waiter);
                    limiter.Leave(waiter);
                    limiter.Leave(waiter);
                    Assert.Equal(null, waiter.Granted.Result);
                    removed++;
                }
                Assert.Equal((held.Count, model.Count), limiter.Counts);
                Assert.True(held.Count <= 5 && model.Count <= 8, "the caps hold");
                Assert.True(model.All(waiter => !waiter.Granted.IsCompleted), "no other request was granted");
                Assert.True(
                    connections.All(each => each.InFlight == held.Count(other => other == each)),
                    "streams are counted");
            }
            Assert.True(refused > 100 && removed > 100 && granted > 100, $"{refused} {removed} {granted}");
        }

        [Test("places are neither lost nor doubled among threads")]
        private static void Threads()
        {
            var connections = Enumerable.Range(0, 2).Select(_ => new Streams()).ToArray();
            var limiter = new Limiter<Streams>(connections, 3, 1000, 2);
            var (inside, most, left) = (0, 0, 0);
            var threads = Enumerable.Range(0, 8).Select(number => new Thread(() =>
            {
                var random = new Random(number);
                for (var step = 0; step < 3000; step++)
                {
                    var connection = limiter.Acquire(out var waiter);
                    if (waiter != null && random.Next(4) == 0)
                    {
                        limiter.Leave(waiter);
                    }
                    connection ??= waiter!.Granted.Result;
                    if (connection == null)
                    {
                        Interlocked.Increment(ref left);
                        continue;
                    }
                    var count = Interlocked.Increment(ref inside);
                    most = Math.Max(most, count);
                    // Other threads run meanwhile, and wait in the queue.
                    Thread.Sleep(0);
                    Interlocked.Decrement(ref inside);
                    limiter.Release(connection);
                }
            })).ToList();
            threads.ForEach(thread => thread.Start());
            threads.ForEach(thread => thread.Join());
            Assert.Equal((0, 0), limiter.Counts);
            Assert.True(most <= 3 && left > 0 && connections.All(each => each.InFlight == 0), $"{most} {left}");
        }

        [Test("quantiles are within a bucket of the exact ones")]
        private static void Quantiles()
        {
            var histogram = new Histogram();
            var values = Enumerable.Range(1, 20_000).Select(at => at * 7_919_003L % 9_000_000_011L).ToList();
            values.ForEach(histogram.Record);
            values.Sort();
            foreach (var share in new[] { 0.5, 0.99, 0.999 })
            {
                var exact = values[(int)(share * values.Count)];
                Assert.True(Math.Abs(histogram.QuantileNs(share) - exact) <= (exact / 64) + 1, $"{share}");
            }
            for (var value = 0; value < 128; value++)
            {
                var one = new Histogram();
                one.Record(value);
                Assert.Equal((long)value, one.QuantileNs(0.5));
            }
            Assert.Equal(0L, new Histogram().QuantileNs(0.5));
            histogram.Record(long.MaxValue);
            Assert.Equal(20_001L, histogram.Count);
        }
    }
}
