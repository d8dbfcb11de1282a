using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;

namespace Gannet.Client
{
    /// <summary>
    /// A key, value, field or element. A string, a byte array and a <see cref="ReadOnlyMemory{T}"/> of bytes convert to
    /// it; a string is stored as UTF-8. The memory must not change before the call has ended.
    /// </summary>
    public readonly struct Bytes
    {
        // Encoding.UTF8 would make U+FFFD of a lone surrogate: two texts would be one key.
        private static readonly Encoding Strict = new UTF8Encoding(false, throwOnInvalidBytes: true);

        private readonly string? text;
        private readonly ReadOnlyMemory<byte> memory;

        private Bytes(string? text, ReadOnlyMemory<byte> memory)
        {
            this.text = text;
            this.memory = memory;
        }

        /// <summary>Number of bytes.</summary>
        /// <exception cref="EncoderFallbackException">A string has a lone surrogate.</exception>
        public int Length => text == null ? memory.Length : Strict.GetByteCount(text);

        /// <summary>True if the value was given as a string.</summary>
        internal bool IsText => text != null;

        /// <summary>Returns the bytes of a string in UTF-8.</summary>
        /// <param name="text">The string.</param>
        /// <exception cref="ArgumentNullException">The string is null.</exception>
        public static implicit operator Bytes(string text) =>
            new Bytes(text ?? throw new ArgumentNullException(nameof(text)), default);

        /// <summary>Returns the bytes of an array.</summary>
        /// <param name="bytes">The array.</param>
        /// <exception cref="ArgumentNullException">The array is null.</exception>
        public static implicit operator Bytes(byte[] bytes) =>
            new Bytes(null, bytes ?? throw new ArgumentNullException(nameof(bytes)));

        /// <summary>Returns the bytes of a part of the memory.</summary>
        /// <param name="memory">The memory.</param>
        public static implicit operator Bytes(ReadOnlyMemory<byte> memory) => new Bytes(null, memory);

        /// <summary>Copies the bytes, and returns their number.</summary>
        internal int CopyTo(Span<byte> target)
        {
            if (text != null)
            {
                return Strict.GetBytes(text, target);
            }
            memory.Span.CopyTo(target);
            return memory.Length;
        }

        internal byte[] ToArray()
        {
            var copy = new byte[Length];
            CopyTo(copy);
            return copy;
        }

        internal static IReadOnlyList<Bytes> ListOf(IEnumerable<Bytes> values)
        {
            _ = values ?? throw new ArgumentNullException(nameof(values));
            return values as IReadOnlyList<Bytes> ?? values.ToList();
        }

        internal static IReadOnlyList<Bytes> ListOf(IEnumerable<string> values)
        {
            _ = values ?? throw new ArgumentNullException(nameof(values));
            return values.Select(value => (Bytes)value).ToList();
        }
    }
}
