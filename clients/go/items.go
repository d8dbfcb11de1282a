package gannet

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"

	pb "gannet.dev/client/gannetv1"
)

// Get returns the value of a key: *GetHit or *GetMiss.
//
// With Configuration.WithNearCache, a copy of the value is returned if the client has one.
func (c *Client) Get(ctx context.Context, cache, key string) (GetResult, error) {
	near := c.engine.near
	if near == nil {
		return c.getFromServer(ctx, cache, key)
	}
	value, read := near.find(cache, key)
	if value != nil {
		return &GetHit{value}, nil
	}
	result, err := c.getFromServer(ctx, cache, key)
	hit, isHit := result.(*GetHit)
	if isHit {
		// An empty value is a copy too.
		value = append([]byte{}, hit.Value...)
	}
	near.store(cache, key, read, value)
	return result, err
}

func (c *Client) getFromServer(ctx context.Context, cache, key string) (GetResult, error) {
	reply, err := unary(ctx, c, methodGet, cache, &pb.GetRequest{Key: []byte(key)}, &pb.GetReply{})
	if err != nil {
		return nil, err
	}
	return getResult(methodGet, reply)
}

func getResult(m *method, reply *pb.GetReply) (GetResult, error) {
	switch reply.Result {
	case pb.Result_RESULT_HIT:
		return &GetHit{reply.Value}, nil
	case pb.Result_RESULT_MISS:
		return miss, nil
	}
	return nil, badReply(m.name, fmt.Sprintf("the result is %d", reply.Result))
}

// Set stores a value.
func (c *Client) Set(ctx context.Context, cache, key string, value []byte, options ...SetOption) error {
	request := &pb.SetRequest{Key: []byte(key), Value: value, TtlMs: c.ttlOf(options)}
	reply, err := unary(ctx, c, methodSet, cache, request, &pb.SetReply{})
	if err != nil {
		return err
	}
	return setResult(methodSet, reply)
}

func setResult(m *method, reply *pb.SetReply) error {
	if reply.Result != pb.Result_RESULT_OK {
		return badReply(m.name, fmt.Sprintf("the result is %d", reply.Result))
	}
	return nil
}

// receiveAll reads all replies of a stream, which are as many as the items of the batch.
func receiveAll[R any](m *method, stream grpc.ServerStreamingClient[R], items int) ([]*R, error) {
	replies := make([]*R, 0, items)
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if replies = append(replies, reply); len(replies) > items {
			break
		}
	}
	if len(replies) != items {
		return nil, badReply(m.name, fmt.Sprintf("%d replies to a batch of %d", len(replies), items))
	}
	return replies, nil
}

