package gannet

import "time"

// SetOption changes a call that stores an item. TTL is one.
type SetOption interface{ applySet(*options) }

// CollectionOption changes a call that writes to a dictionary, set or sorted set. TTL and KeepTTL are such options.
type CollectionOption interface{ applyCollection(*options) }

// ListOption changes a call that writes to a list. TTL, KeepTTL and MaxLength are such options.
type ListOption interface{ applyList(*options) }

// TTL is the time to live of the item that a call writes, instead of the client's default. Each write to a collection
// sets it again, unless KeepTTL is passed too.
//
//	err := client.Set(ctx, "default", "greeting", []byte("hello"), gannet.TTL(time.Minute))
type TTL time.Duration

func (t TTL) applySet(o *options)        { o.ttlMs = milliseconds(time.Duration(t)) }
func (t TTL) applyCollection(o *options) { t.applySet(o) }
func (t TTL) applyList(o *options)       { t.applySet(o) }

// KeepTTL is the option by which a write to a collection that exists does not change its time to live.
var KeepTTL keepTTL

type keepTTL struct{}

func (keepTTL) applyCollection(o *options) { o.keepTTL = true }
func (keepTTL) applyList(o *options)       { o.keepTTL = true }

// MaxLength is the maximum length of the list. A list that would exceed it is cut at the other end.
type MaxLength uint32

func (m MaxLength) applyList(o *options) { o.lengthMax = uint32(m) }

type options struct {
	ttlMs     uint64
	lengthMax uint32
	keepTTL   bool
}

func (c *Client) ttlOf(given []SetOption) uint64 {
	if len(given) == 0 {
		return c.defaultTTL
	}
	all := options{ttlMs: c.defaultTTL}
	for _, each := range given {
		each.applySet(&all)
	}
	return all.ttlMs
}

func (c *Client) collectionOptions(given []CollectionOption) options {
	all := options{ttlMs: c.defaultTTL}
	for _, each := range given {
		each.applyCollection(&all)
	}
	return all
}

func (c *Client) listOptions(given []ListOption) options {
	all := options{ttlMs: c.defaultTTL}
	for _, each := range given {
		each.applyList(&all)
	}
	return all
}

// milliseconds returns a time to live, rounded down, at least 0. The server refuses 0.
func milliseconds(ttl time.Duration) uint64 { return uint64(max(0, ttl/time.Millisecond)) }
