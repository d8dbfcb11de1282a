using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text.RegularExpressions;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>The tables of the README on errors and refused arguments say what the library does.</summary>
    internal static class RefusalTests
    {
        private const string LoneSurrogate = "\ud83d";

        /// <summary>
        /// Returns the rows of the table that begins with <paramref name="first"/>, as cells, without the line below
        /// the first row.
        /// </summary>
        private static List<string[]> Table(string first) =>
            File.ReadLines(Path.Combine(Files.Library, "README.md"))
                .SkipWhile(line => !line.StartsWith(first)).TakeWhile(line => line.StartsWith("|"))
                .Where(line => !line.StartsWith("|---"))
                .Select(line => line.Trim('|').Split('|').Select(cell => cell.Trim()).ToArray()).ToList();

        [Test("the table of error codes in the README has all codes")]
        private static void Codes()
        {
            var named = Table("| code |").SelectMany(row => Regex.Matches(row[0], "`(\\w+)`"))
                .Select(match => match.Groups[1].Value);
            Assert.Equal(Enum.GetNames(typeof(ErrorCode)).OrderBy(each => each), named.OrderBy(each => each));
        }

        /// <summary>Returns the way in which a call is refused, as the table names it.</summary>
        private static async Task<string> WayAsync(Func<Task<object>> call)
        {
            try
            {
                var result = await call();
                return result is IErrorResult error && error.Code == ErrorCode.InvalidArgument
                    ? "`INVALID`"
                    : $"not refused: {result}";
            }
            catch (ArgumentException exception)
            {
                return $"`{exception.GetType().Name}`";
            }
        }

        /// <summary>Returns the way in which all of these are refused.</summary>
        private static async Task<string> WaysAsync(params Func<Task<object>>[] calls) =>
            string.Join(" or ", (await Task.WhenAll(calls.Select(WayAsync))).Distinct().OrderBy(each => each));

        private static Func<Task<object>> Made(Func<object> make) => () => Task.FromResult(make());

        private static async Task<Dictionary<string, string>> ExpectedAsync(CacheClient client)
        {
            var server = await Servers.SharedAsync();
            var (records, graph) = (client.Records, client.Graph("refused of dotnet"));
            var (below, none) = (TimeSpan.FromMilliseconds(0.5), TimeSpan.Zero);
            Task<CacheClient> CreateAsync(TimeSpan ttl, string cache = "default") =>
                CacheClient.CreateAsync(server.Address, Servers.Configuration, defaultTtl: ttl, cache: cache);

            return new Dictionary<string, string>
            {
                ["the default time to live of a client, that of a record, or a time of a lease: "
                    + "0, negative or below 1 ms"] = await WaysAsync(
                        async () => await CreateAsync(none),
                        async () => await CreateAsync(-below),
                        async () => await records.TouchAsync("k", new RecordChange { Ttl = below }),
                        async () => await client.Leases.GetAsync("k", recache: none),
                        async () => await client.Leases.GetAsync("k", lease: -below),
                        async () => await client.Leases.MarkStaleAsync("k", below)),
                ["the name of a cache that is not printable ASCII"] = await WaysAsync(
                    Made(() => client.WithCache("Köln")),
                    Made(() => client.WithCache("a\n")),
                    async () => await CreateAsync(TimeSpan.FromHours(1), "Köln")),
                ["a text that UTF-8 does not express (a lone surrogate)"] = await WaysAsync(
                    async () => await client.GetAsync(LoneSurrogate),
                    async () => await client.SetAsync("k", LoneSurrogate),
                    async () => await client.Topics.PublishAsync(LoneSurrogate, "v"),
                    async () => await graph.CountAsync(1, LoneSurrogate),
                    async () => await records.GetAsync("k", new RecordView { Filter = LoneSurrogate })),
                ["a configuration that needs more than 1,000 connections: requests in flight / streams of a "
                    + "connection"] = await WaysAsync(
                        Made(() => Servers.Configuration.WithRequestsInFlightMax(100_001))),
                ["a whole number beyond its field: 64 bits for values, 32 bits for places and revisions, "
                    + "or negative where none is"] = await WaysAsync(
                        Made(() => new ScoreRange(offset: -1)),
                        async () => await client.SetPopAsync("k", -1),
                        async () => await graph.AddEdgesAsync("t", new[] { new Edge(1, 2) { TimeMs = -1 } })),
                ["the deletion of a record with other conditions than on its revision"] = OfCompiler(),
                ["the name of a graph that is empty"] = await WaysAsync(
                    Made(() => client.Graph(string.Empty)),
                    Made(() => GraphQuery.Count(1, "t").InGraph(string.Empty))),
                ["0 for a limit, a budget or another bound of a query of a graph"] = await WaysAsync(
                        async () => await graph.NeighboursAsync(1, "t", limit: 0),
                        async () => await graph.MutualAsync(1, 2, "t", limit: 0),
                        async () => await graph.MutualCountAsync(1, 2, "t", 0),
                        async () => await graph.CombineAsync(CombineOperation.Union, new NodeList[0], limit: 0),
                        async () => await graph.PathsAsync(1, 2, "t", k: 0),
                        async () => await graph.SuggestAsync(1, "t", k: 0),
                        async () => await graph.DistancesAsync(1, "t", new ulong[] { 2 }, max: 0),
                        async () => await graph.SecondDegreeAsync(1, "t", budget: 0),
                        async () => await graph.SecondDegreeCountAsync(1, "t", stale: 0)),
            };
        }

        /// <summary>Returns the cell for a deletion, whose method has no parameter of other conditions.</summary>
        private static string OfCompiler()
        {
            var parameters = typeof(Records).GetMethod(nameof(Records.DeleteAsync))!.GetParameters();
            Assert.Equal(
                new[] { "key", "ifRevision", "ifRevisionAbove", "deadline", "cancellationToken" },
                parameters.Select(each => each.Name));
            return "by the compiler";
        }

        [Test("the table of refused arguments in the README is what the library does")]
        private static async Task Arguments()
        {
            await using var client = await Servers.ClientAsync();
            var table = Table("| argument |");
            var column = Array.IndexOf(table[0], ".NET");
            var expected = await ExpectedAsync(client);
            Assert.Equal(
                expected.Select(each => $"{each.Key}: {each.Value}").OrderBy(each => each),
                table.Skip(1).Select(row => $"{row[0]}: {row[column]}").OrderBy(each => each));
        }
    }
}
