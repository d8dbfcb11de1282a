using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    // Items.
    public sealed partial class CacheClient
    {
        /// <summary>Returns the value of a key, or its copy in the near cache if there is one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<GetResult> GetAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            var near = engine.Near;
            return near == null || !near.IsOf(scope)
                ? SendGet(key, deadline, cancellationToken)
                : GetNear(near, key, deadline, cancellationToken);
        }

        /// <summary>Stores a value.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SetAsync(
            Bytes key,
            Bytes value,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.Set,
                new SetRequest { Key = key, Value = value, TtlMs = TtlOf(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Returns the values of several keys in one request. Its place in flight is one.</summary>
        /// <param name="keys">The keys.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>One result for each key, or an error.</returns>
        public Task<GetBatchResult> GetBatchAsync(
            IEnumerable<Bytes> keys,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendGets(Bytes.ListOf(keys), deadline, cancellationToken);

        /// <summary>Returns the values of several keys in one request. Its place in flight is one.</summary>
        /// <param name="keys">The keys.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>One result for each key, or an error.</returns>
        public Task<GetBatchResult> GetBatchAsync(
            IEnumerable<string> keys,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendGets(Bytes.ListOf(keys), deadline, cancellationToken);

        /// <summary>Stores several values in one request. Its place in flight is one.</summary>
        /// <param name="items">The keys and values.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SetBatchAsync(
            IEnumerable<KeyValuePair<Bytes, Bytes>> items,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendSets(PairsOf(items), ttl, deadline, cancellationToken);

        /// <summary>Stores several values in one request. Its place in flight is one.</summary>
        /// <param name="items">The keys and values.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SetBatchAsync(
            IEnumerable<KeyValuePair<string, string>> items,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SendSets(PairsOf(items), ttl, deadline, cancellationToken);

        /// <summary>Deletes an item of any type. A key that does not exist is no error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DeleteAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.Delete, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Returns which of the keys exist.</summary>
        /// <param name="keys">The keys.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>One boolean for each key, or an error.</returns>
        public Task<KeysExistResult> KeysExistAsync(
            IEnumerable<Bytes> keys,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.KeysExist, new KeysExistRequest { Keys = Bytes.ListOf(keys) }, deadline, cancellationToken);

        /// <summary>Returns which of the keys exist.</summary>
        /// <param name="keys">The keys.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>One boolean for each key, or an error.</returns>
        public Task<KeysExistResult> KeysExistAsync(
            IEnumerable<string> keys,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.KeysExist, new KeysExistRequest { Keys = Bytes.ListOf(keys) }, deadline, cancellationToken);

        /// <summary>Adds to a decimal number, and returns the sum. A key that does not exist counts as 0.</summary>
        /// <param name="key">The key.</param>
        /// <param name="amount">The amount, which may be negative.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number after the increment, or an error.</returns>
        public Task<IncrementResult> IncrementAsync(
            Bytes key,
            long amount = 1,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.Increment,
                new IncrementRequest { Key = key, Amount = amount, TtlMs = TtlOf(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Returns the time to live of an item.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<TtlResult> GetTtlAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.GetTtl, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Returns the type of an item.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<TypeResult> GetItemTypeAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.GetItemType, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Sets the time to live of an item.</summary>
        /// <param name="key">The key.</param>
        /// <param name="ttl">The time to live.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, a miss or an error.</returns>
        public Task<UpdateTtlResult> UpdateTtlAsync(
            Bytes key,
            TimeSpan ttl,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.UpdateTtl,
                new UpdateTtlRequest { Key = key, OverwriteToMs = Milliseconds(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Sets the time to live of an item if it is below this one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="ttl">The time to live.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored, a miss or an error.</returns>
        public Task<UpdateTtlResult> IncreaseTtlAsync(
            Bytes key,
            TimeSpan ttl,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.UpdateTtl,
                new UpdateTtlRequest { Key = key, IncreaseToMs = Milliseconds(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Sets the time to live of an item if it is above this one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="ttl">The time to live.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored, a miss or an error.</returns>
        public Task<UpdateTtlResult> DecreaseTtlAsync(
            Bytes key,
            TimeSpan ttl,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.UpdateTtl,
                new UpdateTtlRequest { Key = key, DecreaseToMs = Milliseconds(ttl) },
                deadline,
                cancellationToken);

        private Task<GetBatchResult> SendGets(
            IReadOnlyList<Bytes> keys, TimeSpan? deadline, CancellationToken cancellationToken)
        {
            var items = keys.Select(key => new GetRequest { Key = key }).ToList();
            return Send(
                Calls.GetBatch, new GetBatchRequest { Items = items }, deadline, cancellationToken, items.Count);
        }

        private Task<DoneResult> SendSets(
            IEnumerable<KeyValuePair<Bytes, Bytes>> pairs,
            TimeSpan? ttl,
            TimeSpan? deadline,
            CancellationToken cancellationToken)
        {
            var ms = TtlOf(ttl);
            var items =
                pairs.Select(each => new SetRequest { Key = each.Key, Value = each.Value, TtlMs = ms }).ToList();
            return Send(
                Calls.SetBatch, new SetBatchRequest { Items = items }, deadline, cancellationToken, items.Count);
        }

        private Task<GetResult> SendGet(Bytes key, TimeSpan? deadline, CancellationToken cancellationToken) =>
            Send(Calls.Get, new GetRequest { Key = key }, deadline, cancellationToken);

        // Apart from GetAsync, so that a client without a near cache allocates no delegate.
        private Task<GetResult> GetNear(
            NearCache near, Bytes key, TimeSpan? deadline, CancellationToken cancellationToken) =>
            near.GetAsync(key, () => SendGet(key, deadline, cancellationToken));
    }
}
