using System;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    // Caches.
    public sealed partial class CacheClient
    {
        /// <summary>Creates a cache. The error <see cref="ErrorCode.AlreadyExists"/> shows that it exists.</summary>
        /// <param name="name">The name of the cache.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> CreateCacheAsync(
            string name,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendToCaches(Calls.CreateCache, new CacheName { Name = name }, deadline, cancellationToken);

        /// <summary>Deletes a cache and its items.</summary>
        /// <param name="name">The name of the cache.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DeleteCacheAsync(
            string name,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendToCaches(Calls.DeleteCache, new CacheName { Name = name }, deadline, cancellationToken);

        /// <summary>Returns the names of all caches.</summary>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The names, or an error.</returns>
        public Task<ListCachesResult> ListCachesAsync(
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendToCaches(Calls.ListCaches, new ListCachesRequest(), deadline, cancellationToken);

        /// <summary>Deletes all items of a cache.</summary>
        /// <param name="name">The name of the cache.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> FlushCacheAsync(
            string name,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendToCaches(Calls.FlushCache, new CacheName { Name = name }, deadline, cancellationToken);
    }
}
