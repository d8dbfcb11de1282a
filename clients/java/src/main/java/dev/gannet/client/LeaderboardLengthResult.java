package dev.gannet.client;

/** The result of a read of the length of a leaderboard. */
public sealed interface LeaderboardLengthResult {
    /** The number of elements; 0 if the leaderboard does not exist. */
    record Success(long length) implements LeaderboardLengthResult {}

    /** The call failed. */
    record Error(CacheError error) implements LeaderboardLengthResult, ErrorResult {}
}
