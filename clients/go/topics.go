package gannet

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"

	pb "gannet.dev/client/gannetv1"
)

// Publish sends a message to the subscribers of a topic. A message to a topic without subscribers is not stored. It is
// not repeated after a failure, because subscribers may have received it.
func (c *Client) Publish(ctx context.Context, cache, topic string, value []byte) error {
	return c.publish(ctx, cache, topic, &pb.TopicValue{Kind: &pb.TopicValue_Binary{Binary: value}})
}

// PublishText sends a message that is a text of UTF-8.
func (c *Client) PublishText(ctx context.Context, cache, topic, value string) error {
	return c.publish(ctx, cache, topic, &pb.TopicValue{Kind: &pb.TopicValue_Text{Text: value}})
}

func (c *Client) publish(ctx context.Context, cache, topic string, value *pb.TopicValue) error {
	return c.done(ctx, methodPublish, cache, &pb.PublishRequest{Topic: topic, Value: value})
}

// TopicEvent is *TopicItem, *TopicDiscontinuity or *TopicHeartbeat.
type TopicEvent interface{ isTopicEvent() }

// TopicItem is a message.
type TopicItem struct {
	// Sequence is the number of the message in its page. Numbers are consecutive, and begin at 1.
	Sequence uint64
	// Page changes when the topic begins again, such as after a restart of the server.
	Page uint64
	// Value has the bytes of a text or of other data.
	Value []byte
	// IsText is true if the publisher sent a text.
	IsText bool
	// PublisherID is the id in the publisher's token; empty if it has none.
	PublisherID string
}

func (*TopicItem) isTopicEvent() {}

// ValueString returns the value as text.
func (i *TopicItem) ValueString() string { return string(i.Value) }

// Next returns the position after the item, from which a later subscription can continue.
func (i *TopicItem) Next() TopicPosition { return TopicPosition{i.Page, i.Sequence + 1} }

// TopicDiscontinuity shows that messages before the next one are missing.
type TopicDiscontinuity struct {
	// LastSequence is the number of the last message before them; 0 if there was none.
	LastSequence uint64
	// NewSequence and NewPage are the position of the next message.
	NewSequence, NewPage uint64
}

func (*TopicDiscontinuity) isTopicEvent() {}

// TopicHeartbeat shows that the stream is open. The server sends one at the start, and every 5 s without messages.
type TopicHeartbeat struct{}

func (*TopicHeartbeat) isTopicEvent() {}

// SubscribeOption changes a subscription. TopicPosition is one.
type SubscribeOption interface{ applySubscribe(*TopicPosition) }

// TopicPosition is the first message of a subscription. Page 0 and Sequence 1 are all messages that the server has.
// Without this option, a subscription begins with the next message that is published.
type TopicPosition struct{ Page, Sequence uint64 }

func (p TopicPosition) applySubscribe(position *TopicPosition) { *position = p }

// Subscription receives the messages of a topic in their order. One goroutine uses it; any may close it.
//
// After a failure that passes, such as a broken connection, it is opened again by itself, and continues after the last
// item. Messages that the server does not have any more are reported as a TopicDiscontinuity. A subscription that has
// received no item yet continues where it began.
//
// Messages stay in the server until they are read, apart from at most 1 MiB in the windows of the connection: a slow
// reader holds back the stream. The server retains the last 1,024 messages of a topic, 1 MiB at most.
type Subscription struct {
	follower[pb.TopicEvent]
	topic    string
	position TopicPosition
	cancel   context.CancelFunc
	release  func() bool
	first    *pb.TopicEvent
	failure  *Error
}

