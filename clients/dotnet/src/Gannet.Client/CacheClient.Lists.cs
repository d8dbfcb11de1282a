using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    // Lists.
    public sealed partial class CacheClient
    {
        /// <summary>Adds an element at the front. A list above the maximum length is cut at the back.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="lengthMax">The maximum length; 0 for none.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The length of the list, or an error.</returns>
        public Task<ListLengthResult> ListPushFrontAsync(
            Bytes key,
            Bytes value,
            CollectionTtl? ttl = null,
            int lengthMax = 0,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListPushFront, Pushed(key, value, ttl, lengthMax), deadline, cancellationToken);

        /// <summary>Adds an element at the back. A list above the maximum length is cut at the front.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="lengthMax">The maximum length; 0 for none.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The length of the list, or an error.</returns>
        public Task<ListLengthResult> ListPushBackAsync(
            Bytes key,
            Bytes value,
            CollectionTtl? ttl = null,
            int lengthMax = 0,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListPushBack, Pushed(key, value, ttl, lengthMax), deadline, cancellationToken);

        /// <summary>
        /// Adds elements at the front, in their order. A list above the maximum length is cut at the back.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="values">The elements in their order.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="lengthMax">The maximum length; 0 for none.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The length of the list, or an error.</returns>
        public Task<ListLengthResult> ListConcatenateFrontAsync(
            Bytes key,
            IEnumerable<Bytes> values,
            CollectionTtl? ttl = null,
            int lengthMax = 0,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.ListConcatenateFront,
                Concatenated(key, Bytes.ListOf(values), ttl, lengthMax),
                deadline,
                cancellationToken);

        /// <summary>
        /// Adds elements at the front, in their order. A list above the maximum length is cut at the back.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="values">The elements in their order.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="lengthMax">The maximum length; 0 for none.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The length of the list, or an error.</returns>
        public Task<ListLengthResult> ListConcatenateFrontAsync(
            Bytes key,
            IEnumerable<string> values,
            CollectionTtl? ttl = null,
            int lengthMax = 0,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.ListConcatenateFront,
                Concatenated(key, Bytes.ListOf(values), ttl, lengthMax),
                deadline,
                cancellationToken);

        /// <summary>
        /// Adds elements at the back, in their order. A list above the maximum length is cut at the front.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="values">The elements in their order.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="lengthMax">The maximum length; 0 for none.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The length of the list, or an error.</returns>
        public Task<ListLengthResult> ListConcatenateBackAsync(
            Bytes key,
            IEnumerable<Bytes> values,
            CollectionTtl? ttl = null,
            int lengthMax = 0,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.ListConcatenateBack,
                Concatenated(key, Bytes.ListOf(values), ttl, lengthMax),
                deadline,
                cancellationToken);

        /// <summary>
        /// Adds elements at the back, in their order. A list above the maximum length is cut at the front.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="values">The elements in their order.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="lengthMax">The maximum length; 0 for none.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The length of the list, or an error.</returns>
        public Task<ListLengthResult> ListConcatenateBackAsync(
            Bytes key,
            IEnumerable<string> values,
            CollectionTtl? ttl = null,
            int lengthMax = 0,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.ListConcatenateBack,
                Concatenated(key, Bytes.ListOf(values), ttl, lengthMax),
                deadline,
                cancellationToken);

        /// <summary>Removes the first element and returns it.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ListPopResult> ListPopFrontAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListPopFront, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Removes the last element and returns it.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ListPopResult> ListPopBackAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListPopBack, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Removes all elements that are equal to a value, and returns the length of the rest.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<LengthResult> ListRemoveValueAsync(
            Bytes key,
            Bytes value,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListRemove, new ListRemoveRequest { Key = key, Value = value }, deadline, cancellationToken);

        /// <summary>Returns the elements of a range; all of them without one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="range">The range of indexes.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ListResult> ListFetchAsync(
            Bytes key,
            IndexRange range = default,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListFetch, Fetched(key, range), deadline, cancellationToken);

        /// <summary>Removes all elements outside of a range, and returns the length of the rest.</summary>
        /// <param name="key">The key.</param>
        /// <param name="range">The range of indexes.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<LengthResult> ListRetainAsync(
            Bytes key,
            IndexRange range,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListRetain, Retained(key, range, ttl), deadline, cancellationToken);

        /// <summary>Returns the number of elements.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<LengthResult> ListLengthAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.ListLength, new KeyRequest { Key = key }, deadline, cancellationToken);

        private static uint LengthMaxOf(int lengthMax) => lengthMax >= 0
            ? (uint)lengthMax
            : throw new ArgumentOutOfRangeException(
                nameof(lengthMax), $"cannot use lengthMax {lengthMax}: it is negative; give at least 0");

        private static ListFetchRequest Fetched(Bytes key, IndexRange range) => new ListFetchRequest
        {
            Key = key,
            UnboundedStart = range.First == null ? new Condition() : null,
            First = range.First,
            UnboundedEnd = range.End == null ? new Condition() : null,
            End = range.End,
        };

        private ListRetainRequest Retained(Bytes key, IndexRange range, CollectionTtl? ttl) => new ListRetainRequest
        {
            Key = key,
            UnboundedStart = range.First == null ? new Condition() : null,
            First = range.First,
            UnboundedEnd = range.End == null ? new Condition() : null,
            End = range.End,
            TtlMs = TtlOf(ttl),
            RefreshTtl = Refreshes(ttl),
        };

        private ListPushRequest Pushed(Bytes key, Bytes value, CollectionTtl? ttl, int lengthMax) => new ListPushRequest
        {
            Key = key,
            Value = value,
            TtlMs = TtlOf(ttl),
            RefreshTtl = Refreshes(ttl),
            LengthMax = LengthMaxOf(lengthMax),
        };

        private ListConcatenateRequest Concatenated(
            Bytes key, IReadOnlyList<Bytes> values, CollectionTtl? ttl, int lengthMax) => new ListConcatenateRequest
        {
            Key = key,
            Values = values,
            TtlMs = TtlOf(ttl),
            RefreshTtl = Refreshes(ttl),
            LengthMax = LengthMaxOf(lengthMax),
        };
    }
}
