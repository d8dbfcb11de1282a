using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Generate;

namespace Gannet.Client.Tests
{
    /// <summary>
    /// Plays the scenarios that all client libraries share; conformance/clients/scenarios describes them.
    /// </summary>
    internal sealed class Scenarios
    {
        private const long StepMsMax = 30_000;
        private readonly Server server;
        private readonly CacheClient client;
        private readonly Dictionary<string, Started> started = new Dictionary<string, Started>();

        private Scenarios(Server server, CacheClient client)
        {
            this.server = server;
            this.client = client;
        }

        public static IEnumerable<(string? Name, Func<Task> Run)> All()
        {
            var files = Directory.GetFiles(Path.Combine(Files.Clients, "scenarios"), "*.toml");
            Assert.True(files.Length > 0, "there are no scenarios");
            foreach (var file in files.OrderBy(each => each, StringComparer.Ordinal))
            {
                var scenario = Toml.Parse(File.ReadAllText(file));
                yield return ("scenario: " + (string)scenario.Find("name")!, () => PlayAsync(scenario));
            }
        }

        private static async Task PlayAsync(TomlTable scenario)
        {
            await using var server = await Server.StartAsync();
            var configuration = Configured((TomlTable?)scenario.Find("client") ?? new TomlTable());
            await using var client = await CacheClient.CreateAsync(server.Address, configuration);
            var player = new Scenarios(server, client);
            var number = 0;
            foreach (TomlTable step in (List<object>)scenario.Find("steps")!)
            {
                number++;
                try
                {
                    await player.StepAsync(step);
                }
                catch (FailedException exception)
                {
                    throw new FailedException($"step {number}: {exception.Message}");
                }
            }
            Assert.Equal(0, player.started.Count, "a started call is not finished");
        }

        private static Configuration Configured(TomlTable changes)
        {
            var configuration = Configurations.Named((string?)changes.Find("preset") ?? "Laptop.v1").WithMetrics();
            foreach (var change in changes.Entries)
            {
                configuration = change.Key switch
                {
                    "preset" => configuration,
                    "deadline_ms" => configuration.WithDeadline(Ms(change.Value)),
                    "requests_in_flight_max" => configuration.WithRequestsInFlightMax((int)(long)change.Value),
                    "requests_queued_max" => configuration.WithRequestsQueuedMax((int)(long)change.Value),
                    "retry_count" => configuration.WithRetryStrategy(
                        (long)change.Value == 0 ? new NoRetry() : (RetryStrategy)new FixedCount(
                            (int)(long)change.Value)),
                    _ => throw new FailedException($"the setting {change.Key} is unknown"),
                };
            }
            return configuration;
        }

        private static TimeSpan Ms(object value) => TimeSpan.FromMilliseconds((long)value);

        private async Task StepAsync(TomlTable step)
        {
            if (step.Find("server") is string action)
            {
                await ServerAsync(action);
            }
            else if (step.Find("wait_ms") is long wait)
            {
                await Task.Delay((int)wait);
            }
            else if (step.Find("metrics") is TomlTable metrics)
            {
                await Wait.UntilAsync(
                    "the metrics are equal",
                    () => metrics.Entries.All(each => MetricOf(each.Key) == (long)each.Value),
                    2000);
            }
            else if (step.Find("cancel") is string cancelled)
            {
                started[cancelled].Cancellation.Cancel();
            }
            else if (step.Find("finish") is string finished)
            {
                Assert.True(started.Remove(finished, out var each), $"{finished} was not started");
                Compare(step, await each!.Result, await each.TookMs);
            }
            else if (step.Find("start") is string name)
            {
                var before = Pending();
                started.Add(name, new Started(cancellation => ExecuteAsync(step, cancellation)));
                await Wait.UntilAsync("the call is in flight or queued", () => Pending() == before + 1);
            }
            else
            {
                await CallAsync(step);
            }
        }

        private int Pending() => client.GetMetrics().InFlight + client.GetMetrics().Queued;

