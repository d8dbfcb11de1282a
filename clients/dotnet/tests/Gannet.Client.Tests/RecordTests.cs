using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>Records, leases, leaderboards and tokens.</summary>
    internal static class RecordTests
    {
        private static async Task<CacheClient> EmptyAsync()
        {
            var client = await Servers.ClientAsync();
            Assert.Is<DoneResult.Success>(await client.FlushCacheAsync("default"));
            return client;
        }

        private static Dictionary<string, BinValue> Bins(params (string Name, BinValue Value)[] bins) =>
            bins.ToDictionary(each => each.Name, each => each.Value);

        private static uint Revision(RevisionResult result) => Assert.Is<RevisionResult.Success>(result).Revision;

        private static void Refused(ErrorCode code, string part, object result)
        {
            Assert.Equal(code, Assert.Code(result), Assert.Is<IErrorResult>(result).Message);
            Assert.Contains(part, Assert.Is<IErrorResult>(result).Message);
        }

        [Test("records: bins of all types are read as they were written")]
        private static async Task Types()
        {
            await using var client = await EmptyAsync();
            var list = BinValue.List(1, "x", false, BinValue.List(), BinValue.Map(Bins(("deep", 0.25))));
            var bins = Bins(
                ("least", long.MinValue),
                ("number", -1.5),
                ("boolean", true),
                ("text", "ü"),
                ("binary", new byte[] { 0, 255 }),
                ("list", list),
                ("map", BinValue.Map(Bins(("a", 1), ("b", "2")))));
            foreach (var (name, value) in bins)
            {
                Assert.Equal(1L, Revision(await client.Records.PutAsync(name, Bins((name, value)))));
                var alone = await client.Records.GetAsync(name);
                Assert.True(alone is RecordResult.Hit, $"{value}: {(alone as IErrorResult)?.Message}");
            }
            Assert.Equal(1L, Revision(await client.Records.PutAsync("r", bins)));
            var record = Assert.Is<RecordResult.Hit>(await client.Records.GetAsync("r")).Record;
            Assert.Equal(("r", 1u, (DateTimeOffset?)null), (record.KeyString, record.Revision, record.ExpiresAt));
            Assert.Equal(bins.Keys.OrderBy(each => each), record.Bins.Keys.OrderBy(each => each));
            foreach (var (name, value) in bins)
            {
                Assert.Equal((value.Type, value.ToString()), (record.Bins[name].Type, record.Bins[name].ToString()), name);
            }
            Assert.Equal(new byte[] { 0, 255 }, record.Bins["binary"].AsBytes.ToArray());
            Assert.Equal(0.25, record.Bins["list"].AsList[4].AsMap["deep"].AsNumber);
            Assert.Equal(long.MinValue, record.Bins["least"].AsInteger);
            Assert.Contains(
                "it is Text; check its Type",
                Assert.Throws<InvalidOperationException>(() => _ = record.Bins["text"].AsInteger).Message);
            var view = new RecordView { Bins = new[] { "text", "least" } };
            record = Assert.Is<RecordResult.Hit>(await client.Records.GetAsync("r", view)).Record;
            Assert.Equal(new[] { "least", "text" }, record.Bins.Keys.OrderBy(each => each));
            Assert.Is<RecordResult.Miss>(await client.Records.GetAsync("none"));
        }

        [Test("records: a value that is nested too deeply, or null, throws before a request")]
        private static async Task DeepValue()
        {
            await using var client = await EmptyAsync();
            BinValue value = 1;
            for (var level = 0; level < 8; level++)
            {
                value = BinValue.List(value);
                // The server counts the innermost value as a level.
                if (level < 7)
                {
                    Assert.Equal(1L + level, Revision(await client.Records.PutAsync("r", Bins(("deep", value)))));
                }
            }
            Assert.Contains("nest at most 8", Assert.Throws<ArgumentException>(() => BinValue.List(value)).Message);
            Assert.Throws<ArgumentNullException>(() => _ = (BinValue)(string)null!);
            await Assert.Throws<ArgumentNullException>(() => client.Records.PutAsync("r", Bins(("null", null!))));
            await Assert.Throws<ArgumentNullException>(() => client.Records.PutAsync("r", null!));
        }

        [Test("records: changes, conditions, and times to live")]
        private static async Task Changes()
        {
            await using var client = await EmptyAsync();
            var records = client.Records;
            Refused(ErrorCode.NotFoundRecord, "create the record first", await records.TouchAsync("r"));
            var update = new RecordChange { When = RecordWhen.Update };
            Refused(
                ErrorCode.NotFoundRecord, "create the record first", await records.PutAsync("r", Bins(("a", 1)), update));
            var create = new RecordChange { When = RecordWhen.Create, Ttl = TimeSpan.FromMinutes(1), Set = "people" };
            Assert.Equal(1L, Revision(await records.PutAsync("r", Bins(("a", 1), ("t", "x"), ("n", 0.5)), create)));
            Refused(
                ErrorCode.AlreadyExists, "RecordWhen.Update", await records.PutAsync("r", Bins(("a", 1)), create));
            Assert.Equal(2L, Revision(await records.AddAsync("r", Bins(("a", 41), ("n", 1.0), ("new", 7)))));
            Assert.Equal(3L, Revision(await records.AppendAsync("r", Bins(("t", "y")))));
            var record = Assert.Is<RecordResult.Hit>(await records.GetAsync("r")).Record;
            Assert.Equal((42L, 1.5), (record.Bins["a"].AsInteger, record.Bins["n"].AsNumber));
            Assert.Equal((7L, "xy"), (record.Bins["new"].AsInteger, record.Bins["t"].AsText));
            var remaining = record.ExpiresAt!.Value - DateTimeOffset.UtcNow;
            Assert.True(remaining > TimeSpan.FromSeconds(30) && remaining < TimeSpan.FromSeconds(90), $"{remaining}");
            Refused(
                ErrorCode.Aborted,
                "read the record again",
                await records.PutAsync("r", Bins(("a", 1)), new RecordChange { IfRevision = 2 }));
            Refused(
                ErrorCode.Aborted,
                "read the record again",
                await records.PutAsync("r", Bins(("a", 1)), new RecordChange { IfRevisionAbove = 3 }));
            Refused(
                ErrorCode.FailedPrecondition,
                "change the filter",
                await records.PutAsync("r", Bins(("a", 1)), new RecordChange { Filter = "a > 42" }));
            Refused(
                ErrorCode.FailedPrecondition,
                "name the set",
                await records.PutAsync("r", Bins(("a", 1)), new RecordChange { Set = "other" }));
            Refused(ErrorCode.FailedPrecondition, "a long for INT", await records.AddAsync("r", Bins(("t", 1))));
            Refused(ErrorCode.InvalidArgument, "smaller number", await records.AddAsync("r", Bins(("a", long.MaxValue))));
            Refused(ErrorCode.InvalidArgument, "1 to 63 bytes", await records.PutAsync("r", Bins((string.Empty, 1))));
            Assert.Equal(4L, Revision(await records.TouchAsync("r", new RecordChange { Persist = true })));
            Assert.Equal(null, Assert.Is<RecordResult.Hit>(await records.GetAsync("r")).Record.ExpiresAt);
            var replace = new RecordChange { When = RecordWhen.Replace, IfRevision = 4 };
            Assert.Equal(5L, Revision(await records.PutAsync("r", Bins(("only", 1)), replace)));
            record = Assert.Is<RecordResult.Hit>(await records.GetAsync("r")).Record;
            Assert.Equal(new[] { "only" }, record.Bins.Keys);
            Refused(ErrorCode.Aborted, "read the record again", await records.DeleteAsync("r", 1));
            Assert.Is<FoundResult.Success>(await records.DeleteAsync("r", 5));
            Assert.Is<FoundResult.Miss>(await records.DeleteAsync("r"));
            await Assert.Throws<ArgumentOutOfRangeException>(
                () => records.TouchAsync("r", new RecordChange { Ttl = TimeSpan.Zero }));
            await client.SetAsync("v", "1");
            Refused(ErrorCode.FailedPrecondition, "GetItemTypeAsync", await records.GetAsync("v"));
        }

        [Test("records: pages, filters and queries")]
        private static async Task Pages()
        {
            await using var client = await EmptyAsync();
            var server = await Servers.SharedAsync();
            var people = new RecordChange { Set = "pages" };
            for (var number = 0; number < 100; number++)
            {
                await client.Records.PutAsync($"p{number}", Bins(("age", number), ("odd", number % 2 == 1)), people);
            }
            async Task<List<Record>> AllAsync(Func<string, Task<RecordPageResult>> next)
            {
                var found = new List<Record>();
                var cursor = string.Empty;
                do
                {
                    var page = Assert.Is<RecordPageResult.Success>(await next(cursor));
                    found.AddRange(page.Records);
                    cursor = page.Cursor;
                }
                while (cursor.Length > 0);
                return found;
            }

            var odd = new RecordView { Filter = "odd == true", Bins = new[] { "age" } };
            var pages = 0;
            var scanned = await AllAsync(cursor =>
            {
                pages++;
                return client.Records.ScanAsync("pages", cursor, 20, odd);
            });
            Assert.Equal(
                Enumerable.Range(0, 50).Select(each => 2L * each + 1),
                scanned.Select(each => each.Bins["age"].AsInteger).OrderBy(each => each));
            Assert.True(pages > 1 && scanned.All(each => each.Bins.Count == 1), $"{pages} pages");
            var none = BinRange.Equal(1);
            Refused(ErrorCode.FailedPrecondition, "REC.INDEX", await client.Records.QueryAsync("pages", "age", none));
            Assert.Equal("+OK", server.Redis("REC.INDEX", "CREATE", "pages", "age", "INT"));
            var range = BinRange.Between(10, 29);
            var queried = await AllAsync(cursor => client.Records.QueryAsync("pages", "age", range, cursor, 7));
            Assert.Equal(
                Enumerable.Range(10, 20).Select(each => $"p{each}").OrderBy(each => each),
                queried.Select(each => each.KeyString).OrderBy(each => each));
            var one = Assert.Is<RecordPageResult.Success>(
                await client.Records.QueryAsync("pages", "age", BinRange.Equal(42)));
            Assert.Equal(("p42", string.Empty), (one.Records.Single().KeyString, one.Cursor));
            Refused(
                ErrorCode.InvalidArgument,
                ";",
                await client.Records.ScanAsync("pages", view: new RecordView { Filter = "age >" }));
        }

        [Test("leases: of many clients that miss a value, one computes it")]
        private static async Task OneComputes()
        {
            await using var client = await EmptyAsync();
            var computed = 0;
            async Task<Bytes> ComputeAsync(System.Threading.CancellationToken cancellation)
            {
                System.Threading.Interlocked.Increment(ref computed);
                await Task.Delay(100, cancellation);
                return "value";
            }

            var results = await Task.WhenAll(
                Enumerable.Range(0, 50).Select(_ => client.Leases.GetOrComputeAsync("k", ComputeAsync)));
            Assert.True(results.All(each => (each as GetResult.Hit)?.ValueString == "value"), "all get the value");
            Assert.Equal(1, computed);
            Assert.Is<FoundResult.Success>(await client.Leases.MarkStaleAsync("k"));
            results = await Task.WhenAll(
                Enumerable.Range(0, 50).Select(_ => client.Leases.GetOrComputeAsync("k", ComputeAsync)));
            Assert.Equal(50, results.Count(each => each is GetResult.Hit));
            Assert.Equal(2, computed);
            // Without an end of the computation, the wait ends with the deadline.
            Assert.Is<LeaseResult.Won>(await client.Leases.GetAsync("other"));
            Assert.Is<GetResult.Miss>(
                await client.Leases.GetOrComputeAsync("other", ComputeAsync, deadline: TimeSpan.FromMilliseconds(50)));
            Assert.Equal(2, computed);
        }

        [Test("leases: one deadline bounds all calls and waits of a computation")]
        private static async Task OneDeadline()
        {
            var server = await Servers.SharedAsync();
            using var relay = new Relay(server.GrpcPort);
            await using var other = await EmptyAsync();
            Assert.Is<LeaseResult.Won>(await other.Leases.GetAsync("k"));
            await using var client = await CacheClient.CreateAsync(relay.Address, Servers.Configuration);
            Assert.Is<GetResult.Miss>(await client.GetAsync("none"));
            var started = System.Diagnostics.Stopwatch.StartNew();
            var waiting = client.Leases.GetOrComputeAsync(
                "k", _ => Task.FromResult<Bytes>("v"), deadline: TimeSpan.FromMilliseconds(1500));
            await Task.Delay(800);
            // The next question gets no reply.
            relay.Gates[0].Hold();
            Assert.Is<GetResult.Miss>(await waiting);
            Assert.True(started.Elapsed < TimeSpan.FromMilliseconds(2100), "the deadline holds");
        }

        [Test("leases: states, old values and tokens")]
        private static async Task Leases()
        {
            await using var client = await EmptyAsync();
            var leases = client.Leases;
            var won = Assert.Is<LeaseResult.Won>(await leases.GetAsync("k"));
            Assert.Equal(null, won.OldString);
            Assert.Equal(null, Assert.Is<LeaseResult.Wait>(await leases.GetAsync("k")).OldString);
            Assert.Is<ConditionalSetResult.Stored>(await leases.SetAsync("k", won.Token, "v"));
            Assert.Equal("v", Assert.Is<LeaseResult.Hit>(await leases.GetAsync("k")).ValueString);
            Assert.Equal("v", Assert.Is<GetResult.Hit>(await client.GetAsync("k")).ValueString);
            Assert.Is<FoundResult.Success>(await leases.MarkStaleAsync("k", TimeSpan.FromMinutes(1)));
            Assert.Is<FoundResult.Miss>(await leases.MarkStaleAsync("none"));
            won = Assert.Is<LeaseResult.Won>(await leases.GetAsync("k"));
            Assert.Equal("v", won.OldString);
            Assert.Equal("v", Assert.Is<LeaseResult.Wait>(await leases.GetAsync("k")).OldString);
            await client.DeleteAsync("k");
            Assert.Is<ConditionalSetResult.NotStored>(await leases.SetAsync("k", won.Token, "w"));
            await client.SetAsync("soon", "v", TimeSpan.FromSeconds(5));
            Assert.Is<LeaseResult.Hit>(await leases.GetAsync("soon"));
            Assert.Is<LeaseResult.Won>(await leases.GetAsync("soon", recache: TimeSpan.FromSeconds(10)));
            Assert.Is<LeaseResult.Won>(await leases.GetAsync("short", lease: TimeSpan.FromMilliseconds(1)));
            await Wait.UntilAsync(
                "the lease ends", async () => await leases.GetAsync("short") is LeaseResult.Won);
            await Assert.Throws<ArgumentOutOfRangeException>(() => leases.GetAsync("k", recache: TimeSpan.Zero));
            await Assert.Throws<ArgumentNullException>(() => leases.GetOrComputeAsync("k", null!));
            var thrown = await Assert.Throws<InvalidOperationException>(
                () => leases.GetOrComputeAsync("fails", _ => throw new InvalidOperationException("mine")));
            Assert.Equal("mine", thrown.Message);
            Refused(
                ErrorCode.NotFoundCache,
                "CreateCacheAsync",
                await client.WithCache("absent").Leases.GetOrComputeAsync("k", _ => Task.FromResult<Bytes>("v")));
        }

        private static (uint, uint, double)[] Ranked(object result) => Assert.Is<RankedResult.Success>(result).Elements
            .Select(each => (each.Id, each.Rank, each.Score)).ToArray();

        [Test("leaderboards: ranks, scores and lengths")]
        private static async Task Leaderboards()
        {
            await using var client = await EmptyAsync();
            var board = client.Leaderboard("game");
            Assert.Equal(0L, Assert.Is<LeaderboardLengthResult.Success>(await board.LengthAsync()).Length);
            Assert.Is<DoneResult.Success>(await board.UpsertAsync(
                new Dictionary<uint, double> { [1] = 10, [2] = 20, [3] = 20, [4] = 40 }));
            Assert.Equal(4L, Assert.Is<LeaderboardLengthResult.Success>(await board.LengthAsync()).Length);
            Assert.Equal(new[] { (4u, 0u, 40.0), (3u, 1u, 20.0) }, Ranked(await board.GetByRankAsync(0, 2)));
            Assert.Equal(
                new[] { (2u, 1u, 20.0), (3u, 2u, 20.0) },
                Ranked(await board.GetByRankAsync(1, 3, SortOrder.Ascending)));
            Assert.Equal(
                new[] { (1u, 0u, 10.0), (2u, 1u, 20.0), (3u, 2u, 20.0) },
                Ranked(await board.GetByScoreAsync(10, 40, SortOrder.Ascending)));
            Assert.Equal(4, Ranked(await board.GetByScoreAsync()).Length);
            Assert.Equal(
                new[] { (2u, 1u, 20.0) },
                Ranked(await board.GetByScoreAsync(null, 40, SortOrder.Ascending, 1, 1)));
            Assert.Equal(
                new[] { (1u, 3u, 10.0), (4u, 0u, 40.0) }, Ranked(await board.GetRankAsync(new uint[] { 1, 9, 4 })));
            Assert.Equal(
                new[] { (3u, 1u, 20.0), (2u, 1u, 20.0), (1u, 3u, 10.0) },
                Ranked(await board.GetCompetitionRankAsync(new uint[] { 3, 2, 1 })).OrderBy(each => each.Item2)
                    .ThenByDescending(each => each.Item1).ToArray());
            Assert.Is<DoneResult.Success>(await board.RemoveAsync(new uint[] { 4, 9 }));
            Assert.Equal((3u, 0u, 20.0), Ranked(await board.GetByRankAsync(0, 1)).Single());
            Assert.Is<DoneResult.Success>(await board.DeleteAsync());
            Assert.Is<DoneResult.Success>(await board.DeleteAsync());
            Assert.Equal(0, Ranked(await board.GetByRankAsync(0, 10)).Length);
            Refused(ErrorCode.InvalidArgument, ";", await board.GetByRankAsync(0, 10_000));
            Assert.Throws<ArgumentException>(() => client.Leaderboard(string.Empty));
            await Assert.Throws<ArgumentNullException>(() => board.RemoveAsync(null!));
        }

        [Test("tokens: each permission allows its calls and no others")]
        private static async Task Tokens()
        {
            await using var server = await Server.StartAsync();
            await using var client = await CacheClient.CreateAsync(server.Address, Servers.Configuration);
            await client.CreateCacheAsync("shop");
            async Task<CacheClient> WithAsync(string id, params Permission[] permissions)
            {
                var issued = Assert.Is<TokenResult.Success>(await client.Tokens.GenerateDisposableTokenAsync(
                    Permissions.Of(permissions), TimeSpan.FromMinutes(5), id));
                Assert.True(issued.ValidUntil > DateTimeOffset.UtcNow.AddMinutes(4), $"{issued.ValidUntil}");
                Assert.True(!issued.ToString().Contains(issued.Token), "a log does not show the token");
                return await CacheClient.CreateAsync(server.Address, Servers.Configuration, issued.ToCredentials());
            }

            await using (var reader = await WithAsync(
                string.Empty, Permission.Items(Role.ReadOnly, "shop", Selector.Prefixed("user:"))))
            {
                var shop = reader.WithCache("shop");
                Assert.Is<GetResult.Miss>(await shop.GetAsync("user:1"));
                Assert.Equal(ErrorCode.PermissionDenied, Assert.Code(await shop.GetAsync("item:1")));
                Assert.Equal(ErrorCode.PermissionDenied, Assert.Code(await shop.SetAsync("user:1", "v")));
                Assert.Equal(ErrorCode.PermissionDenied, Assert.Code(await reader.GetAsync("user:1")));
            }
            await using (var writer = await WithAsync(
                string.Empty, Permission.Items(Role.WriteOnly, keys: Selector.Named("k"))))
            {
                Assert.Is<DoneResult.Success>(await writer.SetAsync("k", "v"));
                Assert.Equal(ErrorCode.PermissionDenied, Assert.Code(await writer.GetAsync("k")));
                Assert.Equal(ErrorCode.PermissionDenied, Assert.Code(await writer.SetAsync("l", "v")));
            }
            await using var subscriber = await WithAsync(
                string.Empty, Permission.Topics(Role.ReadOnly, "default", Selector.Named("news")));
            await using var publisher = await WithAsync(
                "ann", Permission.Topics(Role.WriteOnly), Permission.Items(Role.ReadWrite, "default"));
            await using var subscription = Assert.Is<SubscribeResult.Subscription>(
                await subscriber.Topics.SubscribeAsync("news"));
            Assert.Is<DoneResult.Success>(await publisher.SetAsync("k", "v"));
            Assert.Is<DoneResult.Success>(await publisher.Topics.PublishAsync("news", "hello"));
            await foreach (var each in subscription)
            {
                if (each is TopicEvent.Item item)
                {
                    Assert.Equal(("ann", "hello"), (item.PublisherId, item.ValueString));
                    break;
                }
            }
            foreach (var refused in new object[]
            {
                await subscriber.Topics.SubscribeAsync("sport"), await subscriber.Topics.PublishAsync("news", "v"),
                await publisher.Topics.SubscribeAsync("news"), await subscriber.GetAsync("k"),
                await subscriber.Tokens.GenerateApiTokenAsync(Permissions.All, null),
            })
            {
                Assert.Equal(ErrorCode.PermissionDenied, Assert.Code(refused));
            }
        }

        [Test("tokens: an API token is refreshed, and an expired one is refused")]
        private static async Task ApiTokens()
        {
            await using var client = await Servers.ClientAsync();
            var server = await Servers.SharedAsync();
            var endless = Assert.Is<ApiTokenResult.Success>(
                await client.Tokens.GenerateApiTokenAsync(Permissions.All, null));
            Assert.Equal(null, endless.ValidUntil);
            var issued = Assert.Is<ApiTokenResult.Success>(await client.Tokens.GenerateApiTokenAsync(
                Permissions.Of(Permission.Items(Role.ReadOnly)), TimeSpan.FromMinutes(5)));
            var fresh = Assert.Is<ApiTokenResult.Success>(
                await client.Tokens.RefreshApiTokenAsync(issued.Token, issued.RefreshToken));
            Assert.True(fresh.ValidUntil >= issued.ValidUntil, $"{fresh.ValidUntil}");
            Assert.True(!fresh.ToString().Contains(fresh.RefreshToken), "a log does not show the token");
            foreach (var token in new[] { endless, issued, fresh })
            {
                await using var user = await CacheClient.CreateAsync(
                    server.Address, Servers.Configuration, token.ToCredentials());
                Assert.Is<GetResult.Miss>(await user.GetAsync("no such key"));
            }
            Assert.Is<ApiTokenResult.Error>(await client.Tokens.RefreshApiTokenAsync(issued.Token, "wrong"));
            var brief = Assert.Is<TokenResult.Success>(await client.Tokens.GenerateDisposableTokenAsync(
                Permissions.All, TimeSpan.FromSeconds(1)));
            await using var late = await CacheClient.CreateAsync(
                server.Address, Servers.Configuration, brief.ToCredentials());
            await Wait.UntilAsync(
                "the token expires",
                async () => await late.GetAsync("k") is GetResult.Error error && error.Code == ErrorCode.Unauthenticated);
            foreach (var wrong in new[] { TimeSpan.Zero, TimeSpan.FromDays(365_000) })
            {
                await Assert.Throws<ArgumentOutOfRangeException>(
                    () => client.Tokens.GenerateDisposableTokenAsync(Permissions.All, wrong));
            }
            await Assert.Throws<ArgumentNullException>(() => client.Tokens.GenerateApiTokenAsync(null!, null));
            Assert.Throws<ArgumentOutOfRangeException>(() => Permission.Items((Role)9));
        }
    }
}
