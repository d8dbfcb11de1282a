using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.Client.Protocol;

namespace Gannet.Client
{
    /// <summary>
    /// Calls on one cache of one server. Every call returns a result: a hit, a miss, an error and so on. It throws only
    /// if an argument is null or out of its range, or if middleware or a retry strategy of the user throws. All members
    /// may be used by several threads at once. Use one client for the whole process.
    /// </summary>
    public sealed partial class CacheClient : IAsyncDisposable, IDisposable
    {
        private static readonly TimeSpan HourOfDefault = TimeSpan.FromHours(1);

        private readonly ClientEngine engine;
        private readonly Caller caller;
        private readonly Caller cachesCaller;
        private readonly Scope scope;
        private readonly Scope cachesScope;
        private readonly TimeSpan defaultTtl;

        private CacheClient(ClientEngine engine, Scope scope, Scope cachesScope, TimeSpan defaultTtl)
        {
            this.engine = engine;
            this.scope = scope;
            this.cachesScope = cachesScope;
            this.defaultTtl = defaultTtl;
            caller = new Caller(engine, scope);
            Topics = new Topics(caller);
            Leases = new Leases(caller, TtlOf);
            Records = new Records(caller);
            cachesCaller = new Caller(engine, cachesScope);
            Tokens = new Tokens(cachesCaller);
        }

        /// <summary>The name of the cache that the calls of this object use.</summary>
        public string Cache => scope.Cache;

        /// <summary>Messages to all subscribers of a name in the cache.</summary>
        public Topics Topics { get; }

        /// <summary>Leases: of all clients that miss a value, one computes it.</summary>
        public Leases Leases { get; }

        /// <summary>Records: keys with named and typed bins.</summary>
        public Records Records { get; }

        /// <summary>Signed tokens of the server.</summary>
        public Tokens Tokens { get; }

        internal ClientEngine Engine => engine;

        /// <summary>
        /// Creates a client. If its configuration connects eagerly, the task waits for the connections, at most for the
        /// time for connecting. A server that is not there is no error: calls report it, and the client connects later.
        /// </summary>
        /// <param name="address">HOST:PORT of <c>gannet serve --grpc</c>.</param>
        /// <param name="configuration">A preset, or one of your own; the latest <c>Laptop</c> if it is null.</param>
        /// <param name="credentials">The token of the calls; none if it is null.</param>
        /// <param name="defaultTtl">The time to live of items whose call names none; 1 hour if it is null.</param>
        /// <param name="cache">The cache that the calls use.</param>
        /// <param name="tls">Turns TLS on or off; if it is null, TLS is on unless the address is local.</param>
        /// <param name="caFile">
        /// A PEM file with the CA of the server's certificate; those of the system if it is null.
        /// </param>
        /// <param name="cancellationToken">Ends the wait for the connections.</param>
        /// <returns>The client.</returns>
        /// <exception cref="ArgumentException">
        /// The address is not HOST:PORT, or the file contains no certificate.
        /// </exception>
        /// <exception cref="ArgumentOutOfRangeException">The time to live is below 1 ms.</exception>
        /// <exception cref="System.IO.IOException">The file cannot be read.</exception>
        /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
        public static async Task<CacheClient> CreateAsync(
            string address,
            Configuration? configuration = null,
            CredentialProvider? credentials = null,
            TimeSpan? defaultTtl = null,
            string cache = "default",
            bool? tls = null,
            string? caFile = null,
            CancellationToken cancellationToken = default)
        {
            configuration ??= Configurations.Laptop.Latest();
            credentials ??= CredentialProvider.None();
            var ttl = defaultTtl ?? HourOfDefault;
            if (ttl < TimeSpan.FromMilliseconds(1))
            {
                throw new ArgumentOutOfRangeException(
                    nameof(defaultTtl), $"cannot use default time to live {ttl}: it is too low; give at least 1 ms");
            }
            var target = new Target(address, tls, caFile, credentials, configuration.ConnectTimeout);
            var scope = ScopeOf(cache, target);
            var engine = new ClientEngine(target, configuration);
            var client = new CacheClient(engine, scope, new Scope(string.Empty, target.Token), ttl);
            engine.BeginNearCache(scope);
            if (configuration.EagerConnect)
            {
                try
                {
                    await engine.ConnectAsync(
                        configuration.ConnectTimeout, true, cancellationToken).ConfigureAwait(false);
                }
                catch (OperationCanceledException)
                {
                    await client.DisposeAsync().ConfigureAwait(false);
                    throw;
                }
            }
            return client;
        }

        /// <summary>
        /// Returns an object whose calls use another cache, on the same connections and within the same limits.
        /// </summary>
        /// <param name="cache">The name of the cache.</param>
        /// <returns>The object. To dispose of it disposes of the client.</returns>
        public CacheClient WithCache(string cache) =>
            new CacheClient(engine, ScopeOf(cache, engine.Target), cachesScope, defaultTtl);

        /// <summary>Returns a leaderboard of the cache.</summary>
        /// <param name="name">Its name.</param>
        /// <returns>The object for its calls.</returns>
        /// <exception cref="ArgumentException">The name is empty.</exception>
        public Leaderboard Leaderboard(string name) => new Leaderboard(caller, name);

