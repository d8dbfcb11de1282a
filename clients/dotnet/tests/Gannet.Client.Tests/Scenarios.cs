using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
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
        private const int ReceiveMsMax = 10_000;
        private readonly Server server;

        // The network between the client and the server; null if no step changes it.
        private readonly Relay? network;
        private readonly CacheClient client;
        private readonly CacheClient other;
        private readonly Dictionary<string, Started> started = new Dictionary<string, Started>();
        private readonly Dictionary<string, Subscribed> subscribed = new Dictionary<string, Subscribed>();
        private readonly Dictionary<CacheClient, ulong> leases = new Dictionary<CacheClient, ulong>();
        private readonly List<TcpClient> held = new List<TcpClient>();

        private Scenarios(Server server, Relay? network, CacheClient client, CacheClient other)
        {
            this.server = server;
            this.network = network;
            this.client = client;
            this.other = other;
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
            var settings = (TomlTable?)scenario.Find("server") ?? new TomlTable();
            Assert.True(settings.Entries.All(each => each.Key == "connections_max"), "a setting of the server is unknown");
            await using var server = await Server.StartAsync(
                (int?)(long?)settings.Find("connections_max"), ("TEST_FAULTS", "1"));
            var configuration = Configured((TomlTable?)scenario.Find("client") ?? new TomlTable());
            var steps = ((List<object>)scenario.Find("steps")!).Cast<TomlTable>().ToList();
            var hasNetwork = steps.Any(step => step.Find("network") != null);
            using var network = hasNetwork ? new Relay(server.GrpcPort) : null;
            await using var client = await CacheClient.CreateAsync(network?.Address ?? server.Address, configuration);
            await using var other = await CacheClient.CreateAsync(server.Address, Configurations.Laptop.V1());
            if (configuration.NearCache != null)
            {
                await Wait.UntilAsync("the watch has begun", () => client.GetMetrics().NearCache!.IsWatching);
            }
            var player = new Scenarios(server, network, client, other);
            var number = 0;
            foreach (var step in steps)
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
            player.held.ForEach(each => each.Dispose());
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
                    "near_cache" => WithNearCache(configuration, (TomlTable)change.Value),
                    _ => throw new FailedException($"the setting {change.Key} is unknown"),
                };
            }
            return configuration;
        }

        private static Configuration WithNearCache(Configuration configuration, TomlTable bounds) =>
            configuration.WithNearCache((int)(long)bounds.Find("entries_max")!, (long)bounds.Find("bytes_max")!);

        private static TimeSpan Ms(object value) => TimeSpan.FromMilliseconds((long)value);

        private async Task StepAsync(TomlTable step)
        {
            if (step.Find("server") is string action)
            {
                await ServerAsync(action);
            }
            else if (step.Find("network") is string path)
            {
                network!.Network(path);
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
            else if (step.Find("faults") is TomlTable faults)
            {
                client.Engine.Target.Metadata = faults.Entries
                    .Select(each => KeyValuePair.Create(each.Key, Assert.Show(each.Value).Trim('\'')))
                    .Append(KeyValuePair.Create("request-id", Guid.NewGuid().ToString())).ToList();
            }
            else if (step.Find("hold_connections") is long count)
            {
                await HoldAsync((int)count);
            }
            else if (step.Find("subscribe") is string subscription)
            {
                var topic = (string)((TomlTable)step.Find("arguments")!).Find("topic")!;
                subscribed.Add(subscription, new Subscribed(await ClientOf(step).Topics.SubscribeAsync(topic)));
            }
            else if (step.Find("receive") is string received)
            {
                var watch = Stopwatch.StartNew();
                var next = subscribed[received].NextAsync();
                Assert.True(
                    await Task.WhenAny(next, Task.Delay(ReceiveMsMax)) == next, $"no event within {ReceiveMsMax} ms");
                Compare(step, await next, watch.ElapsedMilliseconds);
            }
            else if (step.Find("cancel") is string cancelled)
            {
                if (subscribed.Remove(cancelled, out var ending))
                {
                    await ending.EndAsync();
                }
                else
                {
                    started[cancelled].Cancellation.Cancel();
                }
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

        private async Task HoldAsync(int count)
        {
            while (held.Count > count)
            {
                held[0].Dispose();
                held.RemoveAt(0);
            }
            while (held.Count < count)
            {
                var connection = new TcpClient();
                await connection.ConnectAsync(IPAddress.Loopback, server.GrpcPort);
                held.Add(connection);
            }
        }

        private CacheClient ClientOf(TomlTable step)
        {
            var of = step.Find("client") switch
            {
                null => client,
                "other" => other,
                var name => throw new FailedException($"the client {name} is unknown"),
            };
            return step.Find("cache") is string cache ? of.WithCache(cache) : of;
        }

        private long MetricOf(string name) => name switch
        {
            "resumes" => client.GetMetrics().Resumes,
            "near_hits" => client.GetMetrics().NearCache!.Hits,
            "near_misses" => client.GetMetrics().NearCache!.Misses,
            "near_invalidations" => client.GetMetrics().NearCache!.Invalidations,
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
                case "stop":
                    return server.StopAsync();
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
            var of = ClientOf(step);
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
                case "update_ttl":
                    return await of.UpdateTtlAsync(Text("key"), ttl!.Value, deadline, cancellation);
                case "increase_ttl":
                    return await of.IncreaseTtlAsync(Text("key"), ttl!.Value, deadline, cancellation);
                case "decrease_ttl":
                    return await of.DecreaseTtlAsync(Text("key"), ttl!.Value, deadline, cancellation);
                case "flush_cache":
                    return await of.FlushCacheAsync(Text("name"), deadline, cancellation);
                case "create_cache":
                    return await of.CreateCacheAsync(Text("name"), deadline, cancellation);
                case "delete_cache":
                    return await of.DeleteCacheAsync(Text("name"), deadline, cancellation);
                case string call when call.StartsWith("leaderboard_"):
                    return await OnLeaderboardAsync(call, of.Leaderboard(Text("leaderboard")), given);
                case string call:
                    return await ExecuteOtherAsync(call, of, given);
                default:
                    throw new FailedException("the step has no key of a step");
            }
        }

        /// <summary>Executes a call on a topic, a lease or a record.</summary>
        private async Task<object> ExecuteOtherAsync(string call, CacheClient of, TomlTable given)
        {
            string Text(string name) => (string)given.Find(name)!;
            Dictionary<string, BinValue> Bins() => ((TomlTable)given.Find("bins")!).Entries
                .ToDictionary(each => each.Key, each => BinOf(each.Value));
            switch (call)
            {
                case "topic_publish":
                    return await of.Topics.PublishAsync(Text("topic"), Text("value"));
                case "lease_get":
                    var lease = await of.Leases.GetAsync(Text("key"));
                    leases[of] = lease is LeaseResult.Won won ? won.Token : leases.GetValueOrDefault(of);
                    return lease;
                case "lease_set":
                    return await of.Leases.SetAsync(Text("key"), leases[of], Text("value"));
                case "lease_stale":
                    return await of.Leases.MarkStaleAsync(Text("key"));
                case "record_get":
                    return await of.Records.GetAsync(
                        Text("key"), new RecordView { Filter = (string?)given.Find("filter") });
                case "record_put":
                    var change = new RecordChange
                    {
                        Set = (string?)given.Find("set"),
                        IfRevision = (uint?)(long?)given.Find("if_revision"),
                        When = given.Find("only") is string only
                            ? Enum.Parse<RecordWhen>(only, ignoreCase: true)
                            : RecordWhen.Always,
                    };
                    return await of.Records.PutAsync(Text("key"), Bins(), change);
                case "record_add":
                    return await of.Records.AddAsync(Text("key"), Bins());
                case "record_delete":
                    return await of.Records.DeleteAsync(Text("key"), (uint?)(long?)given.Find("if_revision"));
                case "record_scan":
                    return await of.Records.ScanAsync(Text("set"));
                default:
                    throw new FailedException($"the call {call} is unknown");
            }
        }

        private static async Task<object> OnLeaderboardAsync(string call, Leaderboard board, TomlTable given)
        {
            IEnumerable<uint> Ids() => ((List<object>)given.Find("ids")!).Select(each => (uint)(long)each);
            uint Rank(string name) => (uint)(long)given.Find(name)!;
            double? Score(string name) =>
                given.Find(name) is object score ? Convert.ToDouble(score) : (double?)null;
            var order = given.Find("order") is string text
                ? Enum.Parse<SortOrder>(text, ignoreCase: true)
                : SortOrder.Descending;
            switch (call)
            {
                case "leaderboard_upsert":
                    return await board.UpsertAsync(((List<object>)given.Find("elements")!).Cast<List<object>>().Select(
                        each => KeyValuePair.Create((uint)(long)each[0], Convert.ToDouble(each[1]))));
                case "leaderboard_remove":
                    return await board.RemoveAsync(Ids());
                case "leaderboard_length":
                    return await board.LengthAsync();
                case "leaderboard_get_by_rank":
                    return await board.GetByRankAsync(Rank("first"), Rank("end"), order);
                case "leaderboard_get_by_score":
                    return await board.GetByScoreAsync(Score("least"), Score("end"), order);
                case "leaderboard_get_rank":
                    return await board.GetRankAsync(Ids(), order);
                case "leaderboard_get_competition_rank":
                    return await board.GetCompetitionRankAsync(Ids(), order);
                case "leaderboard_delete":
                    return await board.DeleteAsync();
                default:
                    throw new FailedException($"the call {call} is unknown");
            }
        }

        private static BinValue BinOf(object value) => value switch
        {
            string text => text,
            long integer => integer,
            double number => number,
            bool boolean => boolean,
            List<object> list => BinValue.List(list.Select(BinOf)),
            _ => throw new FailedException($"the value {value} is unknown"),
        };

        private static object PlainBin(BinValue value) => value.Type switch
        {
            BinType.Integer => value.AsInteger,
            BinType.Number => value.AsNumber,
            BinType.Boolean => value.AsBoolean,
            BinType.List => value.AsList.Select(PlainBin).ToList(),
            _ => value.AsText,
        };

        private static void Compare(TomlTable step, object result, long tookMs)
        {
            var expected = (TomlTable)step.Find("expect")!;
            if (result is IErrorResult error && (string)expected.Find("type")! != "error")
            {
                throw new FailedException(error.Message);
            }
            foreach (var field in expected.Entries)
            {
                Assert.Equal(Plain(field.Value), FieldOf(step, result, field), field.Key);
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
        private static string TypeOf(TomlTable step, object result) => result.GetType().Name switch
        {
            "NotStored" => "not_stored",
            "Success" when result is FoundResult && IsHit(step) => "hit",
            var name => name.ToLowerInvariant(),
        };

        private static bool IsHit(TomlTable step) =>
            step.Find("call") is string call && (call == "record_delete" || call == "lease_stale");

        private static string? ValueOf(object result) => result switch
        {
            TopicEvent.Item item => item.ValueString,
            LeaseResult.Hit hit => hit.ValueString,
            LeaseResult.Won won => won.OldString,
            LeaseResult.Wait wait => wait.OldString,
            _ => Assert.Is<GetResult.Hit>(result).ValueString,
        };

        private static object? FieldOf(TomlTable step, object result, KeyValuePair<string, object> field)
        {
            switch (field.Key)
            {
                case "type":
                    return TypeOf(step, result);
                case "value":
                    return ValueOf(result);
                case "sequence":
                    return Assert.Is<TopicEvent.Item>(result).Sequence;
                case "last_sequence":
                    return Assert.Is<TopicEvent.Discontinuity>(result).LastSequence;
                case "new_sequence":
                    return Assert.Is<TopicEvent.Discontinuity>(result).NewSequence;
                case "revision":
                    return result is RecordResult.Hit record
                        ? record.Record.Revision
                        : Assert.Is<RevisionResult.Success>(result).Revision;
                case "bins":
                    var bins = Assert.Is<RecordResult.Hit>(result).Record.Bins;
                    var names = ((TomlTable)field.Value).Entries.Select(each => each.Key).ToList();
                    Assert.Equal(names.OrderBy(each => each), bins.Keys.OrderBy(each => each));
                    return names.Select(each => new[] { each, PlainBin(bins[each]) }).ToList();
                case "keys":
                    return Assert.Is<RecordPageResult.Success>(result).Records.Select(each => each.KeyString)
                        .OrderBy(each => each, StringComparer.Ordinal);
                case "length":
                    return Assert.Is<LeaderboardLengthResult.Success>(result).Length;
                case "ranked":
                    return Assert.Is<RankedResult.Success>(result).Elements
                        .Select(each => new object[] { each.Id, each.Rank, each.Score });
                case "number":
                    return Assert.Is<IncrementResult.Success>(result).Value;
                case "results":
                    return Assert.Is<GetBatchResult.Success>(result).Results.Select(each => each is GetResult.Hit hit
                        ? new List<object> { new[] { "type", "hit" }, new[] { "value", hit.ValueString } }
                        : new List<object> { new[] { "type", TypeOf(step, each) } });
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
                case "remaining_ms_min":
                    var rest = Assert.Is<TtlResult.Hit>(result).Remaining!.Value;
                    Assert.True(rest >= Ms(field.Value), $"{rest}");
                    return field.Value;
                case "code":
                    return Snake(Assert.Code(result).ToString());
                default:
                    throw new FailedException($"the field {field.Key} is unknown");
            }
        }

        private static string Snake(string name) => string.Concat(
            name.Select((each, at) => at > 0 && char.IsUpper(each) ? $"_{each}" : $"{each}")).ToUpperInvariant();

        /// <summary>A subscription of a step.</summary>
        private sealed class Subscribed
        {
            private readonly SubscribeResult.Subscription? subscription;
            private readonly IAsyncEnumerator<TopicEvent>? events;
            private readonly object? refused;

            public Subscribed(SubscribeResult result)
            {
                subscription = result as SubscribeResult.Subscription;
                events = subscription?.GetAsyncEnumerator();
                refused = subscription == null ? result : null;
            }

            /// <summary>Returns the next event other than a heartbeat.</summary>
            public async Task<object> NextAsync()
            {
                while (events != null && await events.MoveNextAsync())
                {
                    if (!(events.Current is TopicEvent.Heartbeat))
                    {
                        return events.Current;
                    }
                }
                return refused ?? throw new FailedException("the subscription has ended");
            }

            public async Task EndAsync()
            {
                await subscription!.DisposeAsync();
                while (await events!.MoveNextAsync())
                {
                }
                Assert.True(!(events.Current is TopicEvent.Error), "a cancelled subscription ends without an error");
            }
        }

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
