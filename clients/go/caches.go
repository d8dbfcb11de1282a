package gannet

import (
	"context"

	pb "gannet.dev/client/gannetv1"
)

// CreateCache creates a cache. The error CodeAlreadyExists shows that it exists.
func (c *Client) CreateCache(ctx context.Context, name string) error {
	return c.done(ctx, methodCreateCache, "", &pb.CacheName{Name: name})
}

// DeleteCache deletes a cache and its items.
func (c *Client) DeleteCache(ctx context.Context, name string) error {
	return c.done(ctx, methodDeleteCache, "", &pb.CacheName{Name: name})
}

// ListCaches returns the names of all caches.
func (c *Client) ListCaches(ctx context.Context) ([]string, error) {
	reply, err := unary(ctx, c, methodListCaches, "", &pb.ListCachesRequest{}, &pb.ListCachesReply{})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(reply.Caches))
	for at, each := range reply.Caches {
		names[at] = each.Name
	}
	return names, nil
}

// FlushCache deletes all items of a cache.
func (c *Client) FlushCache(ctx context.Context, name string) error {
	return c.done(ctx, methodFlushCache, "", &pb.CacheName{Name: name})
}
