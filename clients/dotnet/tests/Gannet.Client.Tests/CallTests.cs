using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1;

namespace Gannet.Client.Tests
{
    /// <summary>Every call of the schema, against a real server.</summary>
    internal static class CallTests
    {
        private static byte[] Bytes(params byte[] bytes) => bytes;

        private static async Task<CacheClient> EmptyAsync()
        {
            var client = await Servers.ClientAsync();
            Assert.Is<DoneResult.Success>(await client.FlushCacheAsync("default"));
            return client;
        }

        private static string Value(object result) => Assert.Is<GetResult.Hit>(result).ValueString;

        [Test("no call of the schema is missing")]
        private static void NoCallIsMissing()
        {
            // Streams are no calls with a result.
            var streams = new[] { Methods.TopicsSubscribe, Methods.InvalidationsWatchKeys };
            var paths = Methods.All.Except(streams).Select(method => method.Path).OrderBy(path => path);
            Assert.Equal(paths, Calls.All.Select(call => call.Method.Path).Distinct().OrderBy(path => path));
            Assert.Equal(streams[0], new TopicSource("t", null).Method);
            Assert.True(Methods.All.Count > 70, "the schema has more calls");
        }

        [Test("calls are repeated as the table that all clients share says")]
        private static void IdempotentCalls()
        {
            var once = Calls.All.Where(call => !call.IsIdempotent).Select(call => call.Name).ToHashSet();
            var often = Calls.All.Where(call => call.IsIdempotent).Select(call => call.Name).ToHashSet();
            var table = File.ReadAllText(Path.Combine(Files.Repository, "clients/calls.toml"));
            Assert.Equal(Names(table, "never"), once.Except(often).OrderBy(name => name));
            Assert.Equal(Names(table, "by_request"), once.Intersect(often).OrderBy(name => name));
        }

        /// <summary>Returns the texts of a list of a TOML document, in order.</summary>
        private static string[] Names(string document, string list)
        {
            var rest = document.Substring(document.IndexOf(list + " = [", StringComparison.Ordinal));
            var texts = rest.Substring(0, rest.IndexOf(']')).Split('"').Where((_, place) => place % 2 == 1);
            return texts.OrderBy(name => name).ToArray();
        }

        [Test("items")]
        private static async Task Items()
        {
            await using var client = await EmptyAsync();
            Assert.Is<GetResult.Miss>(await client.GetAsync("k"));
            Assert.Is<DoneResult.Success>(await client.SetAsync("k", "v"));
            Assert.Equal("v", Value(await client.GetAsync(Encoding.UTF8.GetBytes("k"))));
            Assert.Equal("v", Value(await client.GetAsync((ReadOnlyMemory<byte>)new byte[] { (byte)'k' })));
            Assert.Equal(Bytes((byte)'v'), Assert.Is<GetResult.Hit>(await client.GetAsync("k")).ValueBytes.ToArray());
            Assert.Is<DoneResult.Success>(
                await client.SetBatchAsync(new Dictionary<string, string> { ["a"] = "1", ["b"] = "2" }));
            var pairs = new[] { KeyValuePair.Create<Bytes, Bytes>(Bytes(1), Bytes(0, 255)) };
            Assert.Is<DoneResult.Success>(await client.SetBatchAsync(pairs, TimeSpan.FromMinutes(1)));
            Assert.Equal(Bytes(0, 255), Assert.Is<GetResult.Hit>(await client.GetAsync(Bytes(1))).ValueBytes.ToArray());
            var batch = Assert.Is<GetBatchResult.Success>(await client.GetBatchAsync(new[] { "b", "none", "a" }));
            Assert.Is<GetResult.Miss>(batch.Results[1]);
            Assert.Equal(new[] { "2", null, "1" }, batch.ValuesString);
            batch = Assert.Is<GetBatchResult.Success>(await client.GetBatchAsync(new List<Bytes> { "a", Bytes(1) }));
            Assert.Equal(2, batch.Results.OfType<GetResult.Hit>().Count());
            Assert.Equal(0, Assert.Is<GetBatchResult.Success>(await client.GetBatchAsync(new string[0])).Results.Count);
            var exists = Assert.Is<KeysExistResult.Success>(await client.KeysExistAsync(new[] { "a", "none" }));
            Assert.Equal(new[] { true, false }, exists.Exists);
            exists = Assert.Is<KeysExistResult.Success>(await client.KeysExistAsync(new Bytes[] { Bytes(1) }));
            Assert.Equal(new[] { true }, exists.Exists);
            foreach (
                var (key, amount, sum) in new[]
                {
                    ("a", 41L, 42L), ("new", -1L, -1L), ("new", long.MaxValue, long.MaxValue - 1),
                })
            {
                Assert.Equal(sum, Assert.Is<IncrementResult.Success>(await client.IncrementAsync(key, amount)).Value);
            }
            Assert.Is<DoneResult.Success>(await client.DeleteAsync("a"));
            Assert.Is<DoneResult.Success>(await client.DeleteAsync("a"));
            Assert.Is<GetResult.Miss>(await client.GetAsync("a"));
        }

