package dev.gannet.client;

/** An event of a {@link TopicSubscription}. */
public sealed interface TopicEvent {
    /**
     * A message.
     *
     * @param value the message
     * @param isText true if it was published as text
     * @param sequence its number, which grows by one with each message of a page
     * @param page a topic that is created again has a later page, in which the numbers begin at 1
     * @param publisherId the id in the publisher's token; empty without one
     */
    record Item(Bytes value, boolean isText, long sequence, long page, String publisherId) implements TopicEvent {
        /** Returns the message as text (UTF-8). */
        public String valueString() {
            return value.toString();
        }
    }

    /**
     * Messages before the next one are missing.
     *
     * @param lastSequence the number of the last message before them; 0 if there was none
     */
    record Discontinuity(long lastSequence, long newSequence, long newPage) implements TopicEvent {}

    /** The topic has had no message for some seconds. Each stream begins with a heartbeat. */
    record Heartbeat() implements TopicEvent {}

    /** The subscription was closed. No event follows. */
    record Closed() implements TopicEvent {}

    /** The server refuses the subscription. No event follows. */
    record Error(CacheError error) implements TopicEvent, ErrorResult {}
}
