package dev.gannet.client;

import dev.gannet.v1.FieldsRequest;
import dev.gannet.v1.RankReply;
import dev.gannet.v1.Result;
import dev.gannet.v1.ScoredElement;
import dev.gannet.v1.ScoresReply;
import dev.gannet.v1.SortedSetFetchReply;
import dev.gannet.v1.SortedSetFetchRequest;
import dev.gannet.v1.SortedSetGetRankRequest;
import dev.gannet.v1.SortedSetIncrementRequest;
import dev.gannet.v1.SortedSetPutRequest;
import dev.gannet.v1.SortedSetRemoveRequest;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** The calls on sorted sets. */
abstract class SortedSetCalls<T> extends ListCalls<T> {
    SortedSetCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /** Adds elements with their scores, or sets the scores of present ones. */
    public CompletableFuture<DoneResult> sortedSetPutElements(
            String cache, T key, Map<? extends T, Double> scores, CollectionOption... options) {
        Options all = optionsOf(options);
        SortedSetPutRequest.Builder request = SortedSetPutRequest.newBuilder()
                .setKey(bytes(key)).setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed());
        scores.forEach((element, score) ->
                request.addElements(ScoredElement.newBuilder().setValue(bytes(element)).setScore(score)));
        return done(Methods.SORTED_SET_PUT, cache, request.build());
    }

    /** Returns the elements with these ranks in an order. */
    public CompletableFuture<SortedSetResult> sortedSetFetchByIndex(String cache, T key, Range ranks, Order order) {
        SortedSetFetchRequest.ByIndex.Builder by = SortedSetFetchRequest.ByIndex.newBuilder();
        ranks.first().ifPresentOrElse(by::setFirst, () -> by.setUnboundedStart(YES));
        ranks.end().ifPresentOrElse(by::setEnd, () -> by.setUnboundedEnd(YES));
        return fetch(cache, key, order, SortedSetFetchRequest.newBuilder().setByIndex(by));
    }

    /** Returns the elements with these scores in an order. */
    public CompletableFuture<SortedSetResult> sortedSetFetchByScore(
            String cache, T key, ScoreRange scores, Order order) {
        SortedSetFetchRequest.ByScore.Builder by = SortedSetFetchRequest.ByScore.newBuilder()
                .setOffset(scores.offset()).setCount(scores.count());
        scores.least().ifPresentOrElse(bound -> by.setFrom(boundOf(bound)), () -> by.setUnboundedLeast(YES));
        scores.greatest().ifPresentOrElse(bound -> by.setTo(boundOf(bound)), () -> by.setUnboundedGreatest(YES));
        return fetch(cache, key, order, SortedSetFetchRequest.newBuilder().setByScore(by));
    }

    private static SortedSetFetchRequest.Bound boundOf(ScoreRange.Bound bound) {
        return SortedSetFetchRequest.Bound.newBuilder()
                .setScore(bound.score()).setExclusive(bound.isExclusive()).build();
    }

    static dev.gannet.v1.Order orderOf(Order order) {
        return order == Order.ASCENDING ? dev.gannet.v1.Order.ASCENDING : dev.gannet.v1.Order.DESCENDING;
    }

    private CompletableFuture<SortedSetResult> fetch(
            String cache, T key, Order order, SortedSetFetchRequest.Builder request) {
        request.setKey(bytes(key)).setOrder(orderOf(order)).setWithScores(true);
        return unary(Methods.SORTED_SET_FETCH, cache, request.build(), SortedSetCalls::fetchResultOf,
                SortedSetResult.Error::new);
    }

    private static SortedSetResult fetchResultOf(SortedSetFetchReply reply) {
        return switch (reply.getReplyCase()) {
            case FOUND -> new SortedSetResult.Hit(reply.getFound().getScored().getElementsList().stream()
                    .map(each -> new SortedSetResult.Scored(new Bytes(each.getValue()), each.getScore()))
                    .toList());
            case MISSING -> SortedSetResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Returns the score of one element. */
    public CompletableFuture<ScoreResult> sortedSetGetScore(String cache, T key, T element) {
        FieldsRequest request = FieldsRequest.newBuilder().setKey(bytes(key)).addFields(bytes(element)).build();
        return unary(Methods.SORTED_SET_GET_SCORE, cache, request, reply -> {
            List<ScoreResult> scores = scoresOf(reply, 1);
            return scores == null ? ScoreResult.Miss.INSTANCE : scores.get(0);
        }, ScoreResult.Error::new);
    }

    /** Returns the scores of several elements, in their order. */
    public CompletableFuture<ScoresResult> sortedSetGetScores(
            String cache, T key, Collection<? extends T> elements) {
        FieldsRequest request = FieldsRequest.newBuilder().setKey(bytes(key)).addAllFields(all(elements)).build();
        int count = request.getFieldsCount();
        return unary(Methods.SORTED_SET_GET_SCORE, cache, request, reply -> {
            List<ScoreResult> scores = scoresOf(reply, count);
            return scores == null ? ScoresResult.Miss.INSTANCE : new ScoresResult.Hit(scores);
        }, ScoresResult.Error::new);
    }

    /** Returns one result for each element, or null if the sorted set does not exist. */
    private static List<ScoreResult> scoresOf(ScoresReply reply, int count) {
        return switch (reply.getReplyCase()) {
            case FOUND -> {
                checkCount(reply.getFound().getElementsCount(), count);
                yield reply.getFound().getElementsList().stream().<ScoreResult>map(each ->
                        each.getResult() == Result.RESULT_HIT
                                ? new ScoreResult.Hit(each.getScore())
                                : ScoreResult.Miss.INSTANCE).toList();
            }
            case MISSING -> null;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Returns the rank of an element in an order. The first element has rank 0. */
    public CompletableFuture<RankResult> sortedSetGetRank(String cache, T key, T element, Order order) {
        SortedSetGetRankRequest request = SortedSetGetRankRequest.newBuilder()
                .setKey(bytes(key)).setValue(bytes(element)).setOrder(orderOf(order)).build();
        return unary(Methods.SORTED_SET_GET_RANK, cache, request, SortedSetCalls::rankResult, RankResult.Error::new);
    }

    private static RankResult rankResult(RankReply reply) {
        return switch (reply.getReplyCase()) {
            case ELEMENT -> reply.getElement().getResult() == Result.RESULT_HIT
                    ? new RankResult.Hit(reply.getElement().getRank())
                    : RankResult.Miss.INSTANCE;
            case MISSING -> RankResult.Miss.INSTANCE;
            case REPLY_NOT_SET -> throw BadReplyException.empty();
        };
    }

    /** Adds to the score of an element, and returns the sum. An element that does not exist has score 0. */
    public CompletableFuture<ScoreIncrementResult> sortedSetIncrement(
            String cache, T key, T element, double amount, CollectionOption... options) {
        Options all = optionsOf(options);
        SortedSetIncrementRequest request = SortedSetIncrementRequest.newBuilder()
                .setKey(bytes(key)).setValue(bytes(element)).setAmount(amount)
                .setTtlMs(all.ttlMs()).setRefreshTtl(all.isRefreshed()).build();
        return unary(Methods.SORTED_SET_INCREMENT, cache, request,
                reply -> new ScoreIncrementResult.Success(reply.getScore()), ScoreIncrementResult.Error::new);
    }

    /** Removes elements. An element that does not exist is no error. */
    public CompletableFuture<DoneResult> sortedSetRemoveElements(
            String cache, T key, Collection<? extends T> elements) {
        SortedSetRemoveRequest.Values some =
                SortedSetRemoveRequest.Values.newBuilder().addAllValues(all(elements)).build();
        return done(Methods.SORTED_SET_REMOVE, cache,
                SortedSetRemoveRequest.newBuilder().setKey(bytes(key)).setSome(some).build());
    }

    /** Removes all elements, and with them the sorted set. An item of another type is an error. */
    public CompletableFuture<DoneResult> sortedSetDelete(String cache, T key) {
        return done(Methods.SORTED_SET_REMOVE, cache,
                SortedSetRemoveRequest.newBuilder().setKey(bytes(key)).setAll(YES).build());
    }

    /** Returns the number of elements. */
    public CompletableFuture<LengthResult> sortedSetLength(String cache, T key) {
        return length(Methods.SORTED_SET_LENGTH, cache, keyOf(key));
    }
}