        [Test("values of all lengths come back")]
        private static async Task Lengths()
        {
            await using var client = await EmptyAsync();
            foreach (var length in new[] { 0, 1, 127, 128, 4085, 4086, 4087, 8191, 16_384, 65_536, 1_000_000 })
            {
                var value = Enumerable.Range(0, length).Select(at => (byte)(at % 251)).ToArray();
                Assert.Is<DoneResult.Success>(await client.SetAsync("long", value));
                var found = Assert.Is<GetResult.Hit>(await client.GetAsync("long"));
                Assert.True(found.ValueBytes.Span.SequenceEqual(value), $"{length} bytes");
                var batch = Assert.Is<GetBatchResult.Success>(
                    await client.GetBatchAsync(new[] { "long", "long", "none", "long" }));
                Assert.Equal(
                    3, batch.Results.OfType<GetResult.Hit>().Count(hit => hit.ValueBytes.Span.SequenceEqual(value)));
            }
        }

        [Test("text of all planes comes back")]
        private static async Task Text()
        {
            await using var client = await EmptyAsync();
            const string Text = "naïve ✓ 漢字 🐦 \u0000";
            Assert.Is<DoneResult.Success>(await client.SetAsync(Text, Text));
            Assert.Equal(Text, Value(await client.GetAsync(Text)));
            Assert.Equal(Text, Value(await client.GetAsync(Encoding.UTF8.GetBytes(Text))));
        }

        [Test("times to live")]
        private static async Task TimesToLive()
        {
            await using var client = await EmptyAsync();
            async Task<TimeSpan?> RemainingAsync(string key) =>
                Assert.Is<TtlResult.Hit>(await client.GetTtlAsync(key)).Remaining;
            TimeSpan Seconds(double seconds) => TimeSpan.FromSeconds(seconds);
            await client.SetAsync("k", "v", Seconds(60));
            var remaining = await RemainingAsync("k");
            Assert.True(remaining > Seconds(50) && remaining <= Seconds(60), $"{remaining}");
            Assert.Is<UpdateTtlResult.NotStored>(await client.IncreaseTtlAsync("k", Seconds(30)));
            Assert.Is<UpdateTtlResult.Stored>(await client.IncreaseTtlAsync("k", Seconds(90)));
            Assert.Is<UpdateTtlResult.NotStored>(await client.DecreaseTtlAsync("k", Seconds(99)));
            Assert.Is<UpdateTtlResult.Stored>(await client.DecreaseTtlAsync("k", Seconds(20)));
            Assert.Is<UpdateTtlResult.Stored>(await client.UpdateTtlAsync("k", Seconds(10)));
            Assert.Is<UpdateTtlResult.Miss>(await client.UpdateTtlAsync("none", Seconds(1)));
            Assert.True(await RemainingAsync("k") <= Seconds(10), "the time to live was overwritten");
            Assert.Is<TtlResult.Miss>(await client.GetTtlAsync("none"));
            await client.SetAsync("short", "v", Seconds(0.02));
            await Task.Delay(60);
            Assert.Is<GetResult.Miss>(await client.GetAsync("short"));
            Assert.Equal(ErrorCode.InvalidArgument, Assert.Code(await client.SetAsync("k", "v", TimeSpan.Zero)));
            Assert.Equal(ErrorCode.InvalidArgument, Assert.Code(await client.SetAsync("k", "v", Seconds(-1))));
            await client.SetAsync("default", "v");
            Assert.True(await RemainingAsync("default") > Seconds(3500), "the default is an hour");
            (await Servers.SharedAsync()).Redis("SET", "forever", "v");
            Assert.Equal(null, await RemainingAsync("forever"));
        }

