using System;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Replies;
using Gannet.V1.Requests;

namespace Gannet.Client.Engine
{
    // Topics.
    internal static partial class Calls
    {
        // A repeated publication may be a second message.
        public static readonly Call<DoneResult> Publish = Done(Methods.TopicsPublish, false);
    }

    /// <summary>The events of a topic from a position on, which moves with each of them.</summary>
    internal sealed class TopicSource : IEventSource<TopicEvent>
    {
        private readonly string topic;

        public TopicSource(string topic, TopicPosition? next)
        {
            this.topic = topic;
            Next = next;
        }

        public Method Method => Methods.TopicsSubscribe;

        /// <summary>The position after the last event that was read, or null if the server has named none.</summary>
        public TopicPosition? Next { get; private set; }

        public IRequest Request() =>
            new SubscribeRequest { Topic = topic, Sequence = Next?.Sequence ?? 0, Page = Next?.Page ?? 0 };

        public TopicEvent? EventOf(ReadOnlyMemory<byte> reply)
        {
            var message = Calls.Decode(reply, V1.Replies.TopicEvent.Read);
            if (message.Item is TopicItem item)
            {
                var value = item.Value ?? throw new BadReplyException("a message of a topic has no value");
                Next = new TopicPosition(item.Sequence + 1, item.Page);
                return value.Text is string text
                    ? new TopicEvent.Item(item.Sequence, item.Page, item.PublisherId, text)
                    : new TopicEvent.Item(
                        item.Sequence,
                        item.Page,
                        item.PublisherId,
                        value.Binary ?? throw new BadReplyException("a message of a topic has no value"));
            }
            if (message.Discontinuity is TopicDiscontinuity gap)
            {
                Next = new TopicPosition(gap.NewSequence, gap.NewPage);
                return new TopicEvent.Discontinuity(gap.LastSequence, gap.NewSequence, gap.NewPage);
            }
            if (message.Heartbeat is TopicHeartbeat heartbeat && heartbeat.Sequence != 0)
            {
                // A stream that is cut before its first item continues there.
                Next = new TopicPosition(heartbeat.Sequence, heartbeat.Page);
            }
            return message.Heartbeat == null ? null : TopicEvent.Heartbeat.Instance;
        }
    }
}
