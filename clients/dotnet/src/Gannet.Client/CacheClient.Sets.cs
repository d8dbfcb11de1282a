using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    // Sets.
    public sealed partial class CacheClient
    {
        /// <summary>Returns all elements.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<SetResult> SetFetchAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.SetFetch, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Returns random elements.</summary>
        /// <param name="key">The key.</param>
        /// <param name="count">The maximum number of elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<SetResult> SetSampleAsync(
            Bytes key,
            int count,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SetSample,
                new CountRequest { Key = key, Count = CountOf(count) },
                deadline,
                cancellationToken);

        /// <summary>Adds elements.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SetAddElementsAsync(
            Bytes key,
            IEnumerable<Bytes> elements,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SetUnion,
                new SetUnionRequest { Key =
                    key, Elements = Bytes.ListOf(elements), TtlMs = TtlOf(ttl), RefreshTtl = Refreshes(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Adds elements.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SetAddElementsAsync(
            Bytes key,
            IEnumerable<string> elements,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SetUnion,
                new SetUnionRequest { Key =
                    key, Elements = Bytes.ListOf(elements), TtlMs = TtlOf(ttl), RefreshTtl = Refreshes(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Removes elements. An element that does not exist is no error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, a miss if the set does not exist, or an error.</returns>
        public Task<FoundResult> SetRemoveElementsAsync(
            Bytes key,
            IEnumerable<Bytes> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetRemove(
                key,
                new SetDifferenceRequestSubtrahend { Elements = ElementsOf(Bytes.ListOf(elements)) },
                deadline,
                cancellationToken);

        /// <summary>Removes elements. An element that does not exist is no error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, a miss if the set does not exist, or an error.</returns>
        public Task<FoundResult> SetRemoveElementsAsync(
            Bytes key,
            IEnumerable<string> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetRemove(
                key,
                new SetDifferenceRequestSubtrahend { Elements = ElementsOf(Bytes.ListOf(elements)) },
                deadline,
                cancellationToken);

        /// <summary>Removes all elements, and with them the set. An item of another type is an error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, a miss or an error.</returns>
        public Task<FoundResult> SetDeleteAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetRemove(key, new SetDifferenceRequestSubtrahend { All = new Condition() }, deadline, cancellationToken);

        /// <summary>Replaces the set by the elements of another one that it does not contain.</summary>
        /// <param name="key">The key.</param>
        /// <param name="minuend">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, a miss or an error.</returns>
        public Task<FoundResult> SetSubtractFromAsync(
            Bytes key,
            IEnumerable<Bytes> minuend,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SetSubtractFrom,
                new SetDifferenceRequest { Key = key, Minuend = ElementsOf(Bytes.ListOf(minuend)) },
                deadline,
                cancellationToken);

        /// <summary>Replaces the set by the elements of another one that it does not contain.</summary>
        /// <param name="key">The key.</param>
        /// <param name="minuend">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, a miss or an error.</returns>
        public Task<FoundResult> SetSubtractFromAsync(
            Bytes key,
            IEnumerable<string> minuend,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SetSubtractFrom,
                new SetDifferenceRequest { Key = key, Minuend = ElementsOf(Bytes.ListOf(minuend)) },
                deadline,
                cancellationToken);

        /// <summary>Returns which of the elements the set contains, in their order.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ContainsResult> SetContainsAsync(
            Bytes key,
            IEnumerable<Bytes> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SetContains,
                new FieldsRequest { Key = key, Fields = Bytes.ListOf(elements) },
                deadline,
                cancellationToken);

        /// <summary>Returns which of the elements the set contains, in their order.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ContainsResult> SetContainsAsync(
            Bytes key,
            IEnumerable<string> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SetContains,
                new FieldsRequest { Key = key, Fields = Bytes.ListOf(elements) },
                deadline,
                cancellationToken);

        /// <summary>Returns the number of elements.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<LengthResult> SetLengthAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.SetLength, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Removes random elements, and returns them.</summary>
        /// <param name="key">The key.</param>
        /// <param name="count">The maximum number of elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<SetResult> SetPopAsync(
            Bytes key,
            int count = 1,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.SetPop, new CountRequest { Key = key, Count = CountOf(count) }, deadline, cancellationToken);

        private static SetDifferenceRequestElements ElementsOf(IReadOnlyList<Bytes> elements) =>
            new SetDifferenceRequestElements { Elements = elements };

        private static ulong CountOf(int count) => count >= 0
            ? (ulong)count
            : throw new ArgumentOutOfRangeException(
                nameof(count), $"cannot use count {count}: it is negative; give at least 0");

        private Task<FoundResult> SetRemove(
            Bytes key,
            SetDifferenceRequestSubtrahend subtrahend,
            TimeSpan? deadline,
            CancellationToken cancellationToken) =>
            Send(
                Calls.SetRemove,
                new SetDifferenceRequest { Key = key, Subtrahend = subtrahend },
                deadline,
                cancellationToken);
    }
}
