using System;

namespace Gannet.Client
{
    /// <summary>
    /// The time to live of a collection. A change that creates the collection always sets it. If it is refreshed (the
    /// default), the other changes set it too, so that the collection lives as long as it is written to. A
    /// <see cref="TimeSpan"/> converts to it.
    /// </summary>
    public readonly struct CollectionTtl
    {
        private readonly bool isKept;

        private CollectionTtl(TimeSpan? ttl, bool isKept)
        {
            Ttl = ttl;
            this.isKept = isKept;
        }

        /// <summary>The time to live; null for the default of the client.</summary>
        public TimeSpan? Ttl { get; }

        /// <summary>
        /// True if each change sets the time to live; otherwise only the one that creates the collection.
        /// </summary>
        public bool Refreshes => !isKept;

        /// <summary>Returns a time to live that each change sets.</summary>
        /// <param name="ttl">The time to live.</param>
        public static implicit operator CollectionTtl(TimeSpan ttl) => new CollectionTtl(ttl, false);

        /// <summary>Returns a time to live that only the change sets that creates the collection.</summary>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <returns>The time to live.</returns>
        public static CollectionTtl WithoutRefresh(TimeSpan? ttl = null) => new CollectionTtl(ttl, true);
    }

    /// <summary>
    /// A part of a list or sorted set, from one index to before another. A negative index counts from the end. The
    /// default value is all elements. A <see cref="Range"/> such as <c>1..^2</c> converts to it.
    /// </summary>
    public readonly struct IndexRange
    {
        /// <summary>Creates a range.</summary>
        /// <param name="first">The index of the first element; null for the start.</param>
        /// <param name="end">The index after the last element; null for the end.</param>
        public IndexRange(int? first = null, int? end = null)
        {
            First = first;
            End = end;
        }

        /// <summary>The index of the first element; null for the start.</summary>
        public int? First { get; }

        /// <summary>The index after the last element; null for the end.</summary>
        public int? End { get; }

        /// <summary>Returns the range of indexes of C#.</summary>
        /// <param name="range">The range.</param>
        public static implicit operator IndexRange(Range range) =>
            IsEnd(range.Start)
                ? new IndexRange(0, 0)
                : new IndexRange(IndexOf(range.Start), IsEnd(range.End) ? (int?)null : IndexOf(range.End));

        // Returns whether the index is that after the last element, which no number expresses. A range that begins
        // there is empty.
        private static bool IsEnd(Index index) => index.IsFromEnd && index.Value == 0;

        private static int IndexOf(Index index) => index.IsFromEnd ? -index.Value : index.Value;
    }

    /// <summary>The order of a sorted set.</summary>
    public enum SortOrder
    {
        /// <summary>The lowest score is first.</summary>
        Ascending,

        /// <summary>The highest score is first.</summary>
        Descending,
    }

    /// <summary>The elements of a sorted set with a range of scores. The default value is all elements.</summary>
    public readonly struct ScoreRange
    {
        /// <summary>Creates a range.</summary>
        /// <param name="least">The lowest score; null for no bound.</param>
        /// <param name="greatest">The highest score; null for no bound.</param>
        /// <param name="isLeastExclusive">True to leave out elements with the lowest score itself.</param>
        /// <param name="isGreatestExclusive">True to leave out elements with the highest score itself.</param>
        /// <param name="offset">The number of elements that are passed over.</param>
        /// <param name="count">The maximum number of elements; null or 0 for all.</param>
        /// <exception cref="ArgumentOutOfRangeException">The offset or the count is negative.</exception>
        public ScoreRange(
            double? least = null,
            double? greatest = null,
            bool isLeastExclusive = false,
            bool isGreatestExclusive = false,
            int offset = 0,
            int? count = null)
        {
            if (offset < 0 || count < 0)
            {
                throw new ArgumentOutOfRangeException(
                    nameof(offset), "cannot use range: the offset or the count is negative; give at least 0");
            }
            Least = least;
            Greatest = greatest;
            IsLeastExclusive = isLeastExclusive;
            IsGreatestExclusive = isGreatestExclusive;
            Offset = offset;
            Count = count;
        }

        /// <summary>The lowest score; null for no bound.</summary>
        public double? Least { get; }

        /// <summary>The highest score; null for no bound.</summary>
        public double? Greatest { get; }

        /// <summary>True to leave out elements with the lowest score itself.</summary>
        public bool IsLeastExclusive { get; }

        /// <summary>True to leave out elements with the highest score itself.</summary>
        public bool IsGreatestExclusive { get; }

        /// <summary>The number of elements that are passed over.</summary>
        public int Offset { get; }

        /// <summary>The maximum number of elements; null or 0 for all.</summary>
        public int? Count { get; }
    }
}
