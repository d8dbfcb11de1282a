package gannet

import (
	"context"
	"fmt"

	pb "gannet.dev/client/gannetv1"
)

// DictionaryGetField returns the value of one field: *GetHit or *GetMiss.
func (c *Client) DictionaryGetField(ctx context.Context, cache, key, field string) (GetResult, error) {
	result, err := c.DictionaryGetFields(ctx, cache, key, field)
	if err != nil {
		return nil, err
	}
	if hit, isHit := result.(*DictionaryFieldsHit); isHit {
		return hit.Results[0], nil
	}
	return miss, nil
}

// DictionaryGetFields returns the values of several fields, in their order: *DictionaryFieldsHit or *Miss.
func (c *Client) DictionaryGetFields(
	ctx context.Context, cache, key string, fields ...string,
) (DictionaryFieldsResult, error) {
	request := &pb.FieldsRequest{Key: []byte(key), Fields: bytesOf(fields)}
	reply, err := unary(ctx, c, methodDictionaryGet, cache, request, &pb.DictionaryGetReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.DictionaryGetReply_Found_:
		if items := len(which.Found.Items); items != len(fields) {
			return nil, badReply(methodDictionaryGet.name, fmt.Sprintf("%d values of %d fields", items, len(fields)))
		}
		hit := &DictionaryFieldsHit{make([]GetResult, len(fields))}
		for at, item := range which.Found.Items {
			if hit.Results[at], err = getResult(methodDictionaryGet, item); err != nil {
				return nil, err
			}
		}
		return hit, nil
	case *pb.DictionaryGetReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodDictionaryGet)
}

// DictionaryFetch returns all fields with their values: *DictionaryHit or *Miss.
func (c *Client) DictionaryFetch(ctx context.Context, cache, key string) (DictionaryResult, error) {
	reply, err := unary(ctx, c, methodDictionaryFetch, cache, keyOf(key), &pb.DictionaryFetchReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.DictionaryFetchReply_Found_:
		hit := &DictionaryHit{make(map[string][]byte, len(which.Found.Items))}
		for _, item := range which.Found.Items {
			hit.Fields[string(item.Field)] = item.Value
		}
		return hit, nil
	case *pb.DictionaryFetchReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodDictionaryFetch)
}

// DictionarySetField sets one field.
func (c *Client) DictionarySetField(
	ctx context.Context, cache, key, field string, value []byte, options ...CollectionOption,
) error {
	return c.DictionarySetFields(ctx, cache, key, map[string][]byte{field: value}, options...)
}

// DictionarySetFields sets several fields.
func (c *Client) DictionarySetFields(
	ctx context.Context, cache, key string, fields map[string][]byte, options ...CollectionOption,
) error {
	all := c.collectionOptions(options)
	items := make([]*pb.FieldValue, 0, len(fields))
	for field, value := range fields {
		items = append(items, &pb.FieldValue{Field: []byte(field), Value: value})
	}
	return c.done(ctx, methodDictionarySet, cache, &pb.DictionarySetRequest{
		Key: []byte(key), Items: items, TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL,
	})
}

// DictionaryIncrement adds to the decimal number in a field, and returns the sum. A field that does not exist counts as
// 0.
func (c *Client) DictionaryIncrement(
	ctx context.Context, cache, key, field string, amount int64, options ...CollectionOption,
) (int64, error) {
	all := c.collectionOptions(options)
	request := &pb.DictionaryIncrementRequest{
		Key: []byte(key), Field: []byte(field), Amount: amount, TtlMs: all.ttlMs, RefreshTtl: !all.keepTTL,
	}
	reply, err := unary(ctx, c, methodDictionaryIncrement, cache, request, &pb.IncrementReply{})
	if err != nil {
		return 0, err
	}
	return reply.Value, nil
}

// DictionaryRemoveFields removes several fields. A field that does not exist is no error.
func (c *Client) DictionaryRemoveFields(ctx context.Context, cache, key string, fields ...string) error {
	some := &pb.DictionaryDeleteRequest_Some{Some: &pb.DictionaryDeleteRequest_Fields{Fields: bytesOf(fields)}}
	return c.done(ctx, methodDictionaryDelete, cache, &pb.DictionaryDeleteRequest{Key: []byte(key), Which: some})
}

// DictionaryDelete removes all fields, and with them the dictionary. An item of another type is an error.
func (c *Client) DictionaryDelete(ctx context.Context, cache, key string) error {
	all := &pb.DictionaryDeleteRequest_All{All: &pb.Condition{}}
	return c.done(ctx, methodDictionaryDelete, cache, &pb.DictionaryDeleteRequest{Key: []byte(key), Which: all})
}

// DictionaryLength returns the number of fields: *LengthHit or *Miss.
func (c *Client) DictionaryLength(ctx context.Context, cache, key string) (LengthResult, error) {
	return c.length(ctx, methodDictionaryLength, cache, keyOf(key))
}
