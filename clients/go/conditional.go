package gannet

import (
	"context"

	pb "gannet.dev/client/gannetv1"
)

func (c *Client) setIfRequest(key string, value []byte, options []SetOption) *pb.SetIfRequest {
	return &pb.SetIfRequest{Key: []byte(key), Value: value, TtlMs: c.ttlOf(options)}
}

func (c *Client) setIf(ctx context.Context, cache string, request *pb.SetIfRequest) (ConditionalSetResult, error) {
	reply, err := unary(ctx, c, methodSetIf, cache, request, &pb.SetIfReply{})
	if err != nil {
		return nil, err
	}
	switch reply.Reply.(type) {
	case *pb.SetIfReply_Stored:
		return stored, nil
	case *pb.SetIfReply_NotStored:
		return notStored, nil
	}
	return nil, emptyReplyError(methodSetIf)
}

// SetIfAbsent stores a value if the key does not exist: *Stored or *NotStored.
func (c *Client) SetIfAbsent(
	ctx context.Context, cache, key string, value []byte, options ...SetOption,
) (ConditionalSetResult, error) {
	request := c.setIfRequest(key, value, options)
	request.Condition = &pb.SetIfRequest_Absent{Absent: &pb.Condition{}}
	return c.setIf(ctx, cache, request)
}

// SetIfPresent stores a value if the key exists: *Stored or *NotStored.
func (c *Client) SetIfPresent(
	ctx context.Context, cache, key string, value []byte, options ...SetOption,
) (ConditionalSetResult, error) {
	request := c.setIfRequest(key, value, options)
	request.Condition = &pb.SetIfRequest_Present{Present: &pb.Condition{}}
	return c.setIf(ctx, cache, request)
}

// SetIfEqual stores a value if the present one is equal: *Stored or *NotStored.
func (c *Client) SetIfEqual(
	ctx context.Context, cache, key string, value, equal []byte, options ...SetOption,
) (ConditionalSetResult, error) {
	request := c.setIfRequest(key, value, options)
	request.Condition = &pb.SetIfRequest_Equal{Equal: &pb.ValueCondition{Value: equal}}
	return c.setIf(ctx, cache, request)
}

// SetIfNotEqual stores a value if the present one is not notEqual, or the key does not exist: *Stored or *NotStored.
func (c *Client) SetIfNotEqual(
	ctx context.Context, cache, key string, value, notEqual []byte, options ...SetOption,
) (ConditionalSetResult, error) {
	request := c.setIfRequest(key, value, options)
	request.Condition = &pb.SetIfRequest_NotEqual{NotEqual: &pb.ValueCondition{Value: notEqual}}
	return c.setIf(ctx, cache, request)
}

// SetIfAbsentOrEqual stores a value if the key does not exist, or the present value is equal: *Stored or *NotStored.
func (c *Client) SetIfAbsentOrEqual(
	ctx context.Context, cache, key string, value, equal []byte, options ...SetOption,
) (ConditionalSetResult, error) {
	request := c.setIfRequest(key, value, options)
	request.Condition = &pb.SetIfRequest_AbsentOrEqual{AbsentOrEqual: &pb.ValueCondition{Value: equal}}
	return c.setIf(ctx, cache, request)
}

// SetIfPresentAndNotEqual stores a value if the key exists, and the present value is not notEqual: *Stored or
// *NotStored.
func (c *Client) SetIfPresentAndNotEqual(
	ctx context.Context, cache, key string, value, notEqual []byte, options ...SetOption,
) (ConditionalSetResult, error) {
	request := c.setIfRequest(key, value, options)
	request.Condition = &pb.SetIfRequest_PresentAndNotEqual{PresentAndNotEqual: &pb.ValueCondition{Value: notEqual}}
	return c.setIf(ctx, cache, request)
}

