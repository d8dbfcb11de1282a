using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Requests;

namespace Gannet.Client.Engine
{
    /// <summary>
    /// Copies of values of one cache, which the server's reports of changed keys keep current.
    /// <code>
    ///     get -- copy? --> hit
    ///              |no
    ///              +--> ticket --> server --> copy, unless the ticket was dropped
    ///     report of a change, or the end of an own change --> the key's copy and ticket are dropped
    ///     broken watch, or report of all keys             --> all copies and tickets are dropped
    /// </code>
    /// Invariant: a copy has a watched key, was read after the watch began, and no change of its key was reported since
    /// that read began. While the watch is broken, there are no copies. Tickets are as many as calls at most.
    /// </summary>
    internal sealed class NearCache
    {
        /// <summary>The memory of a copy in addition to its key and value, approximately, in bytes.</summary>
        public const int EntryOverhead = 128;

        private static readonly HashSet<Method> Reads = new HashSet<Method>
        {
            Methods.CacheGet, Methods.CacheGetBatch, Methods.CacheKeysExist, Methods.CacheGetWithHash,
            Methods.CacheItemGetTtl, Methods.CacheItemGetType, Methods.CacheDictionaryGet,
            Methods.CacheDictionaryFetch, Methods.CacheDictionaryLength, Methods.CacheSetFetch,
            Methods.CacheSetSample, Methods.CacheSetContains, Methods.CacheSetLength, Methods.CacheListFetch,
            Methods.CacheListLength, Methods.CacheSortedSetFetch, Methods.CacheSortedSetGetScore,
            Methods.CacheSortedSetGetRank, Methods.CacheSortedSetLength, Methods.RecordsRecordGet,
            Methods.LeasesLeaseGet,
        };

        // The time before a watch that the server has refused is tried again.
        private static readonly TimeSpan RefusedDelay = TimeSpan.FromSeconds(5);

        private readonly object mutex = new object();
        private readonly Dictionary<byte[], LinkedListNode<Copy>> copies =
            new Dictionary<byte[], LinkedListNode<Copy>>(KeyComparer.Instance);

        private readonly Dictionary<byte[], Ticket> tickets = new Dictionary<byte[], Ticket>(KeyComparer.Instance);

        // The most recently used copy is first.
        private readonly LinkedList<Copy> recency = new LinkedList<Copy>();
        private readonly ClientEngine engine;
        private readonly Scope scope;
        private readonly NearCacheSettings settings;
        private readonly byte[][] prefixes;
        private long bytes;
        private long hits;
        private long misses;
        private long invalidations;
        private bool isWatching;
        private long lastEvent;
        private CacheError? error;

        // The end of the wait for a watch: true once it has begun, false once the server has refused it.
        private TaskCompletionSource<bool> settled = NewWait();

        public NearCache(ClientEngine engine, Scope scope, NearCacheSettings settings)
        {
            this.engine = engine;
            this.scope = scope;
            this.settings = settings;
            prefixes = settings.Prefixes.Select(each => each.ToArray()).ToArray();
        }

        /// <summary>A snapshot of the metrics.</summary>
        public NearCacheMetrics Metrics
        {
            get
            {
                lock (mutex)
                {
                    return new NearCacheMetrics(
                        hits, misses, invalidations, copies.Count, bytes, isWatching, isWatching ? null : error);
                }
            }
        }

        /// <summary>Returns true if calls of this scope use the copies.</summary>
        public bool IsOf(Scope other) => other.Cache == scope.Cache;

        private static TaskCompletionSource<bool> NewWait() =>
            new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);

        /// <summary>
        /// Waits until the server reports changes. Returns false if it refuses to, or the time has passed. Throws
        /// OperationCanceledException.
        /// </summary>
        public async Task<bool> WaitAsync(TimeSpan timeout, CancellationToken cancellation)
        {
            Task<bool> settling;
            lock (mutex)
            {
                settling = settled.Task;
            }
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(engine.Closed, cancellation);
            limit.CancelAfter(timeout);
            var isSettled = await settling.OrCancelled(limit.Token).ConfigureAwait(false);
            cancellation.ThrowIfCancellationRequested();
            return isSettled && await settling.ConfigureAwait(false);
        }

