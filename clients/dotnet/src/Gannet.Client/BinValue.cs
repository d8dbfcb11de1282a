using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using Gannet.Client.Protocol;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    /// <summary>The types of values in bins.</summary>
    public enum BinType
    {
        /// <summary>An integer of 64 bits.</summary>
        Integer,

        /// <summary>A finite floating-point number of 64 bits.</summary>
        Number,

        /// <summary>True or false.</summary>
        Boolean,

        /// <summary>A text.</summary>
        Text,

        /// <summary>Bytes.</summary>
        Binary,

        /// <summary>A list of values.</summary>
        List,

        /// <summary>Values under keys.</summary>
        Map,
    }

    /// <summary>
    /// A value of a bin. Integers, <see cref="double"/>, <see cref="bool"/>, <see cref="string"/> and byte arrays
    /// convert to it. Lists and maps nest up to eight levels.
    /// </summary>
    public sealed class BinValue
    {
        /// <summary>The maximum number of levels of lists and maps.</summary>
        private const int LevelsMax = 8;

        private readonly object value;
        private readonly int levels;

        private BinValue(BinType type, object? value, int levels = 0)
        {
            if (levels > LevelsMax)
            {
                throw new ArgumentException(
                    $"cannot create value: it has {levels} levels of lists and maps; nest at most {LevelsMax}");
            }
            Type = type;
            this.value = value ?? throw new ArgumentNullException(nameof(value));
            this.levels = levels;
        }

        /// <summary>The type of the value.</summary>
        public BinType Type { get; }

        /// <summary>The integer.</summary>
        /// <exception cref="InvalidOperationException">The value has another type.</exception>
        public long AsInteger => As<long>(BinType.Integer);

        /// <summary>The number.</summary>
        /// <exception cref="InvalidOperationException">The value has another type.</exception>
        public double AsNumber => As<double>(BinType.Number);

        /// <summary>True or false.</summary>
        /// <exception cref="InvalidOperationException">The value has another type.</exception>
        public bool AsBoolean => As<bool>(BinType.Boolean);

        /// <summary>The text.</summary>
        /// <exception cref="InvalidOperationException">The value has another type.</exception>
        public string AsText => As<string>(BinType.Text);

        /// <summary>The bytes.</summary>
        /// <exception cref="InvalidOperationException">The value has another type.</exception>
        public ReadOnlyMemory<byte> AsBytes => As<ReadOnlyMemory<byte>>(BinType.Binary);

        /// <summary>The values of the list.</summary>
        /// <exception cref="InvalidOperationException">The value has another type.</exception>
        public IReadOnlyList<BinValue> AsList => As<IReadOnlyList<BinValue>>(BinType.List);

        /// <summary>The values of the map by key.</summary>
        /// <exception cref="InvalidOperationException">The value has another type.</exception>
        public IReadOnlyDictionary<string, BinValue> AsMap => As<IReadOnlyDictionary<string, BinValue>>(BinType.Map);

        /// <summary>Returns the value of an integer.</summary>
        /// <param name="value">The integer.</param>
        public static implicit operator BinValue(long value) => new BinValue(BinType.Integer, value);

        /// <summary>Returns the value of a number.</summary>
        /// <param name="value">The number.</param>
        public static implicit operator BinValue(double value) => new BinValue(BinType.Number, value);

        /// <summary>Returns the value of a boolean.</summary>
        /// <param name="value">The boolean.</param>
        public static implicit operator BinValue(bool value) => new BinValue(BinType.Boolean, value);

        /// <summary>Returns the value of a text.</summary>
        /// <param name="value">The text.</param>
        /// <exception cref="ArgumentNullException">The text is null.</exception>
        public static implicit operator BinValue(string value) => new BinValue(BinType.Text, value);

        /// <summary>Returns the value of bytes.</summary>
        /// <param name="value">The bytes.</param>
        /// <exception cref="ArgumentNullException">The array is null.</exception>
        public static implicit operator BinValue(byte[] value) =>
            FromBytes(value ?? throw new ArgumentNullException(nameof(value)));

        /// <summary>Returns the value of bytes.</summary>
        /// <param name="value">The bytes.</param>
        /// <returns>The value.</returns>
        public static BinValue FromBytes(ReadOnlyMemory<byte> value) => new BinValue(BinType.Binary, value);

        /// <summary>Returns a list.</summary>
        /// <param name="values">The values.</param>
        /// <returns>The list.</returns>
        /// <exception cref="ArgumentException">There are more than eight levels of lists and maps.</exception>
        public static BinValue List(params BinValue[] values) => List((IEnumerable<BinValue>)values);

        /// <summary>Returns a list.</summary>
        /// <param name="values">The values.</param>
        /// <returns>The list.</returns>
        /// <exception cref="ArgumentException">There are more than eight levels of lists and maps.</exception>
        public static BinValue List(IEnumerable<BinValue> values)
        {
            var list = (values ?? throw new ArgumentNullException(nameof(values))).ToList();
            return new BinValue(BinType.List, list, 1 + LevelsOf(list));
        }

        /// <summary>Returns a map.</summary>
        /// <param name="entries">The keys, of 1 to 63 bytes, and values.</param>
        /// <returns>The map.</returns>
        /// <exception cref="ArgumentException">There are more than eight levels of lists and maps.</exception>
        public static BinValue Map(IEnumerable<KeyValuePair<string, BinValue>> entries)
        {
            var map = (entries ?? throw new ArgumentNullException(nameof(entries)))
                .ToDictionary(each => each.Key, each => each.Value, StringComparer.Ordinal);
            return new BinValue(BinType.Map, map, 1 + LevelsOf(map.Values));
        }

        /// <inheritdoc/>
        public override string ToString() => Type switch
        {
            BinType.Binary => $"{AsBytes.Length} bytes",
            BinType.List => $"[{string.Join(", ", AsList)}]",
            BinType.Map => $"{{{string.Join(", ", AsMap.Select(each => $"{each.Key}: {each.Value}"))}}}",
            _ => Convert.ToString(value, CultureInfo.InvariantCulture) ?? string.Empty,
        };

        internal static V1.Requests.BinValue MessageOf(BinValue value) =>
            (value ?? throw new ArgumentNullException(nameof(value), "cannot use bins: a value is null; give a value"))
            .ToMessage();

        internal V1.Requests.BinValue ToMessage() => Type switch
        {
            BinType.Integer => new V1.Requests.BinValue { Integer = AsInteger },
            BinType.Number => new V1.Requests.BinValue { Number = AsNumber },
            BinType.Boolean => new V1.Requests.BinValue { Boolean = AsBoolean },
            BinType.Text => new V1.Requests.BinValue { Text = (Bytes)AsText },
            BinType.Binary => new V1.Requests.BinValue { Binary = (Bytes)AsBytes },
            BinType.List => new V1.Requests.BinValue
            {
                List = new BinList { Values = AsList.Select(each => each.ToMessage()).ToList() },
            },
            _ => new V1.Requests.BinValue
            {
                Map = new BinMap
                {
                    Entries = AsMap.Select(
                        each => new BinMapEntry { Key = each.Key, Value = each.Value.ToMessage() }).ToList(),
                },
            },
        };

        internal static BinValue OfReply(V1.Replies.BinValue? reply)
        {
            switch (reply)
            {
                case { Integer: long integer }:
                    return integer;
                case { Number: double number }:
                    return number;
                case { Boolean: bool boolean }:
                    return boolean;
                case { Text: string text }:
                    return text;
                case { Binary: ReadOnlyMemory<byte> binary }:
                    return FromBytes(binary);
                case { List: V1.Replies.BinList list }:
                    return new BinValue(BinType.List, list.Values.Select(OfReply).ToList());
                case { Map: V1.Replies.BinMap map }:
                    // The last of equal keys counts.
                    var values = new Dictionary<string, BinValue>(StringComparer.Ordinal);
                    map.Entries.ForEach(each => values[each.Key.Span.Utf8()] = OfReply(each.Value));
                    return new BinValue(BinType.Map, values);
                default:
                    throw new BadReplyException("a bin has no value");
            }
        }

        private static int LevelsOf(IEnumerable<BinValue> values) =>
            values.Select(each => each?.levels ?? throw new ArgumentNullException(
                nameof(values), "cannot create value: a part of it is null; give a value")).DefaultIfEmpty(0).Max();

        private T As<T>(BinType type) => Type == type
            ? (T)value
            : throw new InvalidOperationException($"cannot read value as {type}: it is {Type}; check its Type first");
    }
}
