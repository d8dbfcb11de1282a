using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.Client.Protocol;
using Gannet.V1.Replies;

namespace Gannet.Client.Tests
{
    /// <summary>
    /// Every call on graphs, against a real server. The tests share a graph, because each graph takes a part of the
    /// store. Each test declares its own edge types.
    /// </summary>
    internal static class GraphTests
    {
        private const string Name = "graphs of dotnet";

        // The greatest identifier of a node.
        private const ulong Greatest = ulong.MaxValue - 1;

        private static async Task<CacheClient> DeclaredAsync(params string[] types)
        {
            var client = await Servers.ClientAsync();
            foreach (var type in types)
            {
                Assert.Is<DoneResult.Success>(await client.Graph(Name).DeclareTypeAsync(type, undirected: true));
            }
            return client;
        }

        private static Edge[] Edges(params (ulong, ulong)[] edges) => edges.Select(each => (Edge)each).ToArray();

        private static Edge[] Star(ulong hub, ulong first, int count) =>
            Enumerable.Range(0, count).Select(at => new Edge(hub, first + (ulong)at)).ToArray();

        private static void Changed(ulong count, EdgesChangedResult result) =>
            Assert.Equal(count, Assert.Is<EdgesChangedResult.Success>(result).Changed);

        private static void Changed(bool isChanged, NodeChangedResult result) =>
            Assert.Equal(isChanged, Assert.Is<NodeChangedResult.Success>(result).IsChanged);

        private static void Count(ulong count, object result)
        {
            var found = Assert.Is<NodeCountResult.Success>(result);
            Assert.Equal((count, false), (found.Count, found.IsPartial));
        }

        private static IReadOnlyList<ulong> Nodes(NeighbourPageResult result) =>
            Assert.Is<NeighbourPageResult.Success>(result).Nodes;

        private static CacheError Refused(ErrorCode code, string part, object result)
        {
            Assert.Equal(code, Assert.Code(result), Assert.Is<IErrorResult>(result).Message);
            Assert.Contains(part, Assert.Is<IErrorResult>(result).Message);
            return Assert.Is<IErrorResult>(result).Details;
        }

        [Test("graphs: a type is declared again only in its form")]
        private static async Task Declarations()
        {
            await using var client = await DeclaredAsync("declared", "declared");
            var graph = client.Graph(Name);
            Refused(ErrorCode.FailedPrecondition, "direction", await graph.DeclareTypeAsync("declared"));
            Assert.Is<DoneResult.Success>(await graph.DeclareTypeAsync("follows"));
            Assert.Is<DoneResult.Success>(await graph.DeclareTypeAsync("followed", inverseOf: "follows"));
            Changed(1, await graph.AddEdgesAsync("follows", Edges((1, 2))));
            Count(1, await graph.CountAsync(2, "followed"));
            Count(0, await graph.CountAsync(2, "follows"));
            Assert.Equal(Name, graph.Name);
        }

        [Test("graphs: nodes are unsigned")]
        private static async Task Unsigned()
        {
            await using var client = await DeclaredAsync("unsigned");
            var graph = client.Graph(Name);
            Changed(4, await graph.AddEdgesAsync("unsigned", new Edge[] { (1, 2), (2, 3), (3, 4), (1, 3) }));
            Changed(0, await graph.AddEdgesAsync("unsigned", Edges((1, 2))));
            Count(2, await graph.CountAsync(1, "unsigned"));
            Changed(1, await graph.AddEdgesAsync("unsigned", Edges((Greatest, 5))));
            Assert.Equal(new[] { Greatest }, Nodes(await graph.NeighboursAsync(5, "unsigned")));
            Assert.Equal(new[] { 5UL }, Nodes(await graph.NeighboursAsync(Greatest, "unsigned")));
            Refused(ErrorCode.InvalidArgument, "node 0", await graph.CountAsync(0, "unsigned"));
            Refused(
                ErrorCode.InvalidArgument, "18446744073709551615", await graph.CountAsync(ulong.MaxValue, "unsigned"));
        }