        /// <summary>Watches the keys until the client is disposed of.</summary>
        public async Task WatchAsync()
        {
            while (!engine.Closed.IsCancellationRequested)
            {
                var events = new EventStream<WatchKeysSource.Event>(
                    engine, new WatchKeysSource(settings.Prefixes), scope, default);
                events.Broken = EndWatch;
                while (await events.ReadAsync().ConfigureAwait(false) is WatchKeysSource.Event next)
                {
                    Apply(next);
                }
                EndWatch();
                lock (mutex)
                {
                    error = events.Error;
                    settled.TrySetResult(false);
                }
                await Task.Delay(RefusedDelay, engine.Closed).OrCancelled(engine.Closed).ConfigureAwait(false);
            }
        }

        /// <summary>Returns the copy of a value, or asks the server by <paramref name="send"/>.</summary>
        public async Task<GetResult> GetAsync(Bytes key, Func<Task<GetResult>> send)
        {
            byte[] name;
            try
            {
                name = key.ToArray();
            }
            catch (EncoderFallbackException)
            {
                // The call reports the text.
                return await send().ConfigureAwait(false);
            }
            Ticket? ticket = null;
            lock (mutex)
            {
                // Changes of other keys are not reported.
                if (isWatching && IsWatched(name) && !engine.Closed.IsCancellationRequested
                    && Clock.Since(lastEvent) <= engine.StreamSilenceMax)
                {
                    if (copies.TryGetValue(name, out var found))
                    {
                        hits++;
                        recency.Remove(found);
                        recency.AddFirst(found);
                        return new GetResult.Hit(found.Value.Value);
                    }
                    if (!tickets.TryGetValue(name, out ticket))
                    {
                        tickets[name] = ticket = new Ticket();
                    }
                    ticket.Readers++;
                }
                misses++;
            }
            GetResult? result = null;
            try
            {
                result = await send().ConfigureAwait(false);
                return result;
            }
            finally
            {
                if (ticket != null)
                {
                    End(name, ticket, result as GetResult.Hit);
                }
            }
        }

        /// <summary>Drops the copies of the keys that a call of this client may have changed.</summary>
        public void DropChanged(Call call, Scope of, IRequest request)
        {
            if (request is CacheName named)
            {
                if (named.Name.ToArray().AsSpan().SequenceEqual(((Bytes)scope.Cache).ToArray()))
                {
                    lock (mutex)
                    {
                        DropAll();
                    }
                }
                return;
            }
            if (!IsOf(of) || Reads.Contains(call.Method))
            {
                return;
            }
            var keys = request is SetBatchRequest batch ? batch.Items.Select(each => each.Key)
                : request is IKeyed keyed ? new[] { keyed.Key }
                : Enumerable.Empty<Bytes>();
            lock (mutex)
            {
                foreach (var key in keys)
                {
                    Drop(key.ToArray());
                }
            }
        }

        private bool IsWatched(byte[] key)
        {
            foreach (var prefix in prefixes)
            {
                if (key.AsSpan().StartsWith(prefix))
                {
                    return true;
                }
            }
            return prefixes.Length == 0;
        }

        private void Apply(WatchKeysSource.Event next)
        {
            lock (mutex)
            {
                lastEvent = Stopwatch.GetTimestamp();
                if (!isWatching)
                {
                    isWatching = true;
                    settled = settled.Task.IsCompleted ? NewWait() : settled;
                    settled.SetResult(true);
                }
                if (next.IsOfAll)
                {
                    invalidations += copies.Count;
                    DropAll();
                }
                foreach (var key in next.Keys)
                {
                    invalidations += Drop(key.ToArray()) ? 1 : 0;
                }
            }
        }

