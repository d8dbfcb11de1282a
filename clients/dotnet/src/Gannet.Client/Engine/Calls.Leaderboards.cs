using System.Linq;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Replies;

namespace Gannet.Client.Engine
{
    // Leaderboards.
    internal static partial class Calls
    {
        public static readonly Call<DoneResult> UpsertElements = Done(Methods.LeaderboardsUpsertElements, true);

        public static readonly Call<DoneResult> RemoveElements = Done(Methods.LeaderboardsRemoveElements, true);

        public static readonly Call<DoneResult> DeleteLeaderboard = Done(Methods.LeaderboardsDeleteLeaderboard, true);

        public static readonly Call<LeaderboardLengthResult> GetLeaderboardLength = One(
            Methods.LeaderboardsGetLeaderboardLength,
            LeaderboardLength.Read,
            reply => (LeaderboardLengthResult)new LeaderboardLengthResult.Success(reply.Count),
            error => new LeaderboardLengthResult.Error(error),
            true);

        public static readonly Call<RankedResult> GetByRank = Ranked(Methods.LeaderboardsGetByRank);

        public static readonly Call<RankedResult> GetByScore = Ranked(Methods.LeaderboardsGetByScore);

        public static readonly Call<RankedResult> GetLeaderboardRank = Ranked(Methods.LeaderboardsGetRank);

        public static readonly Call<RankedResult> GetCompetitionRank =
            Ranked(Methods.LeaderboardsGetCompetitionRank);

        private static Call<RankedResult> Ranked(Method method) => One(
            method,
            RankedElements.Read,
            reply => (RankedResult)new RankedResult.Success(
                reply.Elements.Select(each => new RankedElement(each.Id, each.Rank, each.Score)).ToList()),
            error => new RankedResult.Error(error),
            true);
    }
}
