package gannet

import (
	"context"
	"time"

	pb "gannet.dev/client/gannetv1"
)

// LeaseResult is *LeaseHit, *LeaseWon or *LeaseWait.
type LeaseResult interface{ isLeaseResult() }

// LeaseHit is a current value.
type LeaseHit struct{ Value []byte }

func (*LeaseHit) isLeaseResult() {}

// ValueString returns the value as text.
func (h *LeaseHit) ValueString() string { return string(h.Value) }

// LeaseWon shows that this client computes the value, and passes Token to LeaseSet.
type LeaseWon struct {
	// Stale is the old value, if HasStale is true.
	Stale    []byte
	HasStale bool
	Token    uint64
}

func (*LeaseWon) isLeaseResult() {}

// LeaseWait shows that another client computes the value. The caller uses the old one, or asks again later.
type LeaseWait struct {
	// Stale is the old value, if HasStale is true.
	Stale    []byte
	HasStale bool
}

func (*LeaseWait) isLeaseResult() {}

// LeaseOption changes LeaseGet and GetOrCompute. Recache and LeaseTime are such options.
type LeaseOption interface{ applyLease(*leaseQuery) }

// leaseQuery is the request of LeaseGet, with the reason why it cannot be sent.
type leaseQuery struct {
	*pb.LeaseGetRequest
	refused *refusal
}

// Recache is the time before the end of a value from which one client computes it again.
type Recache time.Duration

func (r Recache) applyLease(query *leaseQuery) {
	if query.RecacheMs = milliseconds(time.Duration(r)); query.RecacheMs == 0 {
		query.refused = refusalShort("Recache", time.Duration(r), "leave it out for none")
	}
}

// LeaseTime is the time for which the winner may compute the value; 10 s without this option.
type LeaseTime time.Duration

func (l LeaseTime) applyLease(query *leaseQuery) {
	if query.LeaseMs = milliseconds(time.Duration(l)); query.LeaseMs == 0 {
		query.refused = refusalShort("LeaseTime", time.Duration(l), "leave it out for 10 s")
	}
}

// LeaseGet returns the value of a key, or decides which client computes it: *LeaseHit, *LeaseWon or *LeaseWait.
func (c *Client) LeaseGet(ctx context.Context, cache, key string, options ...LeaseOption) (LeaseResult, error) {
	request := &pb.LeaseGetRequest{Key: []byte(key)}
	query := leaseQuery{request, nil}
	for _, each := range options {
		each.applyLease(&query)
	}
	if query.refused != nil {
		return nil, query.refused.error(methodLeaseGet.name)
	}
	reply, err := unary(ctx, c, methodLeaseGet, cache, request, &pb.LeaseGetReply{})
	if err != nil {
		return nil, err
	}
	switch reply.State {
	case pb.LeaseState_LEASE_HIT:
		return &LeaseHit{reply.Value}, nil
	case pb.LeaseState_LEASE_WON:
		return &LeaseWon{reply.Value, reply.Value != nil, reply.Token}, nil
	case pb.LeaseState_LEASE_WAIT:
		return &LeaseWait{reply.Value, reply.Value != nil}, nil
	}
	return nil, emptyReplyError(methodLeaseGet)
}

// LeaseSet stores the value for which this client won a lease: *Stored, or *NotStored if the lease has ended or the key
// was deleted since.
func (c *Client) LeaseSet(
	ctx context.Context, cache, key string, token uint64, value []byte, options ...SetOption,
) (ConditionalSetResult, error) {
	request := &pb.LeaseSetRequest{Key: []byte(key), Token: token, Value: value, TtlMs: c.ttlOf(options)}
	reply, err := unary(ctx, c, methodLeaseSet, cache, request, &pb.LeaseSetReply{})
	if err != nil {
		return nil, err
	}
	if reply.Stored {
		return stored, nil
	}
	return notStored, nil
}

// LeaseStale marks a value stale: clients get it as the old value until one of them has computed it again. The stale
// value lives for keep, or for its own time to live if keep is 0. The result is *Found or *Miss.
func (c *Client) LeaseStale(ctx context.Context, cache, key string, keep time.Duration) (FoundResult, error) {
	request := &pb.LeaseStaleRequest{Key: []byte(key), TtlMs: milliseconds(keep)}
	if request.TtlMs == 0 && keep != 0 {
		return nil, refusalShort("keep", keep, "pass 0 for its own time to live").error(methodLeaseStale.name)
	}
	reply, err := unary(ctx, c, methodLeaseStale, cache, request, &pb.LeaseStaleReply{})
	if err != nil {
		return nil, err
	}
	if reply.Found {
		return &Found{}, nil
	}
	return miss, nil
}

// GetOrCompute returns the value of a key. If there is none, one of all clients that ask for it computes and stores it,
// and the others wait for it, or return the stale value if there is one. An error of compute is returned as it is; the
// lease of the server then ends by its time. The value lives for ttl. The deadline of the configuration or of the
// context, whichever is earlier, bounds all calls and waits together; that of the configuration leaves out compute.
func (c *Client) GetOrCompute(
	ctx context.Context, cache, key string, ttl time.Duration,
	compute func(context.Context) ([]byte, error), options ...LeaseOption,
) ([]byte, error) {
	waits := ExponentialBackoff{Initial: 2 * time.Millisecond, Max: 100 * time.Millisecond}
	end := time.Now().Add(c.engine.configuration.deadline)
	limited, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for delay := time.Duration(0); ; {
		result, err := c.LeaseGet(limited, cache, key, options...)
		if delay > 0 && isLate(err) {
			return nil, leaseWaitError(ctx, key)
		}
		if err != nil {
			return nil, err
		}
		switch result := result.(type) {
		case *LeaseHit:
			return result.Value, nil
		case *LeaseWon:
			remaining := time.Until(end)
			value, err := compute(ctx)
			if err == nil {
				setting, cancel := context.WithTimeout(ctx, remaining)
				defer cancel()
				_, err = c.LeaseSet(setting, cache, key, result.Token, value, TTL(ttl))
			}
			return value, err
		case *LeaseWait:
			if result.HasStale {
				return result.Stale, nil
			}
		}
		delay, _ = waits.Delay(0, delay)
		if !sleep(limited, delay) {
			return nil, leaseWaitError(ctx, key)
		}
	}
}

// isLate returns true for the error of a call whose deadline has passed.
func isLate(err error) bool {
	late, isOwn := err.(*Error)
	return isOwn && (late.Code == CodeTimeout || late.Code == CodeClientQueueTimeout)
}

// leaseWaitError returns the error of a wait for the value of another client, which the deadline or the caller ended.
func leaseWaitError(ctx context.Context, key string) *Error {
	if ctx.Err() == context.Canceled {
		return refusalCancelled.error(methodLeaseGet.name)
	}
	return newError(CodeTimeout, "cannot get '"+key+"'", "the client that computes it has not stored it",
		"raise the deadline of the configuration or of the context, or lower LeaseTime", context.DeadlineExceeded)
}