        private void EndWatch()
        {
            lock (mutex)
            {
                isWatching = false;
                settled = settled.Task.IsCompleted ? NewWait() : settled;
                DropAll();
            }
        }

        private void End(byte[] key, Ticket ticket, GetResult.Hit? read)
        {
            lock (mutex)
            {
                var isCurrent = tickets.TryGetValue(key, out var present) && present == ticket;
                if (--ticket.Readers == 0 && isCurrent)
                {
                    tickets.Remove(key);
                }
                if (isCurrent && read != null)
                {
                    Add(key, read.ValueBytes);
                }
            }
        }

        private void Add(byte[] key, ReadOnlyMemory<byte> value)
        {
            var copy = new Copy(key, value);
            if (copy.Bytes > settings.BytesMax)
            {
                return;
            }
            Remove(key);
            copies[key] = recency.AddFirst(copy);
            bytes += copy.Bytes;
            while (copies.Count > settings.EntriesMax || bytes > settings.BytesMax)
            {
                Remove(recency.Last.Value.Key);
            }
        }

        /// <summary>Drops the copy and the ticket of a key. Returns true if there was a copy.</summary>
        private bool Drop(byte[] key)
        {
            tickets.Remove(key);
            return Remove(key);
        }

        private void DropAll()
        {
            tickets.Clear();
            copies.Clear();
            recency.Clear();
            bytes = 0;
        }

        private bool Remove(byte[] key)
        {
            if (!copies.Remove(key, out var found))
            {
                return false;
            }
            recency.Remove(found);
            bytes -= found.Value.Bytes;
            return true;
        }

        /// <summary>The calls that read a key from the server at once.</summary>
        private sealed class Ticket
        {
            public int Readers { get; set; }
        }

        private sealed class Copy
        {
            public Copy(byte[] key, ReadOnlyMemory<byte> value)
            {
                Key = key;
                Value = value;
            }

            public byte[] Key { get; }

            public ReadOnlyMemory<byte> Value { get; }

            public long Bytes => EntryOverhead + (long)Key.Length + Value.Length;
        }

        private sealed class KeyComparer : IEqualityComparer<byte[]>
        {
            public static readonly KeyComparer Instance = new KeyComparer();

            public bool Equals(byte[] one, byte[] other) => one.AsSpan().SequenceEqual(other);

            // HashCode has a seed of the process, so that no client can choose keys that collide.
            public int GetHashCode(byte[] key)
            {
                var hash = default(HashCode);
                foreach (var each in key)
                {
                    hash.Add(each);
                }
                return hash.ToHashCode();
            }
        }
    }

    /// <summary>The reports of changed keys.</summary>
    internal sealed class WatchKeysSource : IEventSource<WatchKeysSource.Event>
    {
        private readonly IReadOnlyList<Bytes> prefixes;

        public WatchKeysSource(IReadOnlyList<Bytes> prefixes)
        {
            this.prefixes = prefixes;
        }

        public Method Method => Methods.InvalidationsWatchKeys;

        public IRequest Request() => new WatchKeysRequest { Prefixes = prefixes };

        public Event EventOf(ReadOnlyMemory<byte> reply)
        {
            var message = Calls.Decode(reply, V1.Replies.WatchKeysEvent.Read);
            // An event of a later schema shows that the watch works, as a heartbeat does.
            return new Event(message.Keys?.Keys ?? new List<ReadOnlyMemory<byte>>(), message.All != null);
        }

        internal sealed class Event
        {
            public Event(IReadOnlyList<ReadOnlyMemory<byte>> keys, bool isOfAll)
            {
                Keys = keys;
                IsOfAll = isOfAll;
            }

            public IReadOnlyList<ReadOnlyMemory<byte>> Keys { get; }

            public bool IsOfAll { get; }
        }
    }
}