// GetBatch returns the values of several keys in one request: one result for each key, in the order of the keys. Its
// place in flight is one.
func (c *Client) GetBatch(ctx context.Context, cache string, keys ...string) ([]GetResult, error) {
	request := &pb.GetBatchRequest{Items: make([]*pb.GetRequest, len(keys))}
	for at, key := range keys {
		request.Items[at] = &pb.GetRequest{Key: []byte(key)}
	}
	var replies []*pb.GetReply
	_, err := c.engine.call(ctx, methodGetBatch, cache, request, nil,
		func(ctx context.Context, channel *grpc.ClientConn) error {
			stream, err := pb.NewCacheClient(channel).GetBatch(ctx, request)
			if err != nil {
				return err
			}
			replies, err = receiveAll(methodGetBatch, stream, len(keys))
			return err
		})
	if err != nil {
		return nil, err
	}
	results := make([]GetResult, len(keys))
	for at, reply := range replies {
		if results[at], err = getResult(methodGetBatch, reply); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Item is a key with its value.
type Item struct {
	Key   string
	Value []byte
}

// SetBatch stores several values in one request, in their order. Its place in flight is one.
func (c *Client) SetBatch(ctx context.Context, cache string, items []Item, options ...SetOption) error {
	request := &pb.SetBatchRequest{Items: make([]*pb.SetRequest, len(items))}
	ttl := c.ttlOf(options)
	for at, item := range items {
		request.Items[at] = &pb.SetRequest{Key: []byte(item.Key), Value: item.Value, TtlMs: ttl}
	}
	var replies []*pb.SetReply
	_, err := c.engine.call(ctx, methodSetBatch, cache, request, nil,
		func(ctx context.Context, channel *grpc.ClientConn) error {
			stream, err := pb.NewCacheClient(channel).SetBatch(ctx, request)
			if err != nil {
				return err
			}
			replies, err = receiveAll(methodSetBatch, stream, len(items))
			return err
		})
	if err != nil {
		return err
	}
	for _, reply := range replies {
		if err := setResult(methodSetBatch, reply); err != nil {
			return err
		}
	}
	return nil
}

func keyOf(key string) *pb.KeyRequest { return &pb.KeyRequest{Key: []byte(key)} }

// Delete deletes an item of any type. A key that does not exist is no error.
func (c *Client) Delete(ctx context.Context, cache, key string) error {
	return c.done(ctx, methodDelete, cache, keyOf(key))
}

// KeysExist returns one bool for each key, in the order of the keys.
func (c *Client) KeysExist(ctx context.Context, cache string, keys ...string) ([]bool, error) {
	request := &pb.KeysExistRequest{Keys: bytesOf(keys)}
	reply, err := unary(ctx, c, methodKeysExist, cache, request, &pb.KeysExistReply{})
	if err != nil {
		return nil, err
	}
	if len(reply.Exists) != len(keys) {
		return nil, badReply(methodKeysExist.name, fmt.Sprintf("%d replies to %d keys", len(reply.Exists), len(keys)))
	}
	return reply.Exists, nil
}

// Increment adds to a decimal number, and returns the sum. A key that does not exist counts as 0.
func (c *Client) Increment(
	ctx context.Context, cache, key string, amount int64, options ...SetOption,
) (int64, error) {
	request := &pb.IncrementRequest{Key: []byte(key), Amount: amount, TtlMs: c.ttlOf(options)}
	reply, err := unary(ctx, c, methodIncrement, cache, request, &pb.IncrementReply{})
	if err != nil {
		return 0, err
	}
	return reply.Value, nil
}

// GetTTL returns the time to live of an item: *TTLHit or *Miss.
func (c *Client) GetTTL(ctx context.Context, cache, key string) (TTLResult, error) {
	reply, err := unary(ctx, c, methodGetTTL, cache, keyOf(key), &pb.ItemTtlReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.ItemTtlReply_Found_:
		return ttlHit(which.Found.RemainingMs), nil
	case *pb.ItemTtlReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodGetTTL)
}

// ttlHit returns the result for a time to live of the server, in which the largest 63-bit number stands for none.
func ttlHit(ms uint64) *TTLHit {
	if ms >= math.MaxInt64 {
		return &TTLHit{}
	}
	longest := uint64(math.MaxInt64 / time.Millisecond)
	return &TTLHit{time.Duration(min(ms, longest)) * time.Millisecond, true}
}

// GetType returns the type of an item: *TypeHit or *Miss.
func (c *Client) GetType(ctx context.Context, cache, key string) (TypeResult, error) {
	reply, err := unary(ctx, c, methodGetType, cache, keyOf(key), &pb.ItemTypeReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.ItemTypeReply_Found_:
		return &TypeHit{ItemType(which.Found.ItemType)}, nil
	case *pb.ItemTypeReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodGetType)
}

// UpdateTTL sets the time to live of an item: *Stored or *Miss.
func (c *Client) UpdateTTL(ctx context.Context, cache, key string, ttl time.Duration) (UpdateTTLResult, error) {
	change := &pb.UpdateTtlRequest_OverwriteToMs{OverwriteToMs: milliseconds(ttl)}
	return c.updateTTL(ctx, cache, &pb.UpdateTtlRequest{Key: []byte(key), Change: change})
}

// IncreaseTTL sets the time to live of an item if it is below ttl: *Stored, *NotStored or *Miss.
func (c *Client) IncreaseTTL(ctx context.Context, cache, key string, ttl time.Duration) (UpdateTTLResult, error) {
	change := &pb.UpdateTtlRequest_IncreaseToMs{IncreaseToMs: milliseconds(ttl)}
	return c.updateTTL(ctx, cache, &pb.UpdateTtlRequest{Key: []byte(key), Change: change})
}

// DecreaseTTL sets the time to live of an item if it is above ttl: *Stored, *NotStored or *Miss.
func (c *Client) DecreaseTTL(ctx context.Context, cache, key string, ttl time.Duration) (UpdateTTLResult, error) {
	change := &pb.UpdateTtlRequest_DecreaseToMs{DecreaseToMs: milliseconds(ttl)}
	return c.updateTTL(ctx, cache, &pb.UpdateTtlRequest{Key: []byte(key), Change: change})
}

func (c *Client) updateTTL(ctx context.Context, cache string, request *pb.UpdateTtlRequest) (UpdateTTLResult, error) {
	reply, err := unary(ctx, c, methodUpdateTTL, cache, request, &pb.UpdateTtlReply{})
	if err != nil {
		return nil, err
	}
	switch reply.Reply.(type) {
	case *pb.UpdateTtlReply_Set:
		return stored, nil
	case *pb.UpdateTtlReply_NotSet:
		return notStored, nil
	case *pb.UpdateTtlReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodUpdateTTL)
}

func emptyReplyError(m *method) *Error { return badReply(m.name, "the reply is empty") }
