package dev.gannet.client;

import dev.gannet.v1.PublishRequest;
import dev.gannet.v1.TopicValue;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/** The calls on topics. */
abstract class TopicCalls<T> extends SortedSetCalls<T> {
    TopicCalls(Engine engine, Scope scope, Codec<T> codec) {
        super(engine, scope, codec);
    }

    /**
     * Publishes a text.
     *
     * @throws IllegalArgumentException if it has a lone surrogate
     */
    public CompletableFuture<DoneResult> topicPublish(String cache, String topic, String text) {
        return publish(cache, topic, TopicValue.newBuilder().setTextBytes(Codec.utf8(text)));
    }

    /** Publishes bytes. */
    public CompletableFuture<DoneResult> topicPublish(String cache, String topic, Bytes data) {
        return publish(cache, topic, TopicValue.newBuilder().setBinary(data.data()));
    }

    private CompletableFuture<DoneResult> publish(String cache, String topic, TopicValue.Builder value) {
        return done(Methods.PUBLISH, cache, PublishRequest.newBuilder().setTopic(topic).setValue(value).build());
    }

    /**
     * Subscribes to a topic, from the next message that is published after the server has accepted the subscription
     * ({@link TopicSubscription#begun()}). A subscription takes no place of the requests in flight, and has no
     * deadline.
     */
    public TopicSubscription topicSubscribe(String cache, String topic) {
        return topicSubscribe(cache, topic, 0, 0);
    }

    /**
     * Subscribes to a topic from a message that a program has seen before.
     *
     * @param sequence the number of the first message, which is one more than that of the last one seen
     * @param page the page of that number
     * @throws IllegalArgumentException if a number is negative
     */
    public TopicSubscription topicSubscribe(String cache, String topic, long sequence, long page) {
        Objects.requireNonNull(cache, "cache");
        Objects.requireNonNull(topic, "topic");
        if (sequence < 0 || page < 0) {
            throw new IllegalArgumentException("cannot subscribe: sequence " + sequence + " or page " + page
                    + " is negative; pass those of a TopicEvent.Item");
        }
        return new TopicSubscription(engine, cache, topic, sequence, page);
    }
}
