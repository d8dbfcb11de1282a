using System;
using System.Collections.Generic;
using System.Linq;

namespace Gannet.Client
{
    /// <summary>The result of a call that returns one value: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class GetResult
    {
        private protected GetResult()
        {
        }

        /// <summary>A value.</summary>
        public sealed class Hit : GetResult
        {
            internal Hit(ReadOnlyMemory<byte> value)
            {
                ValueBytes = value;
            }

            /// <summary>The value. It shares the memory of the reply.</summary>
            public ReadOnlyMemory<byte> ValueBytes { get; }

            /// <summary>The value as text (UTF-8).</summary>
            public string ValueString => ValueBytes.Span.Utf8();
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : GetResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : GetResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a get with the hash of the value: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class GetWithHashResult
    {
        private protected GetWithHashResult()
        {
        }

        /// <summary>A value and its hash.</summary>
        public sealed class Hit : GetWithHashResult
        {
            internal Hit(ReadOnlyMemory<byte> value, ReadOnlyMemory<byte> hash)
            {
                ValueBytes = value;
                Hash = hash;
            }

            /// <summary>The value. It shares the memory of the reply.</summary>
            public ReadOnlyMemory<byte> ValueBytes { get; }

            /// <summary>The value as text (UTF-8).</summary>
            public string ValueString => ValueBytes.Span.Utf8();

            /// <summary>The hash of the value, which a later conditional set can name.</summary>
            public ReadOnlyMemory<byte> Hash { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : GetWithHashResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : GetWithHashResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a batch of gets: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class GetBatchResult
    {
        private protected GetBatchResult()
        {
        }

        /// <summary>
        /// One <see cref="GetResult.Hit"/> or <see cref="GetResult.Miss"/> for each key, in the order of the keys.
        /// </summary>
        public sealed class Success : GetBatchResult
        {
            internal Success(IReadOnlyList<GetResult> results) => Results = results;

            /// <summary>The results in the order of the keys.</summary>
            public IReadOnlyList<GetResult> Results { get; }

            /// <summary>
            /// The values as text (UTF-8) in the order of the keys, with null for a key that does not exist.
            /// </summary>
            public IReadOnlyList<string?> ValuesString =>
                Results.Select(each => (each as GetResult.Hit)?.ValueString).ToList();
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : GetBatchResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a call that returns nothing: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class DoneResult
    {
        private protected DoneResult()
        {
        }

        /// <summary>The call was executed.</summary>
        public sealed class Success : DoneResult
        {
            internal static readonly Success Instance = new Success();

            private Success()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : DoneResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>
    /// The result of a change of an item that may not exist: <c>Success</c>, <c>Miss</c> or <c>Error</c>.
    /// </summary>
    public abstract class FoundResult
    {
        private protected FoundResult()
        {
        }

        /// <summary>The call was executed.</summary>
        public sealed class Success : FoundResult
        {
            internal static readonly Success Instance = new Success();

            private Success()
            {
            }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : FoundResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : FoundResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a look-up of keys: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class KeysExistResult
    {
        private protected KeysExistResult()
        {
        }

        /// <summary>One boolean for each key.</summary>
        public sealed class Success : KeysExistResult
        {
            internal Success(IReadOnlyList<bool> exists) => Exists = exists;

            /// <summary>True for each key that exists, in the order of the keys.</summary>
            public IReadOnlyList<bool> Exists { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : KeysExistResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of an increment: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class IncrementResult
    {
        private protected IncrementResult()
        {
        }

        /// <summary>The number after the increment.</summary>
        public sealed class Success : IncrementResult
        {
            internal Success(long value) => Value = value;

            /// <summary>The number.</summary>
            public long Value { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : IncrementResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a conditional set: <c>Stored</c>, <c>NotStored</c> or <c>Error</c>.</summary>
    public abstract class ConditionalSetResult
    {
        private protected ConditionalSetResult()
        {
        }

        /// <summary>The condition held, and the value was stored.</summary>
        public sealed class Stored : ConditionalSetResult
        {
            internal static readonly Stored Instance = new Stored();

            private Stored()
            {
            }
        }

        /// <summary>The condition did not hold, and nothing was changed.</summary>
        public sealed class NotStored : ConditionalSetResult
        {
            internal static readonly NotStored Instance = new NotStored();

            private NotStored()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ConditionalSetResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a set with a hash: <c>Stored</c>, <c>NotStored</c> or <c>Error</c>.</summary>
    public abstract class HashSetResult
    {
        private protected HashSetResult()
        {
        }

        /// <summary>The condition held, and the value was stored.</summary>
        public sealed class Stored : HashSetResult
        {
            internal Stored(ReadOnlyMemory<byte> hash) => Hash = hash;

            /// <summary>The hash of the new value.</summary>
            public ReadOnlyMemory<byte> Hash { get; }
        }

        /// <summary>The condition did not hold, and nothing was changed.</summary>
        public sealed class NotStored : HashSetResult
        {
            internal static readonly NotStored Instance = new NotStored();

            private NotStored()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : HashSetResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>
    /// The result of a change of a time to live: <c>Stored</c>, <c>NotStored</c>, <c>Miss</c> or <c>Error</c>.
    /// </summary>
    public abstract class UpdateTtlResult
    {
        private protected UpdateTtlResult()
        {
        }

        /// <summary>The time to live was changed.</summary>
        public sealed class Stored : UpdateTtlResult
        {
            internal static readonly Stored Instance = new Stored();

            private Stored()
            {
            }
        }

        /// <summary>The condition did not hold, and nothing was changed.</summary>
        public sealed class NotStored : UpdateTtlResult
        {
            internal static readonly NotStored Instance = new NotStored();

            private NotStored()
            {
            }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : UpdateTtlResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : UpdateTtlResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a look-up of a time to live: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class TtlResult
    {
        private protected TtlResult()
        {
        }

        /// <summary>The time to live of an item.</summary>
        public sealed class Hit : TtlResult
        {
            internal Hit(TimeSpan? remaining) => Remaining = remaining;

            /// <summary>The time, or null if the item has none.</summary>
            public TimeSpan? Remaining { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : TtlResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : TtlResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a look-up of a type: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class TypeResult
    {
        private protected TypeResult()
        {
        }

        /// <summary>The type of an item.</summary>
        public sealed class Hit : TypeResult
        {
            internal Hit(ItemType itemType) => ItemType = itemType;

            /// <summary>The type.</summary>
            public ItemType ItemType { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : TypeResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : TypeResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The length of a collection: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class LengthResult
    {
        private protected LengthResult()
        {
        }

        /// <summary>The number of elements.</summary>
        public sealed class Hit : LengthResult
        {
            internal Hit(long length) => Length = length;

            /// <summary>The number of elements.</summary>
            public long Length { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : LengthResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : LengthResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }

    /// <summary>The result of a listing of caches: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class ListCachesResult
    {
        private protected ListCachesResult()
        {
        }

        /// <summary>The names of all caches.</summary>
        public sealed class Success : ListCachesResult
        {
            internal Success(IReadOnlyList<string> names) => Names = names;

            /// <summary>The names.</summary>
            public IReadOnlyList<string> Names { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ListCachesResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }
}
