using System;
using System.Threading.Tasks;
using Gannet.Client;

namespace LoggingMiddleware
{
    /// <summary>Writes one line for each call.</summary>
    internal sealed class CallLog : Middleware
    {
        public override void After(CallEnd call) => Console.WriteLine(
            $"{call.Method} {call.Cache} {call.Error?.Code.ToString() ?? "OK"} "
            + $"{call.Duration.TotalMilliseconds:0.0} ms, "
            + $"{call.Queued.TotalMilliseconds:0.0} ms queued, {call.Retries} retries");
    }

    internal static class Program
    {
        private static async Task Main(string[] arguments)
        {
            var address = arguments.Length > 0 ? arguments[0] : "127.0.0.1:7000";
            var configuration = Configurations.InRegion.LowLatency.Latest().WithMiddleware(new CallLog());
            await using var client = await CacheClient.CreateAsync(address, configuration);
            await client.SetAsync("greeting", "hello");
            await client.GetAsync("greeting");
            // Another type of items: the log shows the error.
            await client.ListPushBackAsync("greeting", "again");
        }
    }
}