        [Test("conditions")]
        private static async Task Conditions()
        {
            await using var client = await EmptyAsync();
            var steps = new (Func<Task<ConditionalSetResult>> Call, bool Stored)[]
            {
                (() => client.SetIfPresentAsync("k", "a"), false),
                (() => client.SetIfEqualAsync("k", "a", "x"), false),
                (() => client.SetIfAbsentAsync("k", "a"), true),
                (() => client.SetIfAbsentAsync("k", "b"), false),
                (() => client.SetIfPresentAsync("k", "b"), true),
                (() => client.SetIfEqualAsync("k", "c", "x"), false),
                (() => client.SetIfEqualAsync("k", "c", "b"), true),
                (() => client.SetIfNotEqualAsync("k", "d", "c"), false),
                (() => client.SetIfNotEqualAsync("k", "d", "x"), true),
                (() => client.SetIfAbsentOrEqualAsync("k", "e", "x"), false),
                (() => client.SetIfAbsentOrEqualAsync("k", "e", "d"), true),
                (() => client.SetIfPresentAndNotEqualAsync("k", "f", "e"), false),
                (() => client.SetIfPresentAndNotEqualAsync("k", "f", "x"), true),
            };
            for (var at = 0; at < steps.Length; at++)
            {
                var result = await steps[at].Call();
                Assert.Equal(steps[at].Stored, result is ConditionalSetResult.Stored, $"step {at} {result}");
                Assert.True(steps[at].Stored || result is ConditionalSetResult.NotStored, $"step {at} {result}");
            }
            Assert.Equal("f", Value(await client.GetAsync("k")));
        }

        [Test("conditions by hash")]
        private static async Task HashConditions()
        {
            await using var client = await EmptyAsync();
            var first = Assert.Is<HashSetResult.Stored>(await client.SetWithHashAsync("k", "a")).Hash;
            Assert.Is<GetWithHashResult.Miss>(await client.GetWithHashAsync("none"));
            var found = Assert.Is<GetWithHashResult.Hit>(await client.GetWithHashAsync("k"));
            Assert.Equal("a", found.ValueString);
            Assert.Equal(first.ToArray(), found.Hash.ToArray());
            var second =
                Assert.Is<HashSetResult.Stored>(await client.SetIfPresentAndHashEqualAsync("k", "b", first)).Hash;
            Assert.True(!first.Span.SequenceEqual(second.Span), "the hash of another value differs");
            Assert.Is<HashSetResult.NotStored>(await client.SetIfPresentAndHashEqualAsync("k", "c", first));
            Assert.Is<HashSetResult.NotStored>(await client.SetIfPresentAndHashNotEqualAsync("k", "c", second));
            Assert.Is<HashSetResult.Stored>(await client.SetIfPresentAndHashNotEqualAsync("k", "c", first));
            Assert.Is<HashSetResult.NotStored>(await client.SetIfAbsentOrHashEqualAsync("k", "d", first));
            Assert.Is<HashSetResult.Stored>(await client.SetIfAbsentOrHashEqualAsync("new", "d", first));
            Assert.Is<HashSetResult.Stored>(await client.SetIfAbsentOrHashNotEqualAsync("k", "d", first));
            Assert.Equal("d", Value(await client.GetAsync("k")));
        }

