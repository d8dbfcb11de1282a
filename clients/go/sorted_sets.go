package gannet

import (
	"context"
	"fmt"

	pb "gannet.dev/client/gannetv1"
)

// SortedSetPutElements adds elements with their scores, or sets the scores of present ones.
func (c *Client) SortedSetPutElements(
	ctx context.Context, cache, key string, scores map[string]float64, options ...CollectionOption,
) error {
	all := c.collectionOptions(options)
	elements := make([]*pb.ScoredElement, 0, len(scores))
	for element, score := range scores {
		elements = append(elements, &pb.ScoredElement{Value: []byte(element), Score: score})
	}
	return c.done(ctx, methodSortedSetPut, cache, &pb.SortedSetPutRequest{
		Key: []byte(key), Elements: elements, TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL,
	})
}

// SortedSetFetchByIndex returns the elements with these ranks in an order: *SortedSetHit or *Miss.
func (c *Client) SortedSetFetchByIndex(
	ctx context.Context, cache, key string, ranks Range, order Order,
) (SortedSetResult, error) {
	by := &pb.SortedSetFetchRequest_ByIndex{}
	if ranks.hasFirst {
		by.From = &pb.SortedSetFetchRequest_ByIndex_First{First: ranks.first}
	} else {
		by.From = &pb.SortedSetFetchRequest_ByIndex_UnboundedStart{UnboundedStart: &pb.Condition{}}
	}
	if ranks.hasEnd {
		by.To = &pb.SortedSetFetchRequest_ByIndex_End{End: ranks.end}
	} else {
		by.To = &pb.SortedSetFetchRequest_ByIndex_UnboundedEnd{UnboundedEnd: &pb.Condition{}}
	}
	return c.sortedSetFetch(ctx, cache, &pb.SortedSetFetchRequest{
		Key: []byte(key), Order: pb.Order(order), WithScores: true,
		Range: &pb.SortedSetFetchRequest_ByIndex_{ByIndex: by},
	})
}

// SortedSetFetchByScore returns the elements with these scores in an order: *SortedSetHit or *Miss.
func (c *Client) SortedSetFetchByScore(
	ctx context.Context, cache, key string, scores ScoreRange, order Order,
) (SortedSetResult, error) {
	by := &pb.SortedSetFetchRequest_ByScore{Offset: scores.offset, Count: scores.count}
	if scores.hasLeast {
		bound := &pb.SortedSetFetchRequest_Bound{Score: scores.least, Exclusive: scores.leastExclusive}
		by.Least = &pb.SortedSetFetchRequest_ByScore_From{From: bound}
	} else {
		by.Least = &pb.SortedSetFetchRequest_ByScore_UnboundedLeast{UnboundedLeast: &pb.Condition{}}
	}
	if scores.hasGreatest {
		bound := &pb.SortedSetFetchRequest_Bound{Score: scores.greatest, Exclusive: scores.greatestExclusive}
		by.Greatest = &pb.SortedSetFetchRequest_ByScore_To{To: bound}
	} else {
		by.Greatest = &pb.SortedSetFetchRequest_ByScore_UnboundedGreatest{UnboundedGreatest: &pb.Condition{}}
	}
	return c.sortedSetFetch(ctx, cache, &pb.SortedSetFetchRequest{
		Key: []byte(key), Order: pb.Order(order), WithScores: true,
		Range: &pb.SortedSetFetchRequest_ByScore_{ByScore: by},
	})
}

func (c *Client) sortedSetFetch(
	ctx context.Context, cache string, request *pb.SortedSetFetchRequest,
) (SortedSetResult, error) {
	reply, err := unary(ctx, c, methodSortedSetFetch, cache, request, &pb.SortedSetFetchReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.SortedSetFetchReply_Found_:
		elements := which.Found.GetScored().GetElements()
		hit := &SortedSetHit{make([]Scored, len(elements))}
		for at, each := range elements {
			hit.Elements[at] = Scored{string(each.Value), each.Score}
		}
		return hit, nil
	case *pb.SortedSetFetchReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodSortedSetFetch)
}

