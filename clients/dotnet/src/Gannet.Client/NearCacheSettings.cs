using System;
using System.Collections.Generic;
using System.Linq;

namespace Gannet.Client
{
    /// <summary>The bounds of a near cache: copies of values in the client.</summary>
    public sealed class NearCacheSettings
    {
        private const int PrefixesMax = 256;

        internal NearCacheSettings(int entriesMax, long bytesMax, IReadOnlyList<Bytes> prefixes)
        {
            if (entriesMax < 1 || bytesMax < 1)
            {
                throw new ArgumentOutOfRangeException(
                    nameof(entriesMax),
                    $"cannot use near cache of {entriesMax} entries and {bytesMax} bytes: a bound is too low; "
                    + "give at least 1");
            }
            if (prefixes.Count > PrefixesMax || prefixes.Any(each => each.Length > PrefixesMax))
            {
                throw new ArgumentException(
                    $"cannot use near cache: it has more than {PrefixesMax} prefixes, or a prefix of more bytes; "
                    + "give fewer and shorter ones",
                    nameof(prefixes));
            }
            EntriesMax = entriesMax;
            BytesMax = bytesMax;
            Prefixes = prefixes;
        }

        /// <summary>The maximum number of copies. The least recently used one gives way.</summary>
        public int EntriesMax { get; }

        /// <summary>The maximum size of all keys and values, with 128 bytes for each copy.</summary>
        public long BytesMax { get; }

        /// <summary>The prefixes of the keys that are copied; none for all keys.</summary>
        internal IReadOnlyList<Bytes> Prefixes { get; }
    }

    /// <summary>A snapshot of the metrics of a near cache.</summary>
    public sealed class NearCacheMetrics
    {
        internal NearCacheMetrics(
            long hits, long misses, long invalidations, int entries, long bytes, bool isWatching, CacheError? error)
        {
            Hits = hits;
            Misses = misses;
            Invalidations = invalidations;
            Entries = entries;
            Bytes = bytes;
            IsWatching = isWatching;
            WatchError = error;
        }

        /// <summary>The number of gets that a copy answered.</summary>
        public long Hits { get; }

        /// <summary>The number of gets that were sent to the server.</summary>
        public long Misses { get; }

        /// <summary>The number of copies that were dropped because the server reported a change of their keys.</summary>
        public long Invalidations { get; }

        /// <summary>The number of copies.</summary>
        public int Entries { get; }

        /// <summary>The size of all copies, in bytes.</summary>
        public long Bytes { get; }

        /// <summary>True while the server reports changes. Otherwise there are no copies.</summary>
        public bool IsWatching { get; }

        /// <summary>The error with which the server refused to report changes, or null.</summary>
        public CacheError? WatchError { get; }
    }
}