        [Test("dictionaries")]
        private static async Task Dictionaries()
        {
            await using var client = await EmptyAsync();
            Assert.Is<DictionaryResult.Miss>(await client.DictionaryFetchAsync("d"));
            Assert.Is<GetResult.Miss>(await client.DictionaryGetFieldAsync("d", "a"));
            Assert.Is<DictionaryFieldsResult.Miss>(await client.DictionaryGetFieldsAsync("d", new[] { "a" }));
            Assert.Is<LengthResult.Miss>(await client.DictionaryLengthAsync("d"));
            Assert.Is<DoneResult.Success>(await client.DictionarySetFieldAsync("d", "a", "1"));
            var fields = new Dictionary<string, string> { ["b"] = "2", ["c"] = "3" };
            Assert.Is<DoneResult.Success>(await client.DictionarySetFieldsAsync("d", fields));
            Assert.Equal("1", Value(await client.DictionaryGetFieldAsync("d", "a")));
            Assert.Is<GetResult.Miss>(await client.DictionaryGetFieldAsync("d", "x"));
            var some = Assert.Is<DictionaryFieldsResult.Hit>(
                await client.DictionaryGetFieldsAsync("d", new Bytes[] { "b", "x" }));
            Assert.Equal(new[] { "2", null }, some.ValuesString);
            Assert.Equal(
                42L, Assert.Is<IncrementResult.Success>(await client.DictionaryIncrementAsync("d", "a", 41)).Value);
            Assert.Is<DoneResult.Success>(await client.DictionaryRemoveFieldsAsync("d", new[] { "b", "x" }));
            var all = Assert.Is<DictionaryResult.Hit>(await client.DictionaryFetchAsync("d"));
            Assert.Equal(2, all.EntriesBytes.Count);
            Assert.Equal("42", all.FieldsString["a"]);
            Assert.Equal("3", all.FieldsString["c"]);
            Assert.Equal(2, Assert.Is<LengthResult.Hit>(await client.DictionaryLengthAsync("d")).Length);
            Assert.Is<DoneResult.Success>(await client.DictionaryRemoveFieldsAsync("d", new Bytes[] { "c" }));
            Assert.Is<DoneResult.Success>(await client.DictionaryDeleteAsync("d"));
            Assert.Is<DictionaryResult.Miss>(await client.DictionaryFetchAsync("d"));
        }

        [Test("sets")]
        private static async Task Sets()
        {
            await using var client = await EmptyAsync();
            Assert.Is<SetResult.Miss>(await client.SetFetchAsync("s"));
            Assert.Is<FoundResult.Miss>(await client.SetRemoveElementsAsync("s", new[] { "a" }));
            Assert.Is<ContainsResult.Miss>(await client.SetContainsAsync("s", new[] { "a" }));
            Assert.Is<DoneResult.Success>(await client.SetAddElementsAsync("s", new[] { "a", "b", "c", "c" }));
            var all = Assert.Is<SetResult.Hit>(await client.SetFetchAsync("s"));
            Assert.Equal(new[] { "a", "b", "c" }, all.ElementsString.OrderBy(each => each));
            Assert.Equal(3, Assert.Is<LengthResult.Hit>(await client.SetLengthAsync("s")).Length);
            var contained = Assert.Is<ContainsResult.Hit>(await client.SetContainsAsync("s", new Bytes[] { "a", "x" }));
            Assert.Equal(new[] { true, false }, contained.Contained);
            Assert.Equal(2, Assert.Is<SetResult.Hit>(await client.SetSampleAsync("s", 2)).ElementsBytes.Count);
            Assert.Is<FoundResult.Success>(await client.SetRemoveElementsAsync("s", new Bytes[] { "a" }));
            var popped = Assert.Is<SetResult.Hit>(await client.SetPopAsync("s")).ElementsString.Single();
            Assert.True(popped == "b" || popped == "c", popped);
            Assert.Equal(1, Assert.Is<LengthResult.Hit>(await client.SetLengthAsync("s")).Length);
            await client.SetAddElementsAsync("s", new Bytes[] { "b", "c" });
            Assert.Is<FoundResult.Success>(await client.SetSubtractFromAsync("s", new[] { "c", "x" }));
            Assert.Equal(new[] { "x" }, Assert.Is<SetResult.Hit>(await client.SetFetchAsync("s")).ElementsString);
            Assert.Is<FoundResult.Success>(await client.SetSubtractFromAsync("s", new Bytes[] { "y" }));
            Assert.Is<FoundResult.Success>(await client.SetDeleteAsync("s"));
            Assert.Is<FoundResult.Miss>(await client.SetDeleteAsync("s"));
            Assert.Is<LengthResult.Miss>(await client.SetLengthAsync("s"));
        }

