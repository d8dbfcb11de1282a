using System;
using System.Linq;
using System.Threading.Tasks;
using Gannet.Client;

namespace Friends
{
    /// <summary>
    /// Stores friends in a graph, and prints how far apart two of them are, through whom, and whom one may know:
    /// <c>dotnet run --project examples/Friends 127.0.0.1:7000</c>.
    /// </summary>
    internal static class Program
    {
        // The person with number 1 is the first one.
        private static readonly string[] Names = { "Ann", "Bob", "Cem", "Dan", "Eve" };

        private static async Task Main(string[] arguments)
        {
            var address = arguments.Length > 0 ? arguments[0] : "127.0.0.1:7000";
            await using var client = await CacheClient.CreateAsync(address, Configurations.Laptop.Latest());
            var people = client.Graph("friends");
            await people.DeclareTypeAsync("knows", undirected: true);
            var added = await people.AddEdgesAsync("knows", new Edge[] { (1, 2), (1, 3), (2, 4), (3, 4), (4, 5) });
            if (added is IErrorResult error)
            {
                Console.WriteLine(error.Message);
                return;
            }
            await PrintWayAsync(people, 1, 4);
            await PrintWayAsync(people, 1, 5);
            if (await people.SuggestAsync(1, "knows") is SuggestionsResult.Success found)
            {
                foreach (var each in found.Suggestions)
                {
                    Console.WriteLine($"{Name(1)} may know {Name(each.Node)}, by {each.Common} common friends");
                }
            }
        }

        private static async Task PrintWayAsync(Graph people, ulong first, ulong last)
        {
            if (await people.DistancesAsync(first, "knows", new[] { last }) is DistancesResult.Success distance
                && await people.PathsAsync(first, last, "knows") is PathsResult.Success found)
            {
                var between = found.Paths[0].Skip(1).SkipLast(1).Select(Name);
                Console.WriteLine(
                    $"{Name(first)} and {Name(last)} are {distance.Distances[0]} apart, "
                    + $"through {string.Join(", ", between)}");
            }
        }

        private static string Name(ulong person) => Names[person - 1];
    }
}