        private static async Task<EdgeInfo> InfoAsync(Graph graph, ulong source, string type, ulong destination) =>
            Assert.Is<EdgesResult.Success>(await graph.GetEdgesAsync(source, type, new[] { destination })).Edges[0];

        [Test("graphs: edges have states")]
        private static async Task States()
        {
            await using var client = await DeclaredAsync("states");
            var graph = client.Graph(Name);
            Changed(2, await graph.AddEdgesAsync("states", Edges((1, 2), (1, 3))));
            var found = Assert.Is<EdgesResult.Success>(
                await graph.GetEdgesAsync(1, "states", new ulong[] { 2, 9 })).Edges;
            Assert.Equal((EdgeState.Live, EdgeState.Absent), (found[0].State, found[1].State));
            Assert.True(found[0].TimeMs > 0 && found[1].TimeMs == 0, $"{found[0]}, {found[1]}");
            Changed(1, await graph.RemoveEdgesAsync("states", Edges((1, 2))));
            Assert.Equal(EdgeState.Removed, (await InfoAsync(graph, 1, "states", 2)).State);
            Changed(1, await graph.ArchiveEdgesAsync("states", Edges((1, 3))));
            Assert.Equal(EdgeState.Archived, (await InfoAsync(graph, 1, "states", 3)).State);
            Assert.Equal(
                new[] { 3UL }, Nodes(await graph.NeighboursAsync(1, "states", state: EdgeState.Archived)));
            Changed(1, await graph.RestoreEdgesAsync("states", Edges((1, 3))));
            Assert.Equal(EdgeState.Live, (await InfoAsync(graph, 1, "states", 3)).State);
        }

        [Test("graphs: edges have attributes")]
        private static async Task Attributes()
        {
            await using var client = await DeclaredAsync("other");
            var graph = client.Graph(Name);
            Assert.Is<DoneResult.Success>(
                await graph.DeclareTypeAsync("rated", undirected: true, attributes: new[] { "stars", "note" }));
            var attributes = new Dictionary<string, Bytes> { ["stars"] = "5", ["note"] = new byte[] { 255, 0 } };
            Changed(1, await graph.AddEdgesAsync("rated", new[] { new Edge(1, 2) { Attributes = attributes } }));
            var info = await InfoAsync(graph, 1, "rated", 2);
            Assert.Equal((2, "5"), (info.AttributesBytes.Count, info.AttributesString["stars"]));
            Assert.Equal(new byte[] { 255, 0 }, info.AttributesBytes["note"].ToArray());
            var page = Assert.Is<NeighbourPageResult.Success>(
                await graph.NeighboursAsync(1, "rated", withAttributes: true));
            Assert.Equal(new[] { 2UL }, page.Nodes);
            Assert.Equal((2UL, "5"), (page.Neighbours[0].Node, page.Neighbours[0].AttributesString["stars"]));
            Assert.Equal(info.TimeMs, page.Neighbours[0].TimeMs);
            page = Assert.Is<NeighbourPageResult.Success>(await graph.NeighboursAsync(1, "rated"));
            Assert.Equal((1, 0), (page.Nodes.Count, page.Neighbours.Count));
            Changed(1, await graph.AddEdgesAsync("rated", new[] { new Edge(1, 3) { IsNegative = true } }));
            Assert.Equal(EdgeState.Negative, (await InfoAsync(graph, 1, "rated", 3)).State);
            Assert.Equal(
                new[] { 3UL }, Nodes(await graph.NeighboursAsync(1, "rated", state: EdgeState.Negative)));
            // The type of an edge replaces that of the call.
            Changed(1, await graph.AddEdgesAsync("rated", new[] { new Edge(7, 8) { Type = "other" } }));
            Count(1, await graph.CountAsync(7, "other"));
        }