        [Test("lists")]
        private static async Task Lists()
        {
            await using var client = await EmptyAsync();
            Assert.Is<ListResult.Miss>(await client.ListFetchAsync("l"));
            Assert.Is<ListPopResult.Miss>(await client.ListPopFrontAsync("l"));
            Assert.Is<LengthResult.Miss>(await client.ListLengthAsync("l"));
            async Task<object> ElementsAsync(IndexRange range) =>
                Assert.Is<ListResult.Hit>(await client.ListFetchAsync("l", range)).ElementsString;
            long Length(ListLengthResult result) => Assert.Is<ListLengthResult.Success>(result).Length;
            Assert.Equal(1, Length(await client.ListPushBackAsync("l", "b")));
            Assert.Equal(2, Length(await client.ListPushFrontAsync("l", "a")));
            Assert.Equal(4, Length(await client.ListConcatenateBackAsync("l", new[] { "c", "d" })));
            Assert.Equal(6, Length(await client.ListConcatenateFrontAsync("l", new Bytes[] { "y", "z" })));
            Assert.Equal(new[] { "y", "z", "a", "b", "c", "d" }, await ElementsAsync(default));
            Assert.Equal(new[] { "z", "a" }, await ElementsAsync(new IndexRange(1, -3)));
            Assert.Equal(new[] { "z", "a" }, await ElementsAsync(1..^3));
            Assert.Equal(new[] { "c", "d" }, await ElementsAsync(^2..));
            var front = Assert.Is<ListPopResult.Hit>(await client.ListPopFrontAsync("l"));
            var back = Assert.Is<ListPopResult.Hit>(await client.ListPopBackAsync("l"));
            Assert.Equal(
                new object[] { "y", 5, "d", 4 },
                new object[] { front.ValueString, front.Length, back.ValueString, back.Length });
            Assert.Equal(4, Length(await client.ListPushBackAsync("l", "z", lengthMax: 4)));
            Assert.Equal(3, Assert.Is<LengthResult.Hit>(await client.ListRemoveValueAsync("l", "z")).Length);
            Assert.Equal(2, Assert.Is<LengthResult.Hit>(await client.ListRetainAsync("l", new IndexRange(-2))).Length);
            Assert.Equal(2, Assert.Is<LengthResult.Hit>(await client.ListLengthAsync("l")).Length);
            Assert.Equal(new[] { "b", "c" }, await ElementsAsync(default));
        }

        [Test("a range of C# finds the elements that it finds in an array")]
        private static async Task Ranges()
        {
            await using var client = await EmptyAsync();
            var elements = new[] { "a", "b", "c" };
            var scores = elements.Select((element, at) => KeyValuePair.Create(element, (double)at));
            Assert.Is<DoneResult.Success>(await client.SortedSetPutElementsAsync("z", scores));
            var ranges = new[]
            {
                .., ^0.., ^0..^0, ..^0, 0..^0, 1..^1, ^2..^0, ^2..^1, ^1.., 3.., 3..^0, 0..0, ^3..^3, 1..1, ^3..2,
            };
            foreach (var range in ranges)
            {
                var expected = string.Join(",", elements[range]);
                Assert.Is<DoneResult.Success>(await client.DeleteAsync("l"));
                Assert.Is<ListLengthResult.Success>(await client.ListConcatenateBackAsync("l", elements));
                async Task<string> ListAsync(IndexRange part) => string.Join(
                    ",", (await client.ListFetchAsync("l", part) as ListResult.Hit)?.ElementsString ?? new string[0]);
                Assert.Equal(expected, await ListAsync(range), $"{range}");
                var ranked = await client.SortedSetFetchByIndexAsync("z", range) as SortedSetResult.Hit;
                var found = ranked?.ElementsString.Select(each => each.Element) ?? new string[0];
                Assert.Equal(expected, string.Join(",", found), $"ranks {range}");
                Assert.True(!(await client.ListRetainAsync("l", range) is IErrorResult), $"retain {range}");
                Assert.Equal(expected, await ListAsync(default), $"retained {range}");
            }
        }