// GetWithHash returns the value of a key and its hash, for a later conditional set: *GetWithHashHit or *GetMiss.
func (c *Client) GetWithHash(ctx context.Context, cache, key string) (GetWithHashResult, error) {
	reply, err := unary(ctx, c, methodGetWithHash, cache, keyOf(key), &pb.GetWithHashReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.GetWithHashReply_Found_:
		return &GetWithHashHit{which.Found.Value, which.Found.Hash}, nil
	case *pb.GetWithHashReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodGetWithHash)
}

func (c *Client) setIfHashRequest(key string, value []byte, options []SetOption) *pb.SetIfHashRequest {
	return &pb.SetIfHashRequest{Key: []byte(key), Value: value, TtlMs: c.ttlOf(options)}
}

func (c *Client) setIfHash(ctx context.Context, cache string, request *pb.SetIfHashRequest) (HashSetResult, error) {
	reply, err := unary(ctx, c, methodSetIfHash, cache, request, &pb.SetIfHashReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.SetIfHashReply_Stored_:
		return &StoredWithHash{which.Stored.Hash}, nil
	case *pb.SetIfHashReply_NotStored:
		return notStored, nil
	}
	return nil, emptyReplyError(methodSetIfHash)
}

// SetWithHash stores a value and returns its hash: *StoredWithHash.
func (c *Client) SetWithHash(
	ctx context.Context, cache, key string, value []byte, options ...SetOption,
) (HashSetResult, error) {
	request := c.setIfHashRequest(key, value, options)
	request.Condition = &pb.SetIfHashRequest_Unconditional{Unconditional: &pb.Condition{}}
	return c.setIfHash(ctx, cache, request)
}

// SetIfPresentAndHashEqual stores a value if the key exists, and the hash of the present value is hashEqual:
// *StoredWithHash or *NotStored.
func (c *Client) SetIfPresentAndHashEqual(
	ctx context.Context, cache, key string, value, hashEqual []byte, options ...SetOption,
) (HashSetResult, error) {
	request, condition := c.setIfHashRequest(key, value, options), &pb.HashCondition{Hash: hashEqual}
	request.Condition = &pb.SetIfHashRequest_PresentAndHashEqual{PresentAndHashEqual: condition}
	return c.setIfHash(ctx, cache, request)
}

// SetIfPresentAndHashNotEqual stores a value if the key exists, and the hash of the present value is not
// hashNotEqual: *StoredWithHash or *NotStored.
func (c *Client) SetIfPresentAndHashNotEqual(
	ctx context.Context, cache, key string, value, hashNotEqual []byte, options ...SetOption,
) (HashSetResult, error) {
	request, condition := c.setIfHashRequest(key, value, options), &pb.HashCondition{Hash: hashNotEqual}
	request.Condition = &pb.SetIfHashRequest_PresentAndNotHashEqual{PresentAndNotHashEqual: condition}
	return c.setIfHash(ctx, cache, request)
}

// SetIfAbsentOrHashEqual stores a value if the key does not exist, or the hash of the present value is hashEqual:
// *StoredWithHash or *NotStored.
func (c *Client) SetIfAbsentOrHashEqual(
	ctx context.Context, cache, key string, value, hashEqual []byte, options ...SetOption,
) (HashSetResult, error) {
	request, condition := c.setIfHashRequest(key, value, options), &pb.HashCondition{Hash: hashEqual}
	request.Condition = &pb.SetIfHashRequest_AbsentOrHashEqual{AbsentOrHashEqual: condition}
	return c.setIfHash(ctx, cache, request)
}

// SetIfAbsentOrHashNotEqual stores a value if the key does not exist, or the hash of the present value is not
// hashNotEqual: *StoredWithHash or *NotStored.
func (c *Client) SetIfAbsentOrHashNotEqual(
	ctx context.Context, cache, key string, value, hashNotEqual []byte, options ...SetOption,
) (HashSetResult, error) {
	request, condition := c.setIfHashRequest(key, value, options), &pb.HashCondition{Hash: hashNotEqual}
	request.Condition = &pb.SetIfHashRequest_AbsentOrNotHashEqual{AbsentOrNotHashEqual: condition}
	return c.setIfHash(ctx, cache, request)
}
