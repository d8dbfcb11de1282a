using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    // Sorted sets.
    public sealed partial class CacheClient
    {
        /// <summary>Adds elements with their scores, or sets the scores of present ones.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements and their scores.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SortedSetPutElementsAsync(
            Bytes key,
            IEnumerable<KeyValuePair<Bytes, double>> elements,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetPut,
                new SortedSetPutRequest { Key =
                    key, Elements = ScoredOf(elements), TtlMs = TtlOf(ttl), RefreshTtl = Refreshes(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Adds elements with their scores, or sets the scores of present ones.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements and their scores.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SortedSetPutElementsAsync(
            Bytes key,
            IEnumerable<KeyValuePair<string, double>> elements,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetPut,
                new SortedSetPutRequest { Key =
                    key, Elements = ScoredOf(elements), TtlMs = TtlOf(ttl), RefreshTtl = Refreshes(ttl) },
                deadline,
                cancellationToken);

        /// <summary>Returns the elements of a range of ranks, with their scores; all of them without one.</summary>
        /// <param name="key">The key.</param>
        /// <param name="range">The range of indexes.</param>
        /// <param name="order">The order.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<SortedSetResult> SortedSetFetchByIndexAsync(
            Bytes key,
            IndexRange range = default,
            SortOrder order = SortOrder.Ascending,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.SortedSetFetch, Fetched(key, range, order), deadline, cancellationToken);

        /// <summary>Returns the elements of a range of scores, with their scores.</summary>
        /// <param name="key">The key.</param>
        /// <param name="range">The range of scores.</param>
        /// <param name="order">The order.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<SortedSetResult> SortedSetFetchByScoreAsync(
            Bytes key,
            ScoreRange range = default,
            SortOrder order = SortOrder.Ascending,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.SortedSetFetch, Fetched(key, range, order), deadline, cancellationToken);

        /// <summary>Returns the score of one element.</summary>
        /// <param name="key">The key.</param>
        /// <param name="element">The element.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ScoreResult> SortedSetGetScoreAsync(
            Bytes key,
            Bytes element,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetGetScore,
                new FieldsRequest { Key = key, Fields = new[] { element } },
                deadline,
                cancellationToken);

        /// <summary>Returns the scores of several elements, in their order.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ScoresResult> SortedSetGetScoresAsync(
            Bytes key,
            IEnumerable<Bytes> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetGetScores,
                new FieldsRequest { Key = key, Fields = Bytes.ListOf(elements) },
                deadline,
                cancellationToken);

        /// <summary>Returns the scores of several elements, in their order.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<ScoresResult> SortedSetGetScoresAsync(
            Bytes key,
            IEnumerable<string> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetGetScores,
                new FieldsRequest { Key = key, Fields = Bytes.ListOf(elements) },
                deadline,
                cancellationToken);

        /// <summary>Removes elements. An element that does not exist is no error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SortedSetRemoveElementsAsync(
            Bytes key,
            IEnumerable<Bytes> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetRemove,
                new SortedSetRemoveRequest
                {
                    Key = key,
                    Some = new SortedSetRemoveRequestValues { Values = Bytes.ListOf(elements) },
                },
                deadline,
                cancellationToken);

        /// <summary>Removes elements. An element that does not exist is no error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="elements">The elements.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SortedSetRemoveElementsAsync(
            Bytes key,
            IEnumerable<string> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetRemove,
                new SortedSetRemoveRequest
                {
                    Key = key,
                    Some = new SortedSetRemoveRequestValues { Values = Bytes.ListOf(elements) },
                },
                deadline,
                cancellationToken);

        /// <summary>Removes all elements, and with them the sorted set. An item of another type is an error.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> SortedSetDeleteAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetRemove,
                new SortedSetRemoveRequest { Key = key, All = new Condition() },
                deadline,
                cancellationToken);

        /// <summary>
        /// Adds to the score of an element, and returns the sum. An element that does not exist has score 0.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="element">The element.</param>
        /// <param name="amount">The amount, which may be negative.</param>
        /// <param name="ttl">
        /// The time to live, and if the call refreshes it; the default of the client if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The score after the change, or an error.</returns>
        public Task<ScoreIncrementResult> SortedSetIncrementAsync(
            Bytes key,
            Bytes element,
            double amount = 1,
            CollectionTtl? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetIncrement,
                new SortedSetIncrementRequest
                {
                    Key = key,
                    Value = element,
                    Amount = amount,
                    TtlMs = TtlOf(ttl),
                    RefreshTtl = Refreshes(ttl),
                },
                deadline,
                cancellationToken);

        /// <summary>Returns the rank of an element; the first one has rank 0.</summary>
        /// <param name="key">The key.</param>
        /// <param name="element">The element.</param>
        /// <param name="order">The order.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<RankResult> SortedSetGetRankAsync(
            Bytes key,
            Bytes element,
            SortOrder order = SortOrder.Ascending,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(
                Calls.SortedSetGetRank,
                new SortedSetGetRankRequest { Key = key, Value = element, Order = (Order)(int)order },
                deadline,
                cancellationToken);

        /// <summary>Returns the number of elements.</summary>
        /// <param name="key">The key.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss or an error.</returns>
        public Task<LengthResult> SortedSetLengthAsync(
            Bytes key,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            Send(Calls.SortedSetLength, new KeyRequest { Key = key }, deadline, cancellationToken);

        private static IReadOnlyList<ScoredElement> ScoredOf(IEnumerable<KeyValuePair<Bytes, double>> elements)
        {
            _ = elements ?? throw new ArgumentNullException(nameof(elements));
            return elements.Select(each => new ScoredElement { Value = each.Key, Score = each.Value }).ToList();
        }

        private static IReadOnlyList<ScoredElement> ScoredOf(IEnumerable<KeyValuePair<string, double>> elements)
        {
            _ = elements ?? throw new ArgumentNullException(nameof(elements));
            return elements.Select(each => new ScoredElement { Value = each.Key, Score = each.Value }).ToList();
        }

        private static SortedSetFetchRequest Fetched(Bytes key, IndexRange range, SortOrder order) =>
            new SortedSetFetchRequest
            {
                Key = key,
                Order = (Order)(int)order,
                WithScores = true,
                ByIndex = new SortedSetFetchRequestByIndex
                {
                    UnboundedStart = range.First == null ? new Condition() : null,
                    First = range.First,
                    UnboundedEnd = range.End == null ? new Condition() : null,
                    End = range.End,
                },
            };

        private static SortedSetFetchRequest Fetched(Bytes key, ScoreRange range, SortOrder order) =>
            new SortedSetFetchRequest
            {
                Key = key,
                Order = (Order)(int)order,
                WithScores = true,
                ByScore = new SortedSetFetchRequestByScore
                {
                    UnboundedLeast = range.Least == null ? new Condition() : null,
                    From = BoundOf(range.Least, range.IsLeastExclusive),
                    UnboundedGreatest = range.Greatest == null ? new Condition() : null,
                    To = BoundOf(range.Greatest, range.IsGreatestExclusive),
                    Offset = (uint)range.Offset,
                    Count = range.Count ?? -1,
                },
            };

        private static SortedSetFetchRequestBound? BoundOf(double? score, bool isExclusive) => score == null
            ? null
            : new SortedSetFetchRequestBound { Score = score.Value, Exclusive = isExclusive };
    }
}