        [Test("sorted sets")]
        private static async Task SortedSets()
        {
            await using var client = await EmptyAsync();
            Assert.Is<SortedSetResult.Miss>(await client.SortedSetFetchByIndexAsync("z"));
            Assert.Is<ScoreResult.Miss>(await client.SortedSetGetScoreAsync("z", "a"));
            Assert.Is<RankResult.Miss>(await client.SortedSetGetRankAsync("z", "a"));
            var scores = new Dictionary<string, double> { ["a"] = 1.5, ["b"] = 2.5, ["c"] = -1 };
            Assert.Is<DoneResult.Success>(await client.SortedSetPutElementsAsync("z", scores));
            async Task<string> ByIndexAsync(IndexRange range = default, SortOrder order = SortOrder.Ascending) =>
                Shown(await client.SortedSetFetchByIndexAsync("z", range, order));
            async Task<string> ByScoreAsync(ScoreRange range = default, SortOrder order = SortOrder.Ascending) =>
                Shown(await client.SortedSetFetchByScoreAsync("z", range, order));
            Assert.Equal("c -1, a 1.5, b 2.5", await ByIndexAsync());
            Assert.Equal("b 2.5", await ByIndexAsync(new IndexRange(0, 1), SortOrder.Descending));
            Assert.Equal("c -1, a 1.5, b 2.5", await ByScoreAsync());
            Assert.Equal("a 1.5, b 2.5", await ByScoreAsync(new ScoreRange(least: 1.5)));
            Assert.Equal("b 2.5", await ByScoreAsync(new ScoreRange(1.5, 9, isLeastExclusive: true)));
            Assert.Equal("c -1, a 1.5", await ByScoreAsync(new ScoreRange(greatest: 2.5, isGreatestExclusive: true)));
            Assert.Equal("a 1.5", await ByScoreAsync(new ScoreRange(offset: 1, count: 1)));
            Assert.Equal("b 2.5, a 1.5", await ByScoreAsync(new ScoreRange(least: 0), SortOrder.Descending));
            Assert.Equal(1.5, Assert.Is<ScoreResult.Hit>(await client.SortedSetGetScoreAsync("z", "a")).Score);
            Assert.Is<ScoreResult.Miss>(await client.SortedSetGetScoreAsync("z", "x"));
            var some = Assert.Is<ScoresResult.Hit>(await client.SortedSetGetScoresAsync("z", new[] { "x", "b" }));
            Assert.Equal(new double?[] { null, 2.5 }, some.Scores);
            var sum = Assert.Is<ScoreIncrementResult.Success>(await client.SortedSetIncrementAsync("z", "a", 10));
            Assert.Equal(11.5, sum.Score);
            Assert.Equal(2, Assert.Is<RankResult.Hit>(await client.SortedSetGetRankAsync("z", "a")).Rank);
            var rank = Assert.Is<RankResult.Hit>(await client.SortedSetGetRankAsync("z", "a", SortOrder.Descending));
            Assert.Equal(0, rank.Rank);
            Assert.Is<RankResult.Miss>(await client.SortedSetGetRankAsync("z", "x"));
            Assert.Is<DoneResult.Success>(await client.SortedSetRemoveElementsAsync("z", new[] { "a", "x" }));
            Assert.Equal(2, Assert.Is<LengthResult.Hit>(await client.SortedSetLengthAsync("z")).Length);
            Assert.Is<DoneResult.Success>(await client.SortedSetDeleteAsync("z"));
            Assert.Is<LengthResult.Miss>(await client.SortedSetLengthAsync("z"));
        }

        private static string Shown(SortedSetResult result) => string.Join(
            ", ", Assert.Is<SortedSetResult.Hit>(result).ElementsString.Select(
                each => FormattableString.Invariant($"{each.Element} {each.Score}")));

        [Test("a change of a collection sets its time to live if it creates it or refreshes")]
        private static async Task Refresh()
        {
            await using var client = await EmptyAsync();
            async Task<double> AfterAsync(CollectionTtl ttl)
            {
                await client.SetAddElementsAsync("s", new[] { "a" }, ttl);
                return Assert.Is<TtlResult.Hit>(await client.GetTtlAsync("s")).Remaining!.Value.TotalSeconds;
            }

            Assert.True(await AfterAsync(CollectionTtl.WithoutRefresh(TimeSpan.FromSeconds(60))) > 50, "created");
            Assert.True(await AfterAsync(CollectionTtl.WithoutRefresh(TimeSpan.FromSeconds(5))) > 50, "not refreshed");
            Assert.True(await AfterAsync(TimeSpan.FromSeconds(5)) <= 5, "refreshed");
        }

