package dev.gannet.client;

import java.util.List;

/** The result of a read of a leaderboard. */
public sealed interface LeaderboardResult {
    /** The elements, in the order of the call. */
    record Success(List<RankedElement> elements) implements LeaderboardResult {}

    /** The call failed. */
    record Error(CacheError error) implements LeaderboardResult, ErrorResult {}
}