        private long MetricOf(string name) => name switch
        {
            "in_flight" => client.GetMetrics().InFlight,
            "queued" => client.GetMetrics().Queued,
            "retries" => client.GetMetrics().Retries,
            "hedges" => client.GetMetrics().Hedges,
            "connections" => client.GetMetrics().Connections,
            _ => throw new FailedException($"the metric {name} is unknown"),
        };

        private Task ServerAsync(string action)
        {
            switch (action)
            {
                case "pause":
                    return server.PauseAsync();
                case "resume":
                    server.Resume();
                    return Task.CompletedTask;
                case "kill":
                    return server.KillAsync();
                case "start":
                    return server.RestartAsync();
                default:
                    throw new FailedException($"the action {action} is unknown");
            }
        }

        private async Task CallAsync(TomlTable step)
        {
            var all = Stopwatch.StartNew();
            while (true)
            {
                var one = Stopwatch.StartNew();
                var result = await ExecuteAsync(step, default);
                try
                {
                    Compare(step, result, one.ElapsedMilliseconds);
                    return;
                }
                catch (FailedException) when (all.ElapsedMilliseconds < ((long?)step.Find("within_ms") ?? 0))
                {
                    await Task.Delay(20);
                }
            }
        }

        private async Task<object> ExecuteAsync(TomlTable step, CancellationToken cancellation)
        {
            var of = step.Find("cache") is string cache ? client.WithCache(cache) : client;
            var given = (TomlTable?)step.Find("arguments") ?? new TomlTable();
            var deadline = step.Find("deadline_ms") is long ms ? Ms(ms) : (TimeSpan?)null;
            var ttl = given.Find("ttl_ms") is long ttlMs ? Ms(ttlMs) : (TimeSpan?)null;
            var collectionTtl = ttl is TimeSpan time ? time : (CollectionTtl?)null;
            string Text(string name) => (string)given.Find(name)!;
            IEnumerable<string> Texts(string name) => ((List<object>)given.Find(name)!).Cast<string>();
            IEnumerable<KeyValuePair<string, string>> Pairs(string name) => ((TomlTable)given.Find(name)!).Entries
                .Select(each => KeyValuePair.Create(each.Key, (string)each.Value));
            IEnumerable<KeyValuePair<string, double>> Scores(string name) => ((TomlTable)given.Find(name)!).Entries
                .Select(each => KeyValuePair.Create(each.Key, Convert.ToDouble(each.Value)));
            switch (step.Find("call"))
            {
                case "get":
                    return await of.GetAsync(Text("key"), deadline, cancellation);
                case "set":
                    return await of.SetAsync(Text("key"), Text("value"), ttl, deadline, cancellation);
                case "get_batch":
                    return await of.GetBatchAsync(Texts("keys"), deadline, cancellation);
                case "set_batch":
                    return await of.SetBatchAsync(Pairs("items"), ttl, deadline, cancellation);
                case "delete":
                    return await of.DeleteAsync(Text("key"), deadline, cancellation);
                case "increment":
                    return await of.IncrementAsync(
                        Text("key"), (long)given.Find("amount")!, ttl, deadline, cancellation);
                case "set_if_absent":
                    return await of.SetIfAbsentAsync(Text("key"), Text("value"), ttl, deadline, cancellation);
                case "get_ttl":
                    return await of.GetTtlAsync(Text("key"), deadline, cancellation);
                case "list_push_back":
                    return await of.ListPushBackAsync(
                        Text("key"), Text("value"), collectionTtl, 0, deadline, cancellation);
                case "list_fetch":
                    return await of.ListFetchAsync(Text("key"), default, deadline, cancellation);
                case "dictionary_set_fields":
                    return await of.DictionarySetFieldsAsync(
                        Text("key"), Pairs("fields"), collectionTtl, deadline, cancellation);
                case "dictionary_fetch":
                    return await of.DictionaryFetchAsync(Text("key"), deadline, cancellation);
                case "set_add_elements":
                    return await of.SetAddElementsAsync(
                        Text("key"), Texts("elements"), collectionTtl, deadline, cancellation);
                case "set_contains":
                    return await of.SetContainsAsync(Text("key"), Texts("elements"), deadline, cancellation);
                case "sorted_set_put_elements":
                    return await of.SortedSetPutElementsAsync(
                        Text("key"), Scores("elements"), collectionTtl, deadline, cancellation);
                case "sorted_set_fetch_by_index":
                    return await of.SortedSetFetchByIndexAsync(
                        Text("key"), default, SortOrder.Ascending, deadline, cancellation);
                case "create_cache":
                    return await of.CreateCacheAsync(Text("name"), deadline, cancellation);
                case "delete_cache":
                    return await of.DeleteCacheAsync(Text("name"), deadline, cancellation);
                default:
                    throw new FailedException($"the call {step.Find("call")} is unknown");
            }
        }