        [Test("graphs: the newest time of an edge wins")]
        private static async Task NewestTime()
        {
            await using var client = await DeclaredAsync("timed");
            var graph = client.Graph(Name);
            var edge = Edges((1, 2));
            Changed(1, await graph.AddEdgesAsync("timed", edge, 2_000));
            Changed(0, await graph.RemoveEdgesAsync("timed", edge, 1_000));
            var info = await InfoAsync(graph, 1, "timed", 2);
            Assert.Equal((EdgeState.Live, 2_000L), (info.State, info.TimeMs));
            Changed(1, await graph.RemoveEdgesAsync("timed", edge, 3_000));
            // Its own time replaces that of the call.
            Changed(0, await graph.RestoreEdgesAsync("timed", new[] { new Edge(1, 2) { TimeMs = 2_500 } }, 9_000));
            Changed(1, await graph.RestoreEdgesAsync("timed", edge, 4_000));
            Changed(1, await graph.ArchiveEdgesAsync("timed", edge, 5_000));
            Assert.Equal(EdgeState.Archived, (await InfoAsync(graph, 1, "timed", 2)).State);
            await Assert.Throws<ArgumentOutOfRangeException>(() => graph.AddEdgesAsync("timed", edge, -1));
        }

        [Test("graphs: pages of a type that is sorted by time")]
        private static async Task ByTime()
        {
            await using var client = await DeclaredAsync("by identifier");
            var graph = client.Graph(Name);
            Assert.Is<DoneResult.Success>(await graph.DeclareTypeAsync("recent", sortByTime: true));
            for (ulong node = 2; node <= 5; node++)
            {
                Changed(1, await graph.AddEdgesAsync("recent", Edges((1, node)), (long)node * 1_000));
            }
            Assert.Equal(new ulong[] { 5, 4, 3, 2 }, Nodes(await graph.NeighboursAsync(1, "recent")));
            Assert.Equal(new ulong[] { 2, 3, 4, 5 }, Nodes(await graph.NeighboursAsync(1, "recent", reverse: true)));
            Assert.Equal(
                new ulong[] { 4, 3 }, Nodes(await graph.NeighboursAsync(1, "recent", times: (3_000, 4_000))));
            Refused(
                ErrorCode.FailedPrecondition,
                "cannot page by time",
                await graph.NeighboursAsync(1, "by identifier", times: (0, 1)));
        }

        private static async Task<List<T>> AllAsync<T>(IAsyncEnumerable<T> pages)
        {
            var all = new List<T>();
            await foreach (var each in pages)
            {
                all.Add(each);
            }
            return all;
        }

        [Test("graphs: pages have each node once, and a failure is the last one")]
        private static async Task Pages()
        {
            await using var client = await DeclaredAsync("paged");
            var graph = client.Graph(Name);
            Changed(10, await graph.AddEdgesAsync("paged", Star(1, 100, 10)));
            var pages = await AllAsync(graph.NeighbourPagesAsync(1, "paged", limit: 3));
            Assert.Equal(4, pages.Count);
            Assert.Equal(Enumerable.Range(100, 10), pages.SelectMany(Nodes));
            var cursor = Assert.Is<NeighbourPageResult.Success>(pages[0]).Cursor;
            Assert.Equal(new ulong[] { 103, 104, 105 }, Nodes(await graph.NeighboursAsync(1, "paged", cursor, 3)));
            Assert.Equal(3, (await AllAsync(graph.NeighbourPagesAsync(1, "paged", cursor, 3))).Count);
            var lists = new NodeList[] { (1, "paged"), (100, "paged") };
            Refused(
                ErrorCode.InvalidArgument, "cursor", await graph.CombineAsync(CombineOperation.Union, lists, cursor));
            var union = await AllAsync(graph.CombinePagesAsync(CombineOperation.Union, lists, limit: 6));
            // Each of the neighbours has the other nine at distance 2.
            var second = await AllAsync(graph.SecondDegreePagesAsync(100, "paged", limit: 5));
            foreach (var (found, count) in new[] { (union, 11), (second, 9) })
            {
                var nodes = found.SelectMany(page => Assert.Is<NodePageResult.Success>(page).Nodes).ToList();
                Assert.Equal((2, count, count), (found.Count, nodes.Count, nodes.Distinct().Count()));
            }
            var failed = await AllAsync(graph.NeighbourPagesAsync(1, "undeclared"));
            Assert.Equal(ErrorCode.NotFoundGraph, Assert.Code(failed.Single()));
            using var cancelled = new CancellationTokenSource();
            cancelled.Cancel();
            failed = await AllAsync(
                graph.NeighbourPagesAsync(1, "paged", limit: 3, cancellationToken: cancelled.Token));
            Assert.Equal(ErrorCode.Cancelled, Assert.Code(failed.Single()));
            Assert.Throws<ArgumentOutOfRangeException>(() => graph.NeighbourPagesAsync(1, "paged", limit: 0));
            Assert.Throws<ArgumentNullException>(() => graph.CombinePagesAsync(CombineOperation.Union, null!));
        }

