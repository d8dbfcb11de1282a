using System;
using System.Collections.Generic;
using System.Linq;

namespace Gannet.Client
{
    /// <summary>Elements of a sorted set: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class SortedSetResult
    {
        private protected SortedSetResult()
        {
        }

        /// <summary>Elements with their scores, in the order of the call.</summary>
        public sealed class Hit : SortedSetResult
        {
            internal Hit(IReadOnlyList<(ReadOnlyMemory<byte> Element, double Score)> elements) =>
                ElementsBytes = elements;

            /// <summary>Pairs of an element and its score.</summary>
            public IReadOnlyList<(ReadOnlyMemory<byte> Element, double Score)> ElementsBytes { get; }

            /// <summary>Pairs of an element as text (UTF-8) and its score.</summary>
            public IReadOnlyList<(string Element, double Score)> ElementsString =>
                ElementsBytes.Select(each => (each.Element.Span.Utf8(), each.Score)).ToList();
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : SortedSetResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : SortedSetResult, IErrorResult
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

    /// <summary>The score of an element: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class ScoreResult
    {
        private protected ScoreResult()
        {
        }

        /// <summary>The score of an element.</summary>
        public sealed class Hit : ScoreResult
        {
            internal Hit(double score) => Score = score;

            /// <summary>The score.</summary>
            public double Score { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : ScoreResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ScoreResult, IErrorResult
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

    /// <summary>The scores of several elements: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class ScoresResult
    {
        private protected ScoresResult()
        {
        }

        /// <summary>One score for each element.</summary>
        public sealed class Hit : ScoresResult
        {
            internal Hit(IReadOnlyList<double?> scores) => Scores = scores;

            /// <summary>The scores in the order of the call, with null for an element that does not exist.</summary>
            public IReadOnlyList<double?> Scores { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : ScoresResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ScoresResult, IErrorResult
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

    /// <summary>The score of an element after a change: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class ScoreIncrementResult
    {
        private protected ScoreIncrementResult()
        {
        }

        /// <summary>The score after the change.</summary>
        public sealed class Success : ScoreIncrementResult
        {
            internal Success(double score) => Score = score;

            /// <summary>The score.</summary>
            public double Score { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : ScoreIncrementResult, IErrorResult
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

    /// <summary>The rank of an element: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class RankResult
    {
        private protected RankResult()
        {
        }

        /// <summary>The rank of an element.</summary>
        public sealed class Hit : RankResult
        {
            internal Hit(long rank) => Rank = rank;

            /// <summary>The rank; the first element has rank 0.</summary>
            public long Rank { get; }
        }

        /// <summary>The item, or the part of it that the call names, does not exist.</summary>
        public sealed class Miss : RankResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : RankResult, IErrorResult
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
