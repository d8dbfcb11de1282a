using System;
using System.Buffers.Binary;
using System.Globalization;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client;
using Gannet.Client.Engine;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Replies;
using Gannet.V1.Requests;

namespace Gannet.Bench
{
    /// <summary>One end of the measurement. Each call returns true if it succeeded.</summary>
    internal interface ISender : IAsyncDisposable
    {
        int Connections { get; }

        Task<bool> GetAsync(string key);

        Task<bool> SetAsync(string key, byte[] value);
    }

    /// <summary>Calls of the library.</summary>
    internal sealed class SdkSender : ISender
    {
        public static readonly TimeSpan Ttl = TimeSpan.FromHours(1);
        private readonly CacheClient client;

        private SdkSender(CacheClient client)
        {
            this.client = client;
        }

        public int Connections => client.GetMetrics().Connections;

        public static async Task<ISender> CreateAsync(Options options, Configuration configuration)
        {
            var client = await CacheClient.CreateAsync(
                options.Address, configuration, CredentialsOf(options), Ttl, options.Cache);
            await client.ConnectAsync(configuration.Deadline);
            return new SdkSender(client);
        }

        public static CredentialProvider CredentialsOf(Options options) =>
            options.Token.Length > 0 ? CredentialProvider.FromString(options.Token) : CredentialProvider.None();

        public async Task<bool> GetAsync(string key) => !(await client.GetAsync(key) is IErrorResult);

        public async Task<bool> SetAsync(string key, byte[] value) =>
            !(await client.SetAsync(key, value) is IErrorResult);

        public ValueTask DisposeAsync() => client.DisposeAsync();
    }

    /// <summary>
    /// Calls of <see cref="HttpClient"/> with the same messages, metadata and deadline, without the library: no cap, no
    /// queue, no retries, and a connection for each 100 callers.
    /// </summary>
    internal sealed class BareSender : ISender
    {
        private readonly HttpClient[] clients;
        private readonly Options options;
        private readonly Uri get;
        private readonly Uri set;
        private readonly string timeout;
        private int next;

        public BareSender(Options options, Configuration configuration)
        {
            this.options = options;
            var target = new Target(
                options.Address, null, null, SdkSender.CredentialsOf(options), configuration.ConnectTimeout);
            clients = Enumerable.Range(0, (options.Concurrency + 99) / 100)
                .Select(_ => new HttpClient(Handlers.Create(target, configuration)) { Timeout =
                    configuration.Deadline }).ToArray();
            get = new Uri(target.Base + Methods.CacheGet.Path);
            set = new Uri(target.Base + Methods.CacheSet.Path);
            timeout = ((long)configuration.Deadline.TotalMilliseconds).ToString(CultureInfo.InvariantCulture) + "m";
        }

        public int Connections => clients.Length;

        public async Task<bool> GetAsync(string key)
        {
            var reply = await SendAsync(get, new GetRequest { Key = key });
            if (reply == null)
            {
                return false;
            }
            var result = Decode(reply, GetReply.Read).Result;
            return result == Result.Hit || result == Result.Miss;
        }

        public async Task<bool> SetAsync(string key, byte[] value)
        {
            var request = new SetRequest { Key = key, Value = value, TtlMs = (ulong)SdkSender.Ttl.TotalMilliseconds };
            var reply = await SendAsync(set, request);
            return reply != null && Decode(reply, SetReply.Read).Result == Result.Ok;
        }

        public ValueTask DisposeAsync()
        {
            foreach (var client in clients)
            {
                client.Dispose();
            }
            return default;
        }

        private delegate T Decoder<out T>(ref Reader input, int end);

        private static T Decode<T>(byte[] body, Decoder<T> decode)
        {
            var input = new Reader(body.AsMemory(Wire.HeadSize));
            return decode(ref input, input.End);
        }

        /// <summary>Returns the body of the response, or null after an error.</summary>
        private async Task<byte[]?> SendAsync(Uri uri, IRequest message)
        {
            try
            {
                using var content = new ByteArrayContent(Wire.Frame(message));
                content.Headers.ContentType = new MediaTypeHeaderValue("application/grpc");
                using var request = new HttpRequestMessage(HttpMethod.Post, uri) { Content = content };
                Handlers.RequireHttp2(request);
                request.Headers.TryAddWithoutValidation("te", "trailers");
                request.Headers.TryAddWithoutValidation("grpc-timeout", timeout);
                request.Headers.TryAddWithoutValidation("cache", options.Cache);
                request.Headers.TryAddWithoutValidation("user-agent", "gannet-bench");
                if (options.Token.Length > 0)
                {
                    request.Headers.TryAddWithoutValidation("authorization", options.Token);
                }
                var client = clients[clients.Length == 1 ? 0
                    : (Interlocked.Increment(ref next) & int.MaxValue) % clients.Length];
                using var response = await client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead);
                var body = await response.Content.ReadAsByteArrayAsync();
                var isOk =
                    response.TrailingHeaders.TryGetValues("grpc-status", out var status) && status.First() == "0";
                return isOk
                    && body.Length == Wire.HeadSize + BinaryPrimitives.ReadInt32BigEndian(body.AsSpan(1)) ? body : null;
            }
            catch (Exception exception) when (
                exception is HttpRequestException || exception is OperationCanceledException)
            {
                return null;
            }
        }
    }
}