        [Test("types of items")]
        private static async Task Types()
        {
            await using var client = await EmptyAsync();
            await client.SetAsync("v", "1");
            await client.DictionarySetFieldAsync("d", "f", "1");
            await client.SetAddElementsAsync("s", new[] { "a" });
            await client.ListPushBackAsync("l", "a");
            await client.SortedSetPutElementsAsync("z", new[] { KeyValuePair.Create<Bytes, double>("a", 1) });
            foreach (var (key, type) in new[]
            {
                ("v", ItemType.Value), ("d", ItemType.Dictionary), ("s", ItemType.Set), ("l", ItemType.List), (
                    "z", ItemType.SortedSet),
            })
            {
                Assert.Equal(type, Assert.Is<TypeResult.Hit>(await client.GetItemTypeAsync(key)).ItemType);
            }
            Assert.Is<TypeResult.Miss>(await client.GetItemTypeAsync("none"));
        }

        [Test("every call on a cache that does not exist is an error of its own type")]
        private static async Task ErrorOfEachCall()
        {
            await using var client = await EmptyAsync();
            await using var absent = client.WithCache("absent");
            var methods = typeof(CacheClient).GetMethods().Where(method => method.Name.EndsWith("Async"));
            var called = new HashSet<string>();
            foreach (var method in methods)
            {
                var parameters = method.GetParameters();
                if (method.IsStatic || !method.ReturnType.IsGenericType || parameters.All(
                    each => each.Name != "deadline"))
                {
                    continue;
                }
                var arguments = parameters.Select(each => ArgumentOf(each.ParameterType)).ToArray();
                var task = (Task)method.Invoke(absent, arguments)!;
                await task;
                var result = (object)((dynamic)task).Result;
                if (method.Name == "ListCachesAsync")
                {
                    Assert.Is<ListCachesResult.Success>(result);
                    continue;
                }
                // The calls on caches get a name that is none.
                var isOnCaches = parameters[0].Name == "name";
                var expected = isOnCaches ? ErrorCode.InvalidArgument : ErrorCode.NotFoundCache;
                Assert.Equal(expected, Assert.Code(result), method.Name);
                Assert.Equal(method.ReturnType.GetGenericArguments()[0], result.GetType().DeclaringType);
                called.Add(method.Name);
            }
            Assert.True(called.Count > 55, $"{called.Count} calls");
        }

        private static object? ArgumentOf(Type type)
        {
            if (type == typeof(string))
            {
                return "no name ✗";
            }
            if (type == typeof(Bytes))
            {
                return (Bytes)"k";
            }
            if (type == typeof(int))
            {
                // Some calls refuse to return 0 elements.
                return 1;
            }
            if (type == typeof(IEnumerable<Bytes>))
            {
                return new Bytes[] { "k" };
            }
            if (type == typeof(IEnumerable<string>))
            {
                return new[] { "k" };
            }
            if (type == typeof(IEnumerable<KeyValuePair<string, string>>))
            {
                return new Dictionary<string, string> { ["k"] = "v" };
            }
            if (type == typeof(IEnumerable<KeyValuePair<Bytes, Bytes>>))
            {
                return new[] { KeyValuePair.Create<Bytes, Bytes>("k", "v") };
            }
            if (type == typeof(IEnumerable<KeyValuePair<string, double>>))
            {
                return new Dictionary<string, double> { ["k"] = 1 };
            }
            if (type == typeof(IEnumerable<KeyValuePair<Bytes, double>>))
            {
                return new[] { KeyValuePair.Create<Bytes, double>("k", 1) };
            }
            return type == typeof(TimeSpan) ? TimeSpan.FromMinutes(1)
                : type.IsValueType ? Activator.CreateInstance(type) : null;
        }