        [Test("graphs: lists are combined")]
        private static async Task Lists()
        {
            await using var client = await DeclaredAsync("lists");
            var graph = client.Graph(Name);
            Changed(
                6,
                await graph.AddEdgesAsync(
                    "lists", Edges((1, 10), (1, 11), (1, 12), (2, 11), (2, 12), (2, 13))));
            var mutual = Assert.Is<MutualNodesResult.Success>(await graph.MutualAsync(1, 2, "lists"));
            Assert.Equal(new ulong[] { 11, 12 }, mutual.Nodes);
            Assert.Equal(false, mutual.IsPartial);
            Count(2, await graph.MutualCountAsync(1, 2, "lists"));
            mutual = Assert.Is<MutualNodesResult.Success>(await graph.MutualAsync(1, 2, "lists", limit: 1));
            Assert.Equal(new ulong[] { 11 }, mutual.Nodes);
            foreach (var (operation, nodes) in new[]
            {
                (CombineOperation.Intersection, new ulong[] { 11, 12 }),
                (CombineOperation.Difference, new ulong[] { 10 }),
                (CombineOperation.Union, new ulong[] { 10, 11, 12, 13 }),
            })
            {
                var page = Assert.Is<NodePageResult.Success>(
                    await graph.CombineAsync(operation, new NodeList[] { (1, "lists"), (2, "lists") }));
                Assert.Equal(nodes, page.Nodes.OrderBy(each => each), operation.ToString());
                Assert.Equal((string.Empty, false), (page.Cursor, page.IsPartial));
            }
        }

        [Test("graphs: distances and paths")]
        private static async Task Walks()
        {
            await using var client = await DeclaredAsync("walks");
            var graph = client.Graph(Name);
            Changed(5, await graph.AddEdgesAsync("walks", Edges((1, 2), (2, 4), (1, 3), (3, 5), (5, 4))));
            var distances = Assert.Is<DistancesResult.Success>(
                await graph.DistancesAsync(1, "walks", new ulong[] { 1, 2, 4, 77 }));
            Assert.Equal(new int?[] { 0, 1, 2, null }, distances.Distances);
            distances = Assert.Is<DistancesResult.Success>(
                await graph.DistancesAsync(1, "walks", new ulong[] { 2, 4 }, max: 1));
            Assert.Equal(new int?[] { 1, null }, distances.Distances);
            Assert.Equal(false, distances.IsPartial);
            var paths = new[] { new ulong[] { 1, 2, 4 }, new ulong[] { 1, 3, 5, 4 } };
            foreach (var (count, max) in new (int?, int?)[] { (null, null), (2, null), (2, 2) })
            {
                var found = Assert.Is<PathsResult.Success>(await graph.PathsAsync(1, 4, "walks", max, count));
                Assert.Equal(paths.Take(count == 2 && max == null ? 2 : 1), found.Paths);
                Assert.Equal(false, found.IsPartial);
            }
        }

        [Test("graphs: nodes at distance 2")]
        private static async Task SecondDegree()
        {
            await using var client = await DeclaredAsync("second");
            var graph = client.Graph(Name);
            Changed(5, await graph.AddEdgesAsync("second", Edges((1, 2), (1, 3), (2, 4), (3, 4), (3, 5))));
            var page = Assert.Is<NodePageResult.Success>(await graph.SecondDegreeAsync(1, "second"));
            Assert.Equal(new ulong[] { 4, 5 }, page.Nodes.OrderBy(each => each));
            Count(2, await graph.SecondDegreeCountAsync(1, "second"));
            Count(2, await graph.SecondDegreeCountAsync(1, "second", stale: 10));
            foreach (var (k, count) in new (int?, int)[] { (null, 2), (1, 1) })
            {
                var found = Assert.Is<SuggestionsResult.Success>(await graph.SuggestAsync(1, "second", k));
                Assert.Equal(
                    new[] { (4UL, 2u), (5UL, 1u) }.Take(count),
                    found.Suggestions.Select(each => (each.Node, each.Common)));
            }
        }

