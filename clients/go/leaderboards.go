package gannet

import (
	"context"

	pb "gannet.dev/client/gannetv1"
)

// Ranked is an element of a leaderboard. The first one has rank 0.
type Ranked struct {
	ID    uint32
	Rank  uint32
	Score float64
}

// LeaderboardUpsert adds elements with their scores, or sets the scores of present ones. A call names at most 8,192
// elements, as all calls of leaderboards do.
func (c *Client) LeaderboardUpsert(ctx context.Context, cache, leaderboard string, scores map[uint32]float64) error {
	request := &pb.UpsertElementsRequest{Leaderboard: leaderboard}
	for id, score := range scores {
		request.Elements = append(request.Elements, &pb.LeaderboardElement{Id: id, Score: score})
	}
	return c.done(ctx, methodUpsertElements, cache, request)
}

// LeaderboardRemove removes elements. Those that do not exist are ignored.
func (c *Client) LeaderboardRemove(ctx context.Context, cache, leaderboard string, ids ...uint32) error {
	return c.done(ctx, methodRemoveElements, cache, &pb.LeaderboardIdsRequest{Leaderboard: leaderboard, Ids: ids})
}

// LeaderboardDelete removes all elements.
func (c *Client) LeaderboardDelete(ctx context.Context, cache, leaderboard string) error {
	return c.done(ctx, methodDeleteLeaderboard, cache, &pb.LeaderboardRequest{Leaderboard: leaderboard})
}

// LeaderboardLength returns the number of elements; 0 if the leaderboard does not exist.
func (c *Client) LeaderboardLength(ctx context.Context, cache, leaderboard string) (int, error) {
	request := &pb.LeaderboardRequest{Leaderboard: leaderboard}
	reply, err := unary(ctx, c, methodLeaderboardLength, cache, request, &pb.LeaderboardLength{})
	if err != nil {
		return 0, err
	}
	return int(reply.Count), nil
}

// LeaderboardGetByRank returns the elements from rank first to before rank end, in an order.
func (c *Client) LeaderboardGetByRank(
	ctx context.Context, cache, leaderboard string, first, end uint32, order Order,
) ([]Ranked, error) {
	reply, err := unary(ctx, c, methodGetByRank, cache, &pb.GetByRankRequest{
		Leaderboard: leaderboard, Ranks: &pb.GetByRankRequest_Ranks{First: first, End: end}, Order: pb.Order(order),
	}, &pb.RankedElements{})
	return rankedOf(reply, err)
}

// LeaderboardGetByScore returns the elements with these scores, in an order. The lower bound of the range is inclusive,
// and the upper one exclusive: WithLeast and WithGreatestExclusive.
func (c *Client) LeaderboardGetByScore(
	ctx context.Context, cache, leaderboard string, scores ScoreRange, order Order,
) ([]Ranked, error) {
	if scores.leastExclusive || scores.hasGreatest && !scores.greatestExclusive {
		return nil, newError(CodeInvalidArgument, "cannot execute GetByScore",
			"leaderboards have ranges from a score to below another one", "use WithLeast and WithGreatestExclusive", nil)
	}
	bounds := &pb.GetByScoreRequest_Scores{}
	if scores.hasLeast {
		bounds.From = &pb.GetByScoreRequest_Scores_Least{Least: scores.least}
	} else {
		bounds.From = &pb.GetByScoreRequest_Scores_UnboundedStart{UnboundedStart: &pb.Condition{}}
	}
	if scores.hasGreatest {
		bounds.To = &pb.GetByScoreRequest_Scores_End{End: scores.greatest}
	} else {
		bounds.To = &pb.GetByScoreRequest_Scores_UnboundedEnd{UnboundedEnd: &pb.Condition{}}
	}
	reply, err := unary(ctx, c, methodGetByScore, cache, &pb.GetByScoreRequest{
		Leaderboard: leaderboard, Scores: bounds, Offset: scores.offset, CountMax: uint32(scores.count),
		Order: pb.Order(order),
	}, &pb.RankedElements{})
	return rankedOf(reply, err)
}

// LeaderboardGetRank returns these elements with their ranks in an order, without those that do not exist. Each element
// has a rank of its own.
func (c *Client) LeaderboardGetRank(
	ctx context.Context, cache, leaderboard string, ids []uint32, order Order,
) ([]Ranked, error) {
	request := &pb.LeaderboardIdsRequest{Leaderboard: leaderboard, Ids: ids, Order: pb.Order(order)}
	reply, err := unary(ctx, c, methodGetRank, cache, request, &pb.RankedElements{})
	return rankedOf(reply, err)
}

// LeaderboardGetCompetitionRank returns these elements with their ranks in an order, without those that do not exist.
// Elements with the same score have the same rank: the number of elements before all of them.
func (c *Client) LeaderboardGetCompetitionRank(
	ctx context.Context, cache, leaderboard string, ids []uint32, order Order,
) ([]Ranked, error) {
	request := &pb.CompetitionRankRequest{Leaderboard: leaderboard, Ids: ids, Order: pb.Order(order).Enum()}
	reply, err := unary(ctx, c, methodGetCompetitionRank, cache, request, &pb.RankedElements{})
	return rankedOf(reply, err)
}

func rankedOf(reply *pb.RankedElements, err error) ([]Ranked, error) {
	if err != nil {
		return nil, err
	}
	elements := make([]Ranked, len(reply.Elements))
	for at, each := range reply.Elements {
		elements[at] = Ranked{each.Id, each.Rank, each.Score}
	}
	return elements, nil
}