// SortedSetGetScore returns the score of one element: *ScoreHit or *Miss.
func (c *Client) SortedSetGetScore(ctx context.Context, cache, key, element string) (ScoreResult, error) {
	result, err := c.SortedSetGetScores(ctx, cache, key, element)
	if err != nil {
		return nil, err
	}
	if hit, isHit := result.(*ScoresHit); isHit {
		return hit.Results[0], nil
	}
	return miss, nil
}

// SortedSetGetScores returns the scores of several elements, in their order: *ScoresHit or *Miss.
func (c *Client) SortedSetGetScores(ctx context.Context, cache, key string, elements ...string) (ScoresResult, error) {
	request := &pb.FieldsRequest{Key: []byte(key), Fields: bytesOf(elements)}
	reply, err := unary(ctx, c, methodSortedSetGetScore, cache, request, &pb.ScoresReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.ScoresReply_Found_:
		if scores := len(which.Found.Elements); scores != len(elements) {
			cause := fmt.Sprintf("%d scores of %d elements", scores, len(elements))
			return nil, badReply(methodSortedSetGetScore.name, cause)
		}
		hit := &ScoresHit{make([]ScoreResult, len(elements))}
		for at, each := range which.Found.Elements {
			hit.Results[at] = miss
			if each.Result == pb.Result_RESULT_HIT {
				hit.Results[at] = &ScoreHit{each.Score}
			}
		}
		return hit, nil
	case *pb.ScoresReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodSortedSetGetScore)
}

// SortedSetRemoveElements removes elements. An element that does not exist is no error.
func (c *Client) SortedSetRemoveElements(ctx context.Context, cache, key string, elements ...string) error {
	some := &pb.SortedSetRemoveRequest_Some{Some: &pb.SortedSetRemoveRequest_Values{Values: bytesOf(elements)}}
	return c.done(ctx, methodSortedSetRemove, cache, &pb.SortedSetRemoveRequest{Key: []byte(key), Which: some})
}

// SortedSetDelete removes all elements, and with them the sorted set. An item of another type is an error.
func (c *Client) SortedSetDelete(ctx context.Context, cache, key string) error {
	all := &pb.SortedSetRemoveRequest_All{All: &pb.Condition{}}
	return c.done(ctx, methodSortedSetRemove, cache, &pb.SortedSetRemoveRequest{Key: []byte(key), Which: all})
}

// SortedSetIncrement adds to the score of an element, and returns the sum. An element that does not exist has score 0.
func (c *Client) SortedSetIncrement(
	ctx context.Context, cache, key, element string, amount float64, options ...CollectionOption,
) (float64, error) {
	all := c.collectionOptions(options)
	request := &pb.SortedSetIncrementRequest{
		Key: []byte(key), Value: []byte(element), Amount: amount, TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL,
	}
	reply, err := unary(ctx, c, methodSortedSetIncrement, cache, request, &pb.ScoreReply{})
	if err != nil {
		return 0, err
	}
	return reply.Score, nil
}

// SortedSetGetRank returns the rank of an element in an order: *RankHit or *Miss. The first element has rank 0.
func (c *Client) SortedSetGetRank(
	ctx context.Context, cache, key, element string, order Order,
) (RankResult, error) {
	request := &pb.SortedSetGetRankRequest{Key: []byte(key), Value: []byte(element), Order: pb.Order(order)}
	reply, err := unary(ctx, c, methodSortedSetGetRank, cache, request, &pb.RankReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.RankReply_Element_:
		if which.Element.Result == pb.Result_RESULT_HIT {
			return &RankHit{which.Element.Rank}, nil
		}
		return miss, nil
	case *pb.RankReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodSortedSetGetRank)
}

// SortedSetLength returns the number of elements: *LengthHit or *Miss.
func (c *Client) SortedSetLength(ctx context.Context, cache, key string) (LengthResult, error) {
	return c.length(ctx, methodSortedSetLength, cache, keyOf(key))
}