        [Test("graphs: a small budget makes a result partial")]
        private static async Task Budget()
        {
            await using var client = await DeclaredAsync("budget");
            var graph = client.Graph(Name);
            Changed(50, await graph.AddEdgesAsync("budget", Star(1, 200, 50)));
            var part = Assert.Is<NodeCountResult.Success>(
                await graph.SecondDegreeCountAsync(200, "budget", budget: 1));
            Assert.True(part.IsPartial && part.Count < 49, $"{part.Count}");
            Count(49, await graph.SecondDegreeCountAsync(200, "budget", budget: 1_000));
            // The server has the set in its cache, which misses the next edge: a change in each direction.
            Changed(1, await graph.AddEdgesAsync("budget", Edges((1, 250))));
            var stale = Assert.Is<NodePageResult.Success>(
                await graph.SecondDegreeAsync(200, "budget", budget: 1, stale: 2));
            Assert.Equal(false, stale.IsPartial);
            Changed(50, await graph.AddEdgesAsync("budget", Star(2, 200, 50)));
            var partial = new[]
            {
                Assert.Is<NodePageResult.Success>(
                    await graph.SecondDegreeAsync(200, "budget", budget: 1)).IsPartial,
                Assert.Is<DistancesResult.Success>(
                    await graph.DistancesAsync(200, "budget", new ulong[] { 201 }, budget: 1)).IsPartial,
                Assert.Is<PathsResult.Success>(await graph.PathsAsync(200, 201, "budget", budget: 1)).IsPartial,
                Assert.Is<SuggestionsResult.Success>(await graph.SuggestAsync(200, "budget", budget: 1)).IsPartial,
                Assert.Is<MutualNodesResult.Success>(await graph.MutualAsync(1, 2, "budget", budget: 1)).IsPartial,
                Assert.Is<NodeCountResult.Success>(await graph.MutualCountAsync(1, 2, "budget", 1)).IsPartial,
            };
            Assert.Equal(Enumerable.Repeat(true, 6), partial);
        }

        [Test("graphs: nodes have objects and marks")]
        private static async Task Objects()
        {
            await using var client = await DeclaredAsync("objects");
            var graph = client.Graph(Name);
            Changed(1, await graph.AddEdgesAsync("objects", Edges((900, 901))));
            Assert.Is<NodeResult.Miss>(await graph.GetNodeAsync(900));
            var texts = new Dictionary<string, string> { ["name"] = "Ann", ["city"] = "Köln" };
            Changed(true, await graph.SetNodeAsync(900, "person", texts, 2_000));
            var hit = Assert.Is<NodeResult.Hit>(await graph.GetNodeAsync(900));
            Assert.Equal(("person", 2), (hit.TypeString, hit.BinsBytes.Count));
            Assert.Equal(("Ann", "Köln"), (hit.BinsString["name"], hit.BinsString["city"]));
            Changed(false, await graph.SetNodeAsync(900, "thing", 1_000));
            Bytes name = new byte[] { 254 };
            var bins = new[] { KeyValuePair.Create(name, (Bytes)new byte[] { 255 }) };
            Changed(true, await graph.SetNodeAsync(900, new byte[] { 255, 0 }, bins));
            hit = Assert.Is<NodeResult.Hit>(await graph.GetNodeAsync(900));
            Assert.Equal(new byte[] { 255, 0 }, hit.TypeBytes.ToArray());
            Assert.Equal(
                (254, 255), ((int)hit.BinsBytes.Single().Key.ToArray()[0], (int)hit.BinsBytes[0].Value.ToArray()[0]));
            Changed(true, await graph.ArchiveNodeAsync(901));
            Changed(false, await graph.ArchiveNodeAsync(901));
            Assert.Equal(new ulong[0], Nodes(await graph.NeighboursAsync(900, "objects")));
            Changed(true, await graph.RestoreNodeAsync(901));
            Assert.Equal(new[] { 901UL }, Nodes(await graph.NeighboursAsync(900, "objects")));
            var later = DateTimeOffset.UtcNow.AddHours(1).ToUnixTimeMilliseconds();
            Changed(true, await graph.ArchiveNodeAsync(901, later));
            Changed(true, await graph.RestoreNodeAsync(901, later + 1));
            Changed(true, await graph.RemoveNodeAsync(900));
            Assert.Is<NodeResult.Miss>(await graph.GetNodeAsync(900));
            await Assert.Throws<ArgumentOutOfRangeException>(() => graph.RemoveNodeAsync(900, -1));
        }

