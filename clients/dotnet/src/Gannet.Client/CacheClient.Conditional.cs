using System;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    // Conditional sets.
    public sealed partial class CacheClient
    {
        /// <summary>Stores a value if the key does not exist.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored or an error.</returns>
        public Task<ConditionalSetResult> SetIfAbsentAsync(
            Bytes key,
            Bytes value,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIf(
                new SetIfRequest { Key =
                    key, Value = value, TtlMs = TtlOf(ttl), Absent = new Condition() }, deadline, cancellationToken);

        /// <summary>Stores a value if the key exists.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored or an error.</returns>
        public Task<ConditionalSetResult> SetIfPresentAsync(
            Bytes key,
            Bytes value,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIf(
                new SetIfRequest { Key =
                    key, Value = value, TtlMs = TtlOf(ttl), Present = new Condition() }, deadline, cancellationToken);

        /// <summary>Stores a value if the present one is equal to another one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="equal">The value to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored or an error.</returns>
        public Task<ConditionalSetResult> SetIfEqualAsync(
            Bytes key,
            Bytes value,
            Bytes equal,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIf(
                new SetIfRequest { Key =
                    key, Value = value, TtlMs = TtlOf(ttl), Equal = ValueOf(equal) }, deadline, cancellationToken);

        /// <summary>Stores a value if the present one is not equal to another one, or the key does not exist.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="notEqual">The value to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored or an error.</returns>
        public Task<ConditionalSetResult> SetIfNotEqualAsync(
            Bytes key,
            Bytes value,
            Bytes notEqual,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIf(
                new SetIfRequest { Key = key, Value = value, TtlMs = TtlOf(ttl), NotEqual = ValueOf(notEqual) },
                deadline,
                cancellationToken);

        /// <summary>Stores a value if the key does not exist, or the present value is equal to another one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="equal">The value to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored or an error.</returns>
        public Task<ConditionalSetResult> SetIfAbsentOrEqualAsync(
            Bytes key,
            Bytes value,
            Bytes equal,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIf(
                new SetIfRequest { Key = key, Value = value, TtlMs = TtlOf(ttl), AbsentOrEqual = ValueOf(equal) },
                deadline,
                cancellationToken);

        /// <summary>Stores a value if the key exists, and the present value is not equal to another one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="notEqual">The value to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored, not stored or an error.</returns>
        public Task<ConditionalSetResult> SetIfPresentAndNotEqualAsync(
            Bytes key,
            Bytes value,
            Bytes notEqual,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIf(
                new SetIfRequest
                {
                    Key = key,
                    Value = value,
                    TtlMs = TtlOf(ttl),
                    PresentAndNotEqual = ValueOf(notEqual),
                },
                deadline,
                cancellationToken);

        /// <summary>Returns the value of a key with its hash.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<GetWithHashResult> GetWithHashAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.GetWithHash, new KeyRequest { Key = key }, deadline, cancellationToken);

        /// <summary>Stores a value, and returns its hash.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored with the hash of the new value, not stored or an error.</returns>
        public Task<HashSetResult> SetWithHashAsync(
            Bytes key,
            Bytes value,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIfHash(
                new SetIfHashRequest { Key = key, Value = value, TtlMs = TtlOf(ttl), Unconditional = new Condition() },
                deadline,
                cancellationToken);

        /// <summary>Stores a value if the key exists, and the present value has a hash.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="hashEqual">The hash to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored with the hash of the new value, not stored or an error.</returns>
        public Task<HashSetResult> SetIfPresentAndHashEqualAsync(
            Bytes key,
            Bytes value,
            Bytes hashEqual,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIfHash(
                new SetIfHashRequest
                {
                    Key = key,
                    Value = value,
                    TtlMs = TtlOf(ttl),
                    PresentAndHashEqual = HashOf(hashEqual),
                },
                deadline,
                cancellationToken);

        /// <summary>Stores a value if the key exists, and the present value has another hash.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="hashNotEqual">The hash to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored with the hash of the new value, not stored or an error.</returns>
        public Task<HashSetResult> SetIfPresentAndHashNotEqualAsync(
            Bytes key,
            Bytes value,
            Bytes hashNotEqual,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIfHash(
                new SetIfHashRequest
                {
                    Key = key,
                    Value = value,
                    TtlMs = TtlOf(ttl),
                    PresentAndNotHashEqual = HashOf(hashNotEqual),
                },
                deadline,
                cancellationToken);

        /// <summary>Stores a value if the key does not exist, or the present value has a hash.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="hashEqual">The hash to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored with the hash of the new value, not stored or an error.</returns>
        public Task<HashSetResult> SetIfAbsentOrHashEqualAsync(
            Bytes key,
            Bytes value,
            Bytes hashEqual,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIfHash(
                new SetIfHashRequest
                {
                    Key = key,
                    Value = value,
                    TtlMs = TtlOf(ttl),
                    AbsentOrHashEqual = HashOf(hashEqual),
                },
                deadline,
                cancellationToken);

        /// <summary>Stores a value if the key does not exist, or the present value has another hash.</summary>
        /// <param name="key">The key.</param>
        /// <param name="value">The value.</param>
        /// <param name="hashNotEqual">The hash to compare with.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored with the hash of the new value, not stored or an error.</returns>
        public Task<HashSetResult> SetIfAbsentOrHashNotEqualAsync(
            Bytes key,
            Bytes value,
            Bytes hashNotEqual,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            SetIfHash(
                new SetIfHashRequest
                {
                    Key = key,
                    Value = value,
                    TtlMs = TtlOf(ttl),
                    AbsentOrNotHashEqual = HashOf(hashNotEqual),
                },
                deadline,
                cancellationToken);

        private static ValueCondition ValueOf(Bytes value) => new ValueCondition { Value = value };

        private static HashCondition HashOf(Bytes hash) => new HashCondition { Hash = hash };

        private Task<ConditionalSetResult> SetIf(
            SetIfRequest request, TimeSpan? deadline, CancellationToken cancellationToken) =>
            Send(Calls.SetIf, request, deadline, cancellationToken);

        private Task<HashSetResult> SetIfHash(
            SetIfHashRequest request, TimeSpan? deadline, CancellationToken cancellationToken) =>
            Send(Calls.SetIfHash, request, deadline, cancellationToken);
    }
}
