package gannet

import (
	"context"

	"google.golang.org/protobuf/proto"

	pb "gannet.dev/client/gannetv1"
)

// ListPushFront adds an element at the front, and returns the length of the list. A list above MaxLength is cut at
// the back.
func (c *Client) ListPushFront(
	ctx context.Context, cache, key string, value []byte, options ...ListOption,
) (int, error) {
	return c.listLength(ctx, methodListPushFront, cache, c.push(key, value, options))
}

// ListPushBack adds an element at the back, and returns the length of the list. A list above MaxLength is cut at the
// front.
func (c *Client) ListPushBack(
	ctx context.Context, cache, key string, value []byte, options ...ListOption,
) (int, error) {
	return c.listLength(ctx, methodListPushBack, cache, c.push(key, value, options))
}

func (c *Client) push(key string, value []byte, options []ListOption) *pb.ListPushRequest {
	all := c.listOptions(options)
	return &pb.ListPushRequest{
		Key: []byte(key), Value: value, TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL, LengthMax: all.lengthMax,
	}
}

// ListConcatenateFront adds elements at the front, in their order, and returns the length of the list. A list above
// MaxLength is cut at the back.
func (c *Client) ListConcatenateFront(
	ctx context.Context, cache, key string, values [][]byte, options ...ListOption,
) (int, error) {
	return c.listLength(ctx, methodListConcatenateFront, cache, c.concatenate(key, values, options))
}

// ListConcatenateBack adds elements at the back, in their order, and returns the length of the list. A list above
// MaxLength is cut at the front.
func (c *Client) ListConcatenateBack(
	ctx context.Context, cache, key string, values [][]byte, options ...ListOption,
) (int, error) {
	return c.listLength(ctx, methodListConcatenateBack, cache, c.concatenate(key, values, options))
}

func (c *Client) concatenate(key string, values [][]byte, options []ListOption) *pb.ListConcatenateRequest {
	all := c.listOptions(options)
	return &pb.ListConcatenateRequest{
		Key: []byte(key), Values: values, TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL, LengthMax: all.lengthMax,
	}
}

func (c *Client) listLength(ctx context.Context, m *method, cache string, request proto.Message) (int, error) {
	reply, err := unary(ctx, c, m, cache, request, &pb.ListLengthReply{})
	if err != nil {
		return 0, err
	}
	return int(reply.Length), nil
}

// ListPopFront removes the first element and returns it: *PopHit or *Miss.
func (c *Client) ListPopFront(ctx context.Context, cache, key string) (PopResult, error) {
	return c.pop(ctx, methodListPopFront, cache, key)
}

// ListPopBack removes the last element and returns it: *PopHit or *Miss.
func (c *Client) ListPopBack(ctx context.Context, cache, key string) (PopResult, error) {
	return c.pop(ctx, methodListPopBack, cache, key)
}

func (c *Client) pop(ctx context.Context, m *method, cache, key string) (PopResult, error) {
	reply, err := unary(ctx, c, m, cache, keyOf(key), &pb.ListPopReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.ListPopReply_Found_:
		return &PopHit{which.Found.Value, int(which.Found.Length)}, nil
	case *pb.ListPopReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(m)
}

// ListRemoveValue removes all elements that are equal to value, and returns the length of the rest: *LengthHit or
// *Miss.
func (c *Client) ListRemoveValue(ctx context.Context, cache, key string, value []byte) (LengthResult, error) {
	return c.length(ctx, methodListRemove, cache, &pb.ListRemoveRequest{Key: []byte(key), Value: value})
}

// ListFetch returns the elements in a range: *ListHit or *Miss.
//
//	lastTwo, err := client.ListFetch(ctx, "default", "queue", gannet.From(-2))
func (c *Client) ListFetch(ctx context.Context, cache, key string, elements Range) (ListResult, error) {
	request := &pb.ListFetchRequest{Key: []byte(key)}
	if elements.hasFirst {
		request.From = &pb.ListFetchRequest_First{First: elements.first}
	} else {
		request.From = &pb.ListFetchRequest_UnboundedStart{UnboundedStart: &pb.Condition{}}
	}
	if elements.hasEnd {
		request.To = &pb.ListFetchRequest_End{End: elements.end}
	} else {
		request.To = &pb.ListFetchRequest_UnboundedEnd{UnboundedEnd: &pb.Condition{}}
	}
	found, exists, err := c.elements(ctx, methodListFetch, cache, request)
	if err != nil {
		return nil, err
	}
	if !exists {
		return miss, nil
	}
	return &ListHit{found}, nil
}

// ListRetain removes all elements outside of a range, and returns the length of the rest: *LengthHit or *Miss.
func (c *Client) ListRetain(
	ctx context.Context, cache, key string, elements Range, options ...CollectionOption,
) (LengthResult, error) {
	all := c.collectionOptions(options)
	request := &pb.ListRetainRequest{Key: []byte(key), TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL}
	if elements.hasFirst {
		request.From = &pb.ListRetainRequest_First{First: elements.first}
	} else {
		request.From = &pb.ListRetainRequest_UnboundedStart{UnboundedStart: &pb.Condition{}}
	}
	if elements.hasEnd {
		request.To = &pb.ListRetainRequest_End{End: elements.end}
	} else {
		request.To = &pb.ListRetainRequest_UnboundedEnd{UnboundedEnd: &pb.Condition{}}
	}
	return c.length(ctx, methodListRetain, cache, request)
}

// ListLength returns the number of elements: *LengthHit or *Miss.
func (c *Client) ListLength(ctx context.Context, cache, key string) (LengthResult, error) {
	return c.length(ctx, methodListLength, cache, keyOf(key))
}