        [Test("caches")]
        private static async Task Caches()
        {
            await using var client = await EmptyAsync();
            Assert.Is<DoneResult.Success>(await client.CreateCacheAsync("one"));
            Assert.Equal(ErrorCode.AlreadyExists, Assert.Code(await client.CreateCacheAsync("one")));
            var names = Assert.Is<ListCachesResult.Success>(await client.ListCachesAsync()).Names;
            Assert.True(names.Contains("default") && names.Contains("one"), string.Join(" ", names));
            var one = client.WithCache("one");
            Assert.Equal("one", one.Cache);
            Assert.Is<DoneResult.Success>(await one.SetAsync("k", "v"));
            Assert.Equal("v", Value(await one.GetAsync("k")));
            Assert.Is<GetResult.Miss>(await client.GetAsync("k"));
            Assert.Is<DoneResult.Success>(await client.FlushCacheAsync("one"));
            Assert.Is<GetResult.Miss>(await one.GetAsync("k"));
            Assert.Is<DoneResult.Success>(await client.DeleteCacheAsync("one"));
            Assert.Equal(ErrorCode.NotFoundCache, Assert.Code(await one.GetAsync("k")));
        }

        [Test("a text that UTF-8 does not express is refused, and not the key of another text")]
        private static async Task LoneSurrogates()
        {
            await using var client = await EmptyAsync();
            var retries = client.GetMetrics().Retries;
            void Refused(object result)
            {
                Assert.Equal(ErrorCode.InvalidArgument, Assert.Code(result));
                Assert.Contains("a text has a lone surrogate", ((IErrorResult)result).Message);
            }
            foreach (var bad in new[] { "\ud83d", "a\ud83d", "\udc00a", "\udc00\ud83d" })
            {
                Refused(await client.SetAsync(bad, "v"));
                Refused(await client.SetAsync("k", bad));
                Refused(await client.GetAsync(bad));
                Refused(await client.GetBatchAsync(new[] { bad }));
                Refused(await client.Topics.PublishAsync(bad, "v"));
                Refused(await client.Topics.SubscribeAsync(bad));
                Refused(await client.Leaderboard(bad).DeleteAsync());
                Refused(await client.CreateCacheAsync(bad));
                Assert.Throws<ArgumentException>(() => client.WithCache(bad));
            }
            var copying = Configurations.Laptop.V1().WithNearCache(10, 1000);
            await using (var near = await Servers.ClientAsync(copying))
            {
                Refused(await near.GetAsync("\ud83d"));
            }
            Assert.Contains(
                "not printable ASCII; give another name",
                Assert.Throws<ArgumentException>(() => client.WithCache("Köln")).Message);
            Assert.Is<DoneResult.Success>(await client.SetAsync("\ud83d\ude00", "v"));
            Assert.Equal("v", Value(await client.GetAsync(Bytes(0xf0, 0x9f, 0x98, 0x80))));
            var metrics = client.GetMetrics();
            Assert.Equal((retries, 0, 0), (metrics.Retries, metrics.InFlight, metrics.Streams));
        }

        [Test("arguments that are null or out of range throw")]
        private static async Task WrongArguments()
        {
            await using var client = await Servers.ClientAsync();
            await Assert.Throws<ArgumentNullException>(() => client.GetAsync((string)null!));
            await Assert.Throws<ArgumentNullException>(() => client.GetAsync((byte[])null!));
            await Assert.Throws<ArgumentNullException>(() => client.GetBatchAsync((IEnumerable<string>)null!));
            await Assert.Throws<ArgumentNullException>(
                () => client.SetBatchAsync((IEnumerable<KeyValuePair<string, string>>)null!));
            await Assert.Throws<ArgumentOutOfRangeException>(() => client.SetPopAsync("k", -1));
            await Assert.Throws<ArgumentOutOfRangeException>(() => client.ListPushBackAsync("k", "v", lengthMax: -1));
            await Assert.Throws<ArgumentOutOfRangeException>(() => client.GetAsync("k", TimeSpan.FromMilliseconds(-1)));
            Assert.Throws<ArgumentOutOfRangeException>(() => _ = new ScoreRange(offset: -1));
            Assert.Contains(
                "its name is empty", Assert.Throws<ArgumentException>(() => client.WithCache(string.Empty)).Message);
            Assert.Equal(0, client.GetMetrics().InFlight);
        }
    }
}
