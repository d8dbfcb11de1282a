using System;
using System.Linq;
using System.Threading.Tasks;
using Gannet.Client;

namespace Load
{
    /// <summary>1,000 callers at once: the client sends at most 400 requests at once, and the others wait.</summary>
    internal static class Program
    {
        private const int Callers = 1000;
        private const int CallsOfEach = 5;

        private static async Task<int> Main(string[] arguments)
        {
            var address = arguments.Length > 0 ? arguments[0] : "127.0.0.1:7000";
            var configuration =
                Configurations.InRegion.Default.Latest().WithDeadline(TimeSpan.FromSeconds(10)).WithMetrics();
            await using var client = await CacheClient.CreateAsync(address, configuration);
            var failures = await Task.WhenAll(Enumerable.Range(0, Callers).Select(number => CallAsync(client, number)));
            foreach (var method in client.GetMetrics().Methods)
            {
                var metrics = method.Value;
                Console.WriteLine(
                    $"{method.Key}: {metrics.Calls} calls, p50 {metrics.P50.TotalMilliseconds:0.00} ms, "
                    + $"p99 {metrics.P99.TotalMilliseconds:0.00} ms, p999 {metrics.P999.TotalMilliseconds:0.00} ms");
            }
            Console.WriteLine($"{failures.Sum()} failures");
            return failures.Sum() == 0 ? 0 : 1;
        }

        private static async Task<int> CallAsync(CacheClient client, int number)
        {
            var failures = 0;
            for (var call = 0; call < CallsOfEach; call++)
            {
                var stored = await client.SetAsync($"load {number}", $"{call}");
                var found = await client.GetAsync($"load {number}");
                failures += stored is DoneResult.Success && found is GetResult.Hit ? 0 : 1;
            }
            return failures;
        }
    }
}
