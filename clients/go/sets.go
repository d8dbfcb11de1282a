package gannet

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "gannet.dev/client/gannetv1"
)

// length executes a call that replies with the number of elements of a collection.
func (c *Client) length(ctx context.Context, m *method, cache string, request proto.Message) (LengthResult, error) {
	reply, err := unary(ctx, c, m, cache, request, &pb.LengthReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.LengthReply_Found_:
		return &LengthHit{int(which.Found.Length)}, nil
	case *pb.LengthReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(m)
}

// elements executes a call that replies with elements of a collection. It returns false if the collection does not
// exist.
func (c *Client) elements(
	ctx context.Context, m *method, cache string, request proto.Message,
) ([][]byte, bool, error) {
	reply, err := unary(ctx, c, m, cache, request, &pb.ElementsReply{})
	if err != nil {
		return nil, false, err
	}
	switch which := reply.Reply.(type) {
	case *pb.ElementsReply_Found_:
		return which.Found.Elements, true, nil
	case *pb.ElementsReply_Missing:
		return nil, false, nil
	}
	return nil, false, emptyReplyError(m)
}

func (c *Client) setElements(
	ctx context.Context, m *method, cache string, request proto.Message,
) (SetResult, error) {
	elements, found, err := c.elements(ctx, m, cache, request)
	if err != nil {
		return nil, err
	}
	if !found {
		return miss, nil
	}
	return &SetHit{stringsOf(elements)}, nil
}

// SetFetch returns all elements: *SetHit or *Miss.
func (c *Client) SetFetch(ctx context.Context, cache, key string) (SetResult, error) {
	return c.setElements(ctx, methodSetFetch, cache, keyOf(key))
}

// SetSample returns at most count random elements: *SetHit or *Miss.
func (c *Client) SetSample(ctx context.Context, cache, key string, count uint64) (SetResult, error) {
	return c.setElements(ctx, methodSetSample, cache, &pb.CountRequest{Key: []byte(key), Count: count})
}

// SetPop removes at most count random elements, and returns them: *SetHit or *Miss.
func (c *Client) SetPop(ctx context.Context, cache, key string, count uint64) (SetResult, error) {
	return c.setElements(ctx, methodSetPop, cache, &pb.CountRequest{Key: []byte(key), Count: count})
}

// SetAddElements adds elements.
func (c *Client) SetAddElements(
	ctx context.Context, cache, key string, elements []string, options ...CollectionOption,
) error {
	all := c.collectionOptions(options)
	return c.done(ctx, methodSetUnion, cache, &pb.SetUnionRequest{
		Key: []byte(key), Elements: bytesOf(elements), TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL,
	})
}

// SetRemoveElements removes elements: *Found, or *Miss if the set does not exist. An element that does not exist is
// no error.
func (c *Client) SetRemoveElements(ctx context.Context, cache, key string, elements ...string) (FoundResult, error) {
	some := &pb.SetDifferenceRequest_Elements{Elements: bytesOf(elements)}
	return c.setDifference(ctx, methodSetRemove, cache, &pb.SetDifferenceRequest{
		Key: []byte(key),
		Difference: &pb.SetDifferenceRequest_Subtrahend_{Subtrahend: &pb.SetDifferenceRequest_Subtrahend{
			Which: &pb.SetDifferenceRequest_Subtrahend_Elements{Elements: some},
		}},
	})
}

// SetDelete removes all elements, and with them the set: *Found, or *Miss if the set does not exist. An item of
// another type is an error.
func (c *Client) SetDelete(ctx context.Context, cache, key string) (FoundResult, error) {
	return c.setDifference(ctx, methodSetRemove, cache, &pb.SetDifferenceRequest{
		Key: []byte(key),
		Difference: &pb.SetDifferenceRequest_Subtrahend_{Subtrahend: &pb.SetDifferenceRequest_Subtrahend{
			Which: &pb.SetDifferenceRequest_Subtrahend_All{All: &pb.Condition{}},
		}},
	})
}

// SetSubtractFrom replaces the set by the elements of minuend that it does not contain: *Found, or *Miss if the set
// does not exist.
func (c *Client) SetSubtractFrom(ctx context.Context, cache, key string, minuend ...string) (FoundResult, error) {
	elements := &pb.SetDifferenceRequest_Elements{Elements: bytesOf(minuend)}
	return c.setDifference(ctx, methodSetSubtractFrom, cache, &pb.SetDifferenceRequest{
		Key: []byte(key), Difference: &pb.SetDifferenceRequest_Minuend{Minuend: elements},
	})
}

func (c *Client) setDifference(
	ctx context.Context, m *method, cache string, request *pb.SetDifferenceRequest,
) (FoundResult, error) {
	reply, err := unary(ctx, c, m, cache, request, &pb.FoundReply{})
	if err != nil {
		return nil, err
	}
	switch reply.Reply.(type) {
	case *pb.FoundReply_Found:
		return &Found{}, nil
	case *pb.FoundReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(m)
}

// SetContains returns one bool for each element, in their order: *ContainsHit or *Miss.
func (c *Client) SetContains(ctx context.Context, cache, key string, elements ...string) (ContainsResult, error) {
	request := &pb.FieldsRequest{Key: []byte(key), Fields: bytesOf(elements)}
	reply, err := unary(ctx, c, methodSetContains, cache, request, &pb.SetContainsReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.SetContainsReply_Found_:
		if number := len(which.Found.Contained); number != len(elements) {
			return nil, badReply(methodSetContains.name, fmt.Sprintf("%d replies to %d elements", number, len(elements)))
		}
		return &ContainsHit{which.Found.Contained}, nil
	case *pb.SetContainsReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodSetContains)
}

// SetLength returns the number of elements: *LengthHit or *Miss.
func (c *Client) SetLength(ctx context.Context, cache, key string) (LengthResult, error) {
	return c.length(ctx, methodSetLength, cache, keyOf(key))
}