        [Test("graphs: a query of a batch that fails has an error in its place")]
        private static async Task Batch()
        {
            await using var client = await DeclaredAsync("batch");
            var graph = client.Graph(Name);
            Changed(2, await graph.AddEdgesAsync("batch", Edges((1, 2), (2, 3))));
            var batch = new[]
            {
                GraphQuery.Count(2, "batch"), GraphQuery.Distances(1, "batch", new ulong[] { 3 }),
                GraphQuery.Paths(1, 3, "batch"), GraphQuery.Count(2, "undeclared"),
                GraphQuery.Count(2, "batch").InGraph("absent of dotnet"), GraphQuery.Neighbours(0, "batch"),
                GraphQuery.GetEdges(1, "batch", new ulong[] { 9 }), GraphQuery.Neighbours(2, "batch"),
                GraphQuery.SecondDegreeCount(1, "batch"), GraphQuery.Suggest(1, "batch"),
                GraphQuery.Mutual(1, 3, "batch"), GraphQuery.MutualCount(1, 3, "batch"),
                GraphQuery.Combine(CombineOperation.Union, new NodeList[] { (1, "batch") }),
                GraphQuery.SecondDegree(1, "batch"),
            };
            var results = Assert.Is<GraphQueriesResult.Success>(await graph.QueryAsync(batch)).Results;
            Assert.Equal(batch.Length, results.Count);
            Count(2, results[0]);
            Assert.Equal(new int?[] { 2 }, Assert.Is<DistancesResult.Success>(results[1]).Distances);
            Assert.Equal(new ulong[] { 1, 2, 3 }, Assert.Is<PathsResult.Success>(results[2]).Paths.Single());
            foreach (var at in new[] { 3, 4 })
            {
                Assert.Is<NodeCountResult.Error>(results[at]);
                var error = Refused(ErrorCode.NotFoundGraph, "cannot execute Count at ", results[at]);
                Assert.Contains("DeclareTypeAsync", error.Remedy);
            }
            Refused(ErrorCode.InvalidArgument, "cannot execute Range at ", results[5]);
            Assert.Equal(EdgeState.Absent, Assert.Is<EdgesResult.Success>(results[6]).Edges.Single().State);
            Assert.Equal(new ulong[] { 1, 3 }, Assert.Is<NeighbourPageResult.Success>(results[7]).Nodes);
            Count(1, results[8]);
            Assert.Equal(3UL, Assert.Is<SuggestionsResult.Success>(results[9]).Suggestions.Single().Node);
            Assert.Equal(new ulong[] { 2 }, Assert.Is<MutualNodesResult.Success>(results[10]).Nodes);
            Count(1, results[11]);
            Assert.Equal(new ulong[] { 2 }, Assert.Is<NodePageResult.Success>(results[12]).Nodes);
            Assert.Equal(new ulong[] { 3 }, Assert.Is<NodePageResult.Success>(results[13]).Nodes);
            Refused(ErrorCode.InvalidArgument, "give 1 to 64", await graph.QueryAsync(new GraphQuery[0]));
            // A query for another graph.
            var other = client.Graph("another of dotnet");
            Assert.Is<DoneResult.Success>(await other.DeclareTypeAsync("there"));
            var named = batch.Where((_, at) => at != 3 && at != 4 && at != 5).Select(each => each.InGraph(Name));
            var all = Assert.Is<GraphQueriesResult.Success>(await other.QueryAsync(named)).Results;
            Assert.True(all.All(each => !(each is IErrorResult)), Assert.Show(all));
        }

