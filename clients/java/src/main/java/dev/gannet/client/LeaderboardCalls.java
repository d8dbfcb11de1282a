package dev.gannet.client;

import com.google.protobuf.Message;
import dev.gannet.v1.CompetitionRankRequest;
import dev.gannet.v1.GetByRankRequest;
import dev.gannet.v1.GetByScoreRequest;
import dev.gannet.v1.LeaderboardElement;
import dev.gannet.v1.LeaderboardIdsRequest;
import dev.gannet.v1.LeaderboardRequest;
import dev.gannet.v1.RankedElements;
import dev.gannet.v1.UpsertElementsRequest;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.CompletableFuture;

/**
 * The calls on leaderboards: sorted sets whose elements are numbers from 0 to 4,294,967,295. A call names at most 8,192
 * elements.
 */
abstract class LeaderboardCalls<T> extends LeaseCalls<T> {
    private static final long ID_MAX = (1L << 32) - 1;

    LeaderboardCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Adds elements with their scores, or sets the scores of present ones. */
    public CompletableFuture<DoneResult> leaderboardUpsert(
            String cache, String leaderboard, Map<Long, Double> scores) {
        UpsertElementsRequest.Builder request = UpsertElementsRequest.newBuilder().setLeaderboard(leaderboard);
        scores.forEach((id, score) ->
                request.addElements(LeaderboardElement.newBuilder().setId(unsigned("id", id)).setScore(score)));
        return done(Methods.UPSERT_ELEMENTS, cache, request.build());
    }

    /** Removes elements. An element that does not exist is no error. */
    public CompletableFuture<DoneResult> leaderboardRemove(
            String cache, String leaderboard, Collection<Long> ids) {
        return done(Methods.REMOVE_ELEMENTS, cache, LeaderboardIdsRequest.newBuilder()
                .setLeaderboard(leaderboard).addAllIds(idsOf(ids)).build());
    }

    /** Deletes a leaderboard. One that does not exist is no error. */
    public CompletableFuture<DoneResult> leaderboardDelete(String cache, String leaderboard) {
        return done(Methods.DELETE_LEADERBOARD, cache, nameOf(leaderboard));
    }

    /** Returns the number of elements. */
    public CompletableFuture<LeaderboardLengthResult> leaderboardLength(String cache, String leaderboard) {
        return unary(Methods.GET_LEADERBOARD_LENGTH, cache, nameOf(leaderboard),
                reply -> new LeaderboardLengthResult.Success(Integer.toUnsignedLong(reply.getCount())),
                LeaderboardLengthResult.Error::new);
    }

    /** Returns the elements from rank {@code first} to before rank {@code end} in an order. */
    public CompletableFuture<LeaderboardResult> leaderboardGetByRank(
            String cache, String leaderboard, long first, long end, Order order) {
        return ranked(Methods.GET_BY_RANK, cache, GetByRankRequest.newBuilder()
                .setLeaderboard(leaderboard).setOrder(orderOf(order))
                .setRanks(GetByRankRequest.Ranks.newBuilder()
                        .setFirst(unsigned("rank", first)).setEnd(unsigned("rank", end)))
                .build());
    }

    /**
     * Returns the elements with scores from {@code least} to below {@code end} in an order.
     *
     * @param least the lowest score; empty for all from the lowest one
     * @param end the score above the highest one; empty for all up to the highest one
     * @param offset the number of elements to omit at the start
     * @param countMax the maximum number of elements; 0 for 8,192
     */
    public CompletableFuture<LeaderboardResult> leaderboardGetByScore(
            String cache, String leaderboard, OptionalDouble least, OptionalDouble end, long offset, long countMax,
            Order order) {
        GetByScoreRequest.Scores.Builder scores = GetByScoreRequest.Scores.newBuilder();
        least.ifPresentOrElse(scores::setLeast, () -> scores.setUnboundedStart(YES));
        // A score without bound and one named `end` are the two forms of the upper end.
        if (end.isPresent()) {
            scores.setEnd(end.getAsDouble());
        } else {
            scores.setUnboundedEnd(YES);
        }
        return ranked(Methods.GET_BY_SCORE, cache, GetByScoreRequest.newBuilder()
                .setLeaderboard(leaderboard).setScores(scores).setOffset(unsigned("offset", offset))
                .setCountMax(unsigned("countMax", countMax)).setOrder(orderOf(order)).build());
    }

    /** Returns the ranks of elements in an order, in the order of the call, without those that do not exist. */
    public CompletableFuture<LeaderboardResult> leaderboardGetRank(
            String cache, String leaderboard, Collection<Long> ids, Order order) {
        return ranked(Methods.GET_RANK, cache, LeaderboardIdsRequest.newBuilder()
                .setLeaderboard(leaderboard).addAllIds(idsOf(ids)).setOrder(orderOf(order)).build());
    }

    /** Returns ranks like {@code leaderboardGetRank}. Elements with the same score share the rank of the first one. */
    public CompletableFuture<LeaderboardResult> leaderboardGetCompetitionRank(
            String cache, String leaderboard, Collection<Long> ids, Order order) {
        return ranked(Methods.GET_COMPETITION_RANK, cache, CompetitionRankRequest.newBuilder()
                .setLeaderboard(leaderboard).addAllIds(idsOf(ids)).setOrder(orderOf(order)).build());
    }

    private static LeaderboardRequest nameOf(String leaderboard) {
        return LeaderboardRequest.newBuilder().setLeaderboard(leaderboard).build();
    }

    private static List<Integer> idsOf(Collection<Long> ids) {
        List<Integer> unsigned = new ArrayList<>(ids.size());
        ids.forEach(id -> unsigned.add(unsigned("id", id)));
        return unsigned;
    }

    private static int unsigned(String name, long number) {
        if (number < 0 || number > ID_MAX) {
            throw new IllegalArgumentException("cannot use " + name + " " + number
                    + ": it is out of range; pass 0 to " + ID_MAX);
        }
        return (int) number;
    }

    private <Q extends Message> CompletableFuture<LeaderboardResult> ranked(
            Method<Q, RankedElements> method, String cache, Q request) {
        return unary(method, cache, request, LeaderboardCalls::rankedResult, LeaderboardResult.Error::new);
    }

    private static LeaderboardResult rankedResult(RankedElements reply) {
        return new LeaderboardResult.Success(reply.getElementsList().stream()
                .map(each -> new RankedElement(Integer.toUnsignedLong(each.getId()),
                        Integer.toUnsignedLong(each.getRank()), each.getScore()))
                .toList());
    }
}
