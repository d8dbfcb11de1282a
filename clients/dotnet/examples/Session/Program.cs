using System;
using System.Threading.Tasks;
using Gannet.Client;

namespace Session
{
    /// <summary>
    /// Stores a value, and reads it again: <c>dotnet run --project examples/Session 127.0.0.1:7000</c>.
    /// </summary>
    internal static class Program
    {
        private static async Task Main(string[] arguments)
        {
            var address = arguments.Length > 0 ? arguments[0] : "127.0.0.1:7000";
            await using var client = await CacheClient.CreateAsync(address, Configurations.Laptop.Latest());
            await client.SetAsync("greeting", "hello", ttl: TimeSpan.FromMinutes(1));
            switch (await client.GetAsync("greeting"))
            {
                case GetResult.Hit hit:
                    Console.WriteLine(hit.ValueString);
                    break;
                case GetResult.Miss _:
                    Console.WriteLine("not there");
                    break;
                case GetResult.Error error:
                    Console.WriteLine(error.Message);
                    break;
            }
        }
    }
}
