using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    // Dictionaries.
    public sealed partial class CacheClient
    {
        /// <summary>Returns the value of one field.</summary>
        /// <param name="key">The key.</param>
        /// <param name="field">The field.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<GetResult> DictionaryGetFieldAsync(
            Bytes key,
            Bytes field,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionaryGetOne,
                new FieldsRequest { Key = key, Fields = new[] { field } },
                deadline,
                cancellationToken);

        /// <summary>Returns the values of several fields, in their order.</summary>
        /// <param name="key">The key.</param>
        /// <param name="fields">The fields.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<DictionaryFieldsResult> DictionaryGetFieldsAsync(
            Bytes key,
            IEnumerable<Bytes> fields,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionaryGet,
                new FieldsRequest { Key = key, Fields = Bytes.ListOf(fields) },
                deadline,
                cancellationToken);

        /// <summary>Returns the values of several fields, in their order.</summary>
        /// <param name="key">The key.</param>
        /// <param name="fields">The fields.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<DictionaryFieldsResult> DictionaryGetFieldsAsync(
            Bytes key,
            IEnumerable<string> fields,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionaryGet,
                new FieldsRequest { Key = key, Fields = Bytes.ListOf(fields) },
                deadline,
                cancellationToken);

        /// <summary>Returns all fields with their values.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<DictionaryResult> DictionaryFetchAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.DictionaryFetch, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Sets one field.</summary>
        /// <param name="key">The key.</param>
        /// <param name="field">The field.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DictionarySetFieldAsync(
            Bytes key,
            Bytes field,
            Bytes value,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            DictionarySetFieldsAsync(
                key, new[] { KeyValuePair.Create(field, value) }, ttl, deadline, cancellationToken);

        /// <summary>Sets several fields.</summary>
        /// <param name="key">The key.</param>
        /// <param name="fields">The fields and values.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DictionarySetFieldsAsync(
            Bytes key,
            IEnumerable<KeyValuePair<Bytes, Bytes>> fields,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionarySet,
                new DictionarySetRequest { Key =
                    key, Items = FieldsOf(fields), TtlMs = TtlOf(ttl), RefreshTtl = Refreshes(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Sets several fields.</summary>
        /// <param name="key">The key.</param>
        /// <param name="fields">The fields and values.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DictionarySetFieldsAsync(
            Bytes key,
            IEnumerable<KeyValuePair<string, string>> fields,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionarySet,
                new DictionarySetRequest { Key =
                    key, Items = FieldsOf(fields), TtlMs = TtlOf(ttl), RefreshTtl = Refreshes(ttl) },
                deadline,
                cancellationToken);

        /// <summary>
        /// Adds to the decimal number in a field, and returns the sum. A field that does not exist counts as 0.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="field">The field.</param>
        /// <param name="amount">The amount, which may be negative.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number after the increment, or an error.</returns>
        public Task<IncrementResult> DictionaryIncrementAsync(
            Bytes key,
            Bytes field,
            long amount = 1,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionaryIncrement,
                new DictionaryIncrementRequest
                {
                    Key = key,
                    Field = field,
                    Amount = amount,
                    TtlMs = TtlOf(ttl),
                    RefreshTtl = Refreshes(ttl),
                },
                deadline,
                cancellationToken);

        /// <summary>Removes several fields. A field that does not exist is no error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="fields">The fields.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DictionaryRemoveFieldsAsync(
            Bytes key,
            IEnumerable<Bytes> fields,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionaryDelete,
                new DictionaryDeleteRequest
                {
                    Key = key,
                    Some = new DictionaryDeleteRequestFields { Fields = Bytes.ListOf(fields) },
                },
                deadline,
                cancellationToken);

        /// <summary>Removes several fields. A field that does not exist is no error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="fields">The fields.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DictionaryRemoveFieldsAsync(
            Bytes key,
            IEnumerable<string> fields,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionaryDelete,
                new DictionaryDeleteRequest
                {
                    Key = key,
                    Some = new DictionaryDeleteRequestFields { Fields = Bytes.ListOf(fields) },
                },
                deadline,
                cancellationToken);

        /// <summary>Removes all fields, and with them the dictionary. An item of another type is an error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DictionaryDeleteAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.DictionaryDelete,
                new DictionaryDeleteRequest { Key = key, All = new Condition() },
                deadline,
                cancellationToken);

        /// <summary>Returns the number of fields.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<LengthResult> DictionaryLengthAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.DictionaryLength, new KeyRequest { Key = key }, deadline, cancellationToken);

        private static IReadOnlyList<FieldValue> FieldsOf(IEnumerable<KeyValuePair<Bytes, Bytes>> fields) =>
            PairsOf(fields).Select(each => new FieldValue { Field = each.Key, Value = each.Value }).ToList();

        private static IReadOnlyList<FieldValue> FieldsOf(IEnumerable<KeyValuePair<string, string>> fields) =>
            FieldsOf(PairsOf(fields));
    }
}