// Subscribe subscribes to a topic, and returns when the server has confirmed it. While the server is unavailable, it
// tries again, at most for the deadline of the configuration. The subscription ends when ctx ends, or by Close. It
// takes no place of the requests in flight.
func (c *Client) Subscribe(
	ctx context.Context, cache, topic string, options ...SubscribeOption,
) (*Subscription, error) {
	s := &Subscription{topic: topic}
	for _, each := range options {
		each.applySubscribe(&s.position)
	}
	caller := ctx
	ctx, s.cancel = context.WithCancel(ctx)
	s.release = context.AfterFunc(c.engine.background, s.cancel)
	s.follower = follower[pb.TopicEvent]{
		engine: c.engine, method: methodSubscribe, cache: cache, ctx: ctx, begin: s.begin,
	}
	end := time.Now().Add(c.engine.configuration.deadline)
	for latest := (*Error)(nil); ; {
		timer := time.AfterFunc(time.Until(end), s.cancel)
		message, failure := s.receive()
		switch isLate := !timer.Stop(); {
		case isLate && caller.Err() == nil && c.engine.background.Err() == nil:
			// The reason of the attempt before is better than that of one that was cut short.
			if failure = latest; failure == nil {
				failure = lateError(methodSubscribe)
			}
		case failure == nil:
			s.first = message
			return s, nil
		case passes(failure) && time.Now().Before(end) && s.pause():
			latest = failure
			continue
		}
		s.Close()
		return nil, failure
	}
}

func (s *Subscription) begin(
	ctx context.Context, channel *grpc.ClientConn,
) (grpc.ServerStreamingClient[pb.TopicEvent], error) {
	request := &pb.SubscribeRequest{Topic: s.topic, Sequence: s.position.Sequence, Page: s.position.Page}
	return pb.NewTopicsClient(channel).Subscribe(ctx, request)
}

// Next returns the next event. It waits until there is one. An error is final: the subscription was closed, or the
// server refuses it.
func (s *Subscription) Next() (TopicEvent, error) {
	for s.failure == nil {
		message, failure := s.first, (*Error)(nil)
		if s.first = nil; message == nil {
			message, failure = s.receive()
		}
		switch {
		case failure == nil:
			if event := s.accept(message); event != nil {
				return event, nil
			}
		case !passes(failure):
			s.failure = failure
		case !s.pause():
			s.failure = s.failureOf(s.ctx.Err())
		}
	}
	s.Close()
	return nil, s.failure
}

// accept returns an event and moves the position after it. An event of a later schema is nil.
func (s *Subscription) accept(message *pb.TopicEvent) TopicEvent {
	switch kind := message.Kind.(type) {
	case *pb.TopicEvent_Item:
		item := &TopicItem{
			Sequence: kind.Item.Sequence, Page: kind.Item.Page, PublisherID: kind.Item.PublisherId,
			Value: kind.Item.Value.GetBinary(),
		}
		if text, is := kind.Item.Value.GetKind().(*pb.TopicValue_Text); is {
			item.Value, item.IsText = []byte(text.Text), true
		}
		s.position = item.Next()
		return item
	case *pb.TopicEvent_Discontinuity:
		gap := kind.Discontinuity
		s.position = TopicPosition{gap.NewPage, gap.NewSequence}
		return &TopicDiscontinuity{gap.LastSequence, gap.NewSequence, gap.NewPage}
	case *pb.TopicEvent_Heartbeat:
		if kind.Heartbeat.GetSequence() != 0 {
			s.position = TopicPosition{kind.Heartbeat.GetPage(), kind.Heartbeat.GetSequence()}
		}
		return &TopicHeartbeat{}
	}
	return nil
}

// All returns all further events. It ends after an error, and without one after Close.
//
//	for event, err := range subscription.All() { ... }
func (s *Subscription) All() iter.Seq2[TopicEvent, error] {
	return func(yield func(TopicEvent, error) bool) {
		for {
			event, err := s.Next()
			if code, _ := CodeOf(err); code == CodeCancelled || !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Position returns the position of the next message.
func (s *Subscription) Position() TopicPosition { return s.position }

// Close ends the subscription. Next returns the error CodeCancelled.
func (s *Subscription) Close() {
	s.release()
	s.cancel()
}
