using System;
using System.Collections.Generic;
using System.Linq;

namespace Gannet.Client
{
    /// <summary>The values of some fields of a dictionary: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class DictionaryFieldsResult
    {
        private protected DictionaryFieldsResult()
        {
        }

        /// <summary>One value for each field, in the order of the call.</summary>
        public sealed class Hit : DictionaryFieldsResult
        {
            internal Hit(IReadOnlyList<ReadOnlyMemory<byte>?> values) => ValuesBytes = values;

            /// <summary>The values in the order of the call, with null for a field that does not exist.</summary>
            public IReadOnlyList<ReadOnlyMemory<byte>?> ValuesBytes { get; }

            /// <summary>The values as text (UTF-8), with null for a field that does not exist.</summary>
            public IReadOnlyList<string?> ValuesString => ValuesBytes.Select(each => each?.Span.Utf8()).ToList();
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : DictionaryFieldsResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : DictionaryFieldsResult, IErrorResult
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

    /// <summary>A dictionary: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class DictionaryResult
    {
        private protected DictionaryResult()
        {
        }

        /// <summary>All fields with their values.</summary>
        public sealed class Hit : DictionaryResult
        {
            internal Hit(IReadOnlyList<KeyValuePair<ReadOnlyMemory<byte>, ReadOnlyMemory<byte>>> entries) =>
                EntriesBytes = entries;

            /// <summary>Pairs of a field and its value.</summary>
            public IReadOnlyList<KeyValuePair<ReadOnlyMemory<byte>, ReadOnlyMemory<byte>>> EntriesBytes { get; }

            /// <summary>The values by field, both as text (UTF-8).</summary>
            public IReadOnlyDictionary<string, string> FieldsString
            {
                get
                {
                    var fields = new Dictionary<string, string>();
                    foreach (var entry in EntriesBytes)
                    {
                        fields[entry.Key.Span.Utf8()] = entry.Value.Span.Utf8();
                    }
                    return fields;
                }
            }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : DictionaryResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : DictionaryResult, IErrorResult
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

    /// <summary>Elements of a set: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class SetResult
    {
        private protected SetResult()
        {
        }

        /// <summary>Elements of a set.</summary>
        public sealed class Hit : SetResult
        {
            internal Hit(IReadOnlyList<ReadOnlyMemory<byte>> elements) => ElementsBytes = elements;

            /// <summary>The elements.</summary>
            public IReadOnlyList<ReadOnlyMemory<byte>> ElementsBytes { get; }

            /// <summary>The elements as text (UTF-8).</summary>
            public IReadOnlyCollection<string> ElementsString =>
                new HashSet<string>(ElementsBytes.Select(each => each.Span.Utf8()));
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : SetResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : SetResult, IErrorResult
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

    /// <summary>The result of a look-up of elements of a set: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class ContainsResult
    {
        private protected ContainsResult()
        {
        }

        /// <summary>One boolean for each element.</summary>
        public sealed class Hit : ContainsResult
        {
            internal Hit(IReadOnlyList<bool> contained) => Contained = contained;

            /// <summary>True for each element that the set contains, in the order of the call.</summary>
            public IReadOnlyList<bool> Contained { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : ContainsResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ContainsResult, IErrorResult
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

    /// <summary>Elements of a list: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class ListResult
    {
        private protected ListResult()
        {
        }

        /// <summary>Elements of a list.</summary>
        public sealed class Hit : ListResult
        {
            internal Hit(IReadOnlyList<ReadOnlyMemory<byte>> elements) => ElementsBytes = elements;

            /// <summary>The elements in the order of the list.</summary>
            public IReadOnlyList<ReadOnlyMemory<byte>> ElementsBytes { get; }

            /// <summary>The elements as text (UTF-8).</summary>
            public IReadOnlyList<string> ElementsString => ElementsBytes.Select(each => each.Span.Utf8()).ToList();
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : ListResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ListResult, IErrorResult
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

    /// <summary>The length of a list after a change: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class ListLengthResult
    {
        private protected ListLengthResult()
        {
        }

        /// <summary>The number of elements after the change.</summary>
        public sealed class Success : ListLengthResult
        {
            internal Success(long length) => Length = length;

            /// <summary>The number of elements.</summary>
            public long Length { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ListLengthResult, IErrorResult
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

    /// <summary>The result of a removal of an element: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class ListPopResult
    {
        private protected ListPopResult()
        {
        }

        /// <summary>The element that was removed from a list.</summary>
        public sealed class Hit : ListPopResult
        {
            internal Hit(ReadOnlyMemory<byte> value, long length)
            {
                ValueBytes = value;
                Length = length;
            }

            /// <summary>The value. It shares the memory of the reply.</summary>
            public ReadOnlyMemory<byte> ValueBytes { get; }

            /// <summary>The value as text (UTF-8).</summary>
            public string ValueString => ValueBytes.Span.Utf8();

            /// <summary>The length of the list without the element.</summary>
            public long Length { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : ListPopResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ListPopResult, IErrorResult
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