        /// <summary>
        /// Returns a graph, without a request. A graph is in no cache: the cache only counts its calls.
        /// </summary>
        /// <param name="name">Its name.</param>
        /// <returns>The object for its calls.</returns>
        /// <exception cref="ArgumentException">The name is empty.</exception>
        public Graph Graph(string name) => new Graph(caller, name);

        /// <summary>
        /// Returns the figures of the graph store and the names of all graphs. It needs the right to all graphs.
        /// </summary>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The figures or an error.</returns>
        public Task<GraphStoreStatsResult> GraphStoreStatsAsync(
            TimeSpan? deadline = null, CancellationToken cancellationToken = default) =>
            Send(Calls.GraphStoreStats, new V1.Requests.GraphStatsRequest(), deadline, cancellationToken);

        /// <summary>Opens all connections.</summary>
        /// <param name="timeout">The time after which the client gives up.</param>
        /// <param name="cancellationToken">Ends the wait.</param>
        /// <returns>True if the connections are open.</returns>
        /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
        public Task<bool> ConnectAsync(TimeSpan timeout, CancellationToken cancellationToken = default) =>
            engine.ConnectAsync(timeout, false, cancellationToken);

        /// <summary>
        /// Waits until the server reports changes to the near cache of <see cref="Configuration.WithNearCache"/>. Until
        /// then, all reads go to the server.
        /// </summary>
        /// <param name="timeout">The time after which the client gives up.</param>
        /// <param name="cancellationToken">Ends the wait.</param>
        /// <returns>
        /// True if the server reports changes; false if the time has passed, or the server refuses to report them:
        /// <see cref="NearCacheMetrics.WatchError"/> has the reason.
        /// </returns>
        /// <exception cref="InvalidOperationException">The client has no near cache.</exception>
        /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
        public Task<bool> WatchNearCacheAsync(TimeSpan timeout, CancellationToken cancellationToken = default) =>
            engine.Near?.WaitAsync(timeout, cancellationToken) ?? throw new InvalidOperationException(
                "cannot watch keys: the client has no near cache; create it with Configuration.WithNearCache");

        /// <summary>
        /// Returns a snapshot of the metrics. Those by method need <see cref="Configuration.WithMetrics"/>.
        /// </summary>
        /// <returns>The metrics.</returns>
        public Metrics GetMetrics() => engine.Metrics;

        /// <summary>
        /// Ends all calls with the error <see cref="ErrorCode.Cancelled"/>, closes the connections, and waits until the
        /// calls have ended.
        /// </summary>
        /// <returns>The end of the calls.</returns>
        public ValueTask DisposeAsync() => new ValueTask(engine.CloseAsync());

        /// <summary>
        /// Ends all calls with the error <see cref="ErrorCode.Cancelled"/>, and closes the connections.
        /// </summary>
        public void Dispose() => _ = engine.CloseAsync();

        /// <inheritdoc/>
        public override string ToString() => $"CacheClient of {engine.Target.Address}, cache {Cache}";

        private static Scope ScopeOf(string cache, Target target)
        {
            if (string.IsNullOrEmpty(cache) || cache.Any(each => each < ' ' || each > '~'))
            {
                throw new ArgumentException(
                    $"cannot use cache '{cache}': its name is empty or not printable ASCII; give another name", nameof(
                        cache));
            }
            return new Scope(cache, target.Token);
        }

        /// <summary>Returns a time to live in milliseconds, at least 0. The server refuses 0.</summary>
        private static ulong Milliseconds(TimeSpan ttl) => (ulong)Math.Max(0, Math.Round(ttl.TotalMilliseconds));

        private static IEnumerable<KeyValuePair<Bytes, Bytes>> PairsOf(IEnumerable<KeyValuePair<Bytes, Bytes>> pairs) =>
            pairs ?? throw new ArgumentNullException(nameof(pairs));

        private static IEnumerable<KeyValuePair<Bytes, Bytes>> PairsOf(IEnumerable<KeyValuePair<string, string>> pairs)
        {
            _ = pairs ?? throw new ArgumentNullException(nameof(pairs));
            return pairs.Select(each => KeyValuePair.Create<Bytes, Bytes>(each.Key, each.Value));
        }

        private static bool Refreshes(CollectionTtl? ttl) => ttl?.Refreshes ?? true;

        private ulong TtlOf(TimeSpan? ttl) => Milliseconds(ttl ?? defaultTtl);

        private ulong TtlOf(CollectionTtl? ttl) => TtlOf(ttl?.Ttl);

        private Task<TResult> Send<TResult>(
            Call<TResult> call, IRequest request, TimeSpan? deadline, CancellationToken cancellationToken, int replies =
                1) =>
            caller.Send(call, request, deadline, cancellationToken, replies);

        private Task<TResult> SendToCaches<TResult>(
            Call<TResult> call, IRequest request, TimeSpan? deadline, CancellationToken cancellationToken) =>
            cachesCaller.Send(call, request, deadline, cancellationToken);
    }
}