        [Test("graphs: a reply that does not fit its query is no result")]
        private static async Task BadReplies()
        {
            await using var client = await DeclaredAsync();
            var count = GraphQuery.Count(1, "t");
            var edges = GraphQuery.GetEdges(1, "t", new ulong[] { 2 });
            var distances = GraphQuery.Distances(1, "t", new ulong[] { 2, 3 });
            GraphResult Read(GraphQuery query, GraphQueryResult result) => query.ResultOf(result, client.Engine.Target);
            Count(7, Read(count, new GraphQueryResult { Count = new GraphCountReply { Count = 7 } }));
            var unknown = new GetEdgesReply();
            unknown.Edges.Add(new GraphEdge { State = (V1.EdgeState)5 });
            var one = new DistanceReply();
            one.Distances.Add(1);
            foreach (var (query, result) in new[]
            {
                (count, new GraphQueryResult()),
                (count, new GraphQueryResult { Range = new NeighbourPage() }),
                (edges, new GraphQueryResult { GetEdges = new GetEdgesReply() }),
                (edges, new GraphQueryResult { GetEdges = unknown }),
                (distances, new GraphQueryResult { Distance = one }),
            })
            {
                Assert.Throws<BadReplyException>(() => Read(query, result));
            }
        }

        [Test("graphs: errors name their remedies")]
        private static async Task Errors()
        {
            await using var client = await DeclaredAsync();
            var graph = client.Graph(Name);
            var absent = client.Graph("absent of dotnet");
            var error = Refused(ErrorCode.NotFoundGraph, "cannot find the graph", await absent.CountAsync(1, "knows"));
            Assert.Contains("DeclareTypeAsync", error.Remedy);
            Assert.True(!error.Message.Contains("G.TYPE") && !error.IsRetryable, error.Message);
            Assert.Is<DoneResult.Success>(await graph.DeclareTypeAsync("capped", cap: 1));
            Refused(
                ErrorCode.NotFoundGraph, "cannot find the edge type", await graph.CountAsync(1, "undeclared"));
            Refused(
                ErrorCode.FailedPrecondition,
                "1 edges were changed",
                await graph.AddEdgesAsync("capped", Edges((1, 2), (1, 3))));
            var elsewhere = client.WithCache("absent");
            Refused(
                ErrorCode.NotFoundCache, "CreateCacheAsync", await elsewhere.Graph(Name).CountAsync(1, "capped"));
            Refused(
                ErrorCode.InvalidArgument, "4096", await graph.NeighboursAsync(1, "capped", limit: 5_000));
            const string Bad = "a\ud83d";
            Refused(ErrorCode.InvalidArgument, "lone surrogate", await graph.CountAsync(1, Bad));
            Refused(
                ErrorCode.InvalidArgument,
                "lone surrogate",
                await graph.QueryAsync(new[] { GraphQuery.Count(1, "capped").InGraph(Bad) }));
            Assert.Throws<ArgumentException>(() => client.Graph(string.Empty));
            await Assert.Throws<ArgumentNullException>(() => graph.CountAsync(1, null!));
            await Assert.Throws<ArgumentNullException>(() => graph.AddEdgesAsync("capped", null!));
        }

        [Test("graphs: an error without a remedy has none of items")]
        private static async Task GeneralRemedies()
        {
            await using var client = await DeclaredAsync();
            const string Text = "this server has no graph store: start it with --graph-memory, as in 256MiB";
            CacheError Error(int status, string text) => ErrorFactory.OfOutcome(
                Outcome.Failed(status, text), V1.Methods.GraphCount, client.Engine.Target, 0, null);
            foreach (var (status, code) in new[] { (9, ErrorCode.FailedPrecondition), (8, ErrorCode.LimitExceeded) })
            {
                var error = Error(status, Text);
                Assert.Equal(code, error.Code);
                Assert.Contains(Text + "; read the message, and docs/graph/README.md for the limits", error.Message);
            }
            Assert.Equal(ErrorCode.NotFoundCache, Error(5, "the cache does not exist").Code);
        }