        private static void Compare(TomlTable step, object result, long tookMs)
        {
            var expected = (TomlTable)step.Find("expect")!;
            if (result is IErrorResult error && (string)expected.Find("type")! != "error")
            {
                throw new FailedException(error.Message);
            }
            foreach (var field in expected.Entries)
            {
                Assert.Equal(Plain(field.Value), FieldOf(result, field), field.Key);
            }
            var least = (long?)step.Find("at_least_ms") ?? 0;
            var most = (long?)step.Find("at_most_ms") ?? StepMsMax;
            Assert.True(tookMs >= least && tookMs <= most, $"{tookMs} ms");
        }

        // Tables of TOML as ordered pairs.
        private static object Plain(object value) => value switch
        {
            TomlTable table => table.Entries.Select(each => new[] { each.Key, Plain(each.Value) }).ToList(),
            List<object> list => list.Select(Plain).ToList(),
            _ => value,
        };

        // The names of all types of results end with those of the scenarios.
        private static string TypeOf(object result) => result.GetType().Name switch
        {
            "NotStored" => "not_stored",
            var name => name.ToLowerInvariant(),
        };

        private static object? FieldOf(object result, KeyValuePair<string, object> field)
        {
            switch (field.Key)
            {
                case "type":
                    return TypeOf(result);
                case "value":
                    return Assert.Is<GetResult.Hit>(result).ValueString;
                case "number":
                    return Assert.Is<IncrementResult.Success>(result).Value;
                case "results":
                    return Assert.Is<GetBatchResult.Success>(result).Results.Select(each => each is GetResult.Hit hit
                        ? new List<object> { new[] { "type", "hit" }, new[] { "value", hit.ValueString } }
                        : new List<object> { new[] { "type", TypeOf(each) } });
                case "elements":
                    return Assert.Is<ListResult.Hit>(result).ElementsString;
                case "fields":
                    return Assert.Is<DictionaryResult.Hit>(result).FieldsString.OrderBy(
                        each => each.Key, StringComparer.Ordinal)
                        .Select(each => new[] { each.Key, each.Value });
                case "contained":
                    return Assert.Is<ContainsResult.Hit>(result).Contained;
                case "scored":
                    return Assert.Is<SortedSetResult.Hit>(result).ElementsString.Select(
                        each => new object[] { each.Element, each.Score });
                case "remaining_ms_max":
                    var remaining = Assert.Is<TtlResult.Hit>(result).Remaining!.Value;
                    Assert.True(remaining > TimeSpan.Zero && remaining <= Ms(field.Value), $"{remaining}");
                    return field.Value;
                case "code":
                    return Snake(Assert.Code(result).ToString());
                default:
                    throw new FailedException($"the field {field.Key} is unknown");
            }
        }

        private static string Snake(string name) => string.Concat(
            name.Select((each, at) => at > 0 && char.IsUpper(each) ? $"_{each}" : $"{each}")).ToUpperInvariant();

        /// <summary>A call that a step has started.</summary>
        private sealed class Started
        {
            public Started(Func<CancellationToken, Task<object>> execute)
            {
                var watch = Stopwatch.StartNew();
                Result = execute(Cancellation.Token);
                TookMs = Result.ContinueWith(
                    _ => watch.ElapsedMilliseconds, TaskContinuationOptions.ExecuteSynchronously);
            }

            public CancellationTokenSource Cancellation { get; } = new CancellationTokenSource();

            public Task<object> Result { get; }

            public Task<long> TookMs { get; }
        }
    }
}
