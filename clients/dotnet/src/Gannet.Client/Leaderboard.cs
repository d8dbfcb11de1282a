using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    /// <summary>
    /// One leaderboard of a cache: elements with a number and a score, ordered by score. It is the sorted set of that
    /// name. A call names at most 8,192 elements.
    /// </summary>
    public sealed class Leaderboard
    {
        private readonly Caller caller;

        internal Leaderboard(Caller caller, string name)
        {
            this.caller = caller;
            Name = string.IsNullOrEmpty(name)
                ? throw new ArgumentException("cannot use leaderboard: its name is empty; give a name", nameof(name))
                : name;
        }

        /// <summary>The name of the leaderboard.</summary>
        public string Name { get; }

        /// <summary>Adds elements, and sets the scores of those that exist.</summary>
        /// <param name="elements">The ids and scores.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> UpsertAsync(
            IEnumerable<KeyValuePair<uint, double>> elements,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.UpsertElements,
                new UpsertElementsRequest
                {
                    Leaderboard = Name,
                    Elements = (elements ?? throw new ArgumentNullException(nameof(elements)))
                        .Select(each => new LeaderboardElement { Id = each.Key, Score = each.Value }).ToList(),
                },
                deadline,
                cancellationToken);

        /// <summary>Removes elements. Those that do not exist are no error.</summary>
        /// <param name="ids">The ids.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> RemoveAsync(
            IEnumerable<uint> ids,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(Calls.RemoveElements, IdsOf(ids, default), deadline, cancellationToken);

        /// <summary>Deletes the leaderboard. One that does not exist is no error.</summary>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> DeleteAsync(
            TimeSpan? deadline = null, CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.DeleteLeaderboard,
                new LeaderboardRequest { Leaderboard = Name },
                deadline,
                cancellationToken);

        /// <summary>Returns the number of elements; 0 if the leaderboard does not exist.</summary>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The number or an error.</returns>
        public Task<LeaderboardLengthResult> LengthAsync(
            TimeSpan? deadline = null, CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.GetLeaderboardLength,
                new LeaderboardRequest { Leaderboard = Name },
                deadline,
                cancellationToken);

        /// <summary>Returns the elements with certain ranks.</summary>
        /// <param name="first">The first rank; ranks begin at 0.</param>
        /// <param name="end">The rank after the last one.</param>
        /// <param name="order">The order of the ranks.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The elements or an error.</returns>
        public Task<RankedResult> GetByRankAsync(
            uint first,
            uint end,
            SortOrder order = SortOrder.Descending,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.GetByRank,
                new GetByRankRequest
                {
                    Leaderboard = Name,
                    Ranks = new GetByRankRequestRanks { First = first, End = end },
                    Order = (V1.Order)order,
                },
                deadline,
                cancellationToken);

        /// <summary>Returns the elements with scores from one to below another.</summary>
        /// <param name="least">The least score; null for no bound.</param>
        /// <param name="end">The score above all; null for no bound.</param>
        /// <param name="order">The order of the ranks.</param>
        /// <param name="offset">The number of elements that are left out at the start.</param>
        /// <param name="countMax">The maximum number of elements, 1 to 8,192.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The elements or an error.</returns>
        public Task<RankedResult> GetByScoreAsync(
            double? least = null,
            double? end = null,
            SortOrder order = SortOrder.Descending,
            uint offset = 0,
            uint countMax = 8192,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            var scores = new GetByScoreRequestScores { Least = least, End = end };
            scores.UnboundedStart = least == null ? new Condition() : null;
            scores.UnboundedEnd = end == null ? new Condition() : null;
            return caller.Send(
                Calls.GetByScore,
                new GetByScoreRequest
                {
                    Leaderboard = Name,
                    Scores = scores,
                    Offset = offset,
                    CountMax = countMax,
                    Order = (V1.Order)order,
                },
                deadline,
                cancellationToken);
        }

        /// <summary>Returns the ranks of elements, in the order of the ids, without those that do not exist.</summary>
        /// <param name="ids">The ids.</param>
        /// <param name="order">The order of the ranks.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The elements or an error.</returns>
        public Task<RankedResult> GetRankAsync(
            IEnumerable<uint> ids,
            SortOrder order = SortOrder.Descending,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(Calls.GetLeaderboardRank, IdsOf(ids, order), deadline, cancellationToken);

        /// <summary>
        /// Returns the competition ranks of elements: elements with one score have one rank, the number of elements
        /// before all of them.
        /// </summary>
        /// <param name="ids">The ids.</param>
        /// <param name="order">The order of the ranks.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The elements or an error.</returns>
        public Task<RankedResult> GetCompetitionRankAsync(
            IEnumerable<uint> ids,
            SortOrder order = SortOrder.Descending,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.GetCompetitionRank,
                new CompetitionRankRequest
                {
                    Leaderboard = Name,
                    Ids = (ids ?? throw new ArgumentNullException(nameof(ids))).ToList(),
                    Order = (V1.Order)order,
                },
                deadline,
                cancellationToken);

        private LeaderboardIdsRequest IdsOf(IEnumerable<uint> ids, SortOrder order) => new LeaderboardIdsRequest
        {
            Leaderboard = Name,
            Ids = (ids ?? throw new ArgumentNullException(nameof(ids))).ToList(),
            Order = (V1.Order)order,
        };
    }

    /// <summary>An element of a leaderboard with its rank.</summary>
    public readonly struct RankedElement
    {
        internal RankedElement(uint id, uint rank, double score)
        {
            Id = id;
            Rank = rank;
            Score = score;
        }

        /// <summary>The id of the element.</summary>
        public uint Id { get; }

        /// <summary>The rank, from 0.</summary>
        public uint Rank { get; }

        /// <summary>The score.</summary>
        public double Score { get; }

        /// <inheritdoc/>
        public override string ToString() => $"{Id} has rank {Rank} with score {Score}";
    }

    /// <summary>Elements of a leaderboard with their ranks: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class RankedResult
    {
        private protected RankedResult()
        {
        }

        /// <summary>The elements.</summary>
        public sealed class Success : RankedResult
        {
            internal Success(IReadOnlyList<RankedElement> elements) => Elements = elements;

            /// <summary>The elements.</summary>
            public IReadOnlyList<RankedElement> Elements { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : RankedResult, IErrorResult
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

    /// <summary>The length of a leaderboard: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class LeaderboardLengthResult
    {
        private protected LeaderboardLengthResult()
        {
        }

        /// <summary>The length.</summary>
        public sealed class Success : LeaderboardLengthResult
        {
            internal Success(long length) => Length = length;

            /// <summary>The number of elements.</summary>
            public long Length { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : LeaderboardLengthResult, IErrorResult
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