        [Test("graphs: figures of the graph and of the store")]
        private static async Task Figures()
        {
            await using var client = await DeclaredAsync("counted");
            var graph = client.Graph(Name);
            Changed(1, await graph.AddEdgesAsync("counted", Edges((1, 2))));
            var stats = Assert.Is<GraphStatsResult.Success>(await graph.StatsAsync());
            Assert.True(stats.Types.Contains("counted") && stats.Figures["nodes"] >= 2, Assert.Show(stats.Types));
            var store = Assert.Is<GraphStoreStatsResult.Success>(await client.GraphStoreStatsAsync());
            Assert.True(store.Graphs.Contains(Name) && store.Figures.Count > 0, Assert.Show(store.Graphs));
        }

        [Test("graphs: changes are repeated only with a time")]
        private static async Task Retries()
        {
            await using var server = await Server.StartAsync(("TEST_FAULTS", "1"));
            async Task<long> RetriesOfAsync(string method, Func<Graph, Task<object>> call)
            {
                await using var client = await CacheClient.CreateAsync(server.Address, Servers.Configuration);
                var graph = client.Graph(Name);
                Assert.Is<DoneResult.Success>(await graph.DeclareTypeAsync("retried"));
                client.Engine.Target.Metadata = new Dictionary<string, string>
                {
                    ["request-id"] = Guid.NewGuid().ToString(),
                    ["return-error"] = "unavailable",
                    ["error-rpcs"] = method,
                    ["error-count"] = "1",
                }.ToList();
                var result = await call(graph);
                var retries = client.GetMetrics().Retries;
                Assert.Equal(retries == 0, result is IErrorResult, method);
                Assert.True(retries > 0 || Assert.Code(result) == ErrorCode.Unavailable, method);
                return retries;
            }

            var mixed = new[] { new Edge(1, 3) { TimeMs = 1_000 }, new Edge(1, 4) };
            var calls = new (string Method, Func<Graph, Task<object>> Call, long Retries)[]
            {
                ("count", async graph => await graph.CountAsync(1, "retried"), 1),
                ("query", async graph => await graph.QueryAsync(new[] { GraphQuery.Count(1, "retried") }), 1),
                ("change", async graph => await graph.AddEdgesAsync("retried", Edges((1, 2))), 0),
                ("change", async graph => await graph.AddEdgesAsync("retried", Edges((1, 2)), 1_000), 1),
                ("change", async graph => await graph.RemoveEdgesAsync("retried", mixed), 0),
                ("change", async graph => await graph.AddEdgesAsync("retried", mixed.Take(1)), 1),
                ("set-node", async graph => await graph.SetNodeAsync(910, "t"), 0),
                ("set-node", async graph => await graph.SetNodeAsync(910, "t", 1_000), 1),
                ("mark-node", async graph => await graph.ArchiveNodeAsync(910), 0),
                ("mark-node", async graph => await graph.ArchiveNodeAsync(910, 1_000), 1),
                ("remove-node", async graph => await graph.RemoveNodeAsync(910), 0),
                ("remove-node", async graph => await graph.RemoveNodeAsync(910, 2_000), 1),
            };
            foreach (var (method, call, retries) in calls)
            {
                Assert.Equal(retries, await RetriesOfAsync(method, call), method);
            }
        }

        [Test("graphs: metrics and middleware have the names of the schema")]
        private static async Task Names()
        {
            await using var client = await DeclaredAsync("metrics");
            var graph = client.Graph(Name);
            await graph.NeighboursAsync(1, "metrics");
            await graph.AddEdgesAsync("metrics", Edges((1, 2)));
            Assert.Equal(
                new[] { "Change", "DeclareType", "Range" }, client.GetMetrics().Methods.Keys.OrderBy(each => each));
        }
    }
}
