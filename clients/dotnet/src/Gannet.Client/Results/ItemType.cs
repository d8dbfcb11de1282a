using System;
using System.Text;

namespace Gannet.Client
{
    /// <summary>Types of items.</summary>
    public enum ItemType
    {
        /// <summary>One value.</summary>
        Value,

        /// <summary>Fields with values.</summary>
        Dictionary,

        /// <summary>Distinct elements without an order.</summary>
        Set,

        /// <summary>Elements in an order.</summary>
        List,

        /// <summary>Distinct elements with scores, in the order of the scores.</summary>
        SortedSet,
    }

    internal static class Utf8Text
    {
        /// <summary>Returns bytes as text (UTF-8).</summary>
        public static string Utf8(this ReadOnlySpan<byte> bytes) => Encoding.UTF8.GetString(bytes);
    }
}
