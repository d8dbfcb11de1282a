package dev.gannet.client;

import com.google.protobuf.ByteString;
import dev.gannet.v1.SubscribeRequest;
import dev.gannet.v1.TopicDiscontinuity;
import dev.gannet.v1.TopicItem;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;

/**
 * A subscription to a topic. It continues after a lost connection at its next message, until it is closed or the server
 * refuses it for a reason that does not pass.
 *
 * <pre>{@code
 * try (TopicSubscription news = client.topicSubscribe("default", "news")) {
 *     while (true) {
 *         TopicEvent event = news.next().join();
 *         if (event instanceof TopicEvent.Item item) {
 *             System.out.println(item.sequence() + " " + item.valueString());
 *         } else if (event instanceof TopicEvent.Error error) {
 *             System.err.println(error.message());
 *             break;
 *         }
 *     }
 * }
 * }</pre>
 *
 * <p>The client holds at most {@value #BUFFER_EVENTS} events that were not read. Further ones stay at the server, which
 * retains the last ones of a topic: a subscription that is read too slowly gets a {@link TopicEvent.Discontinuity}.
 */
public final class TopicSubscription implements AutoCloseable {
    /** The maximum number of events that the client holds. */
    public static final int BUFFER_EVENTS = 64;

    private final Stream stream;
    private final Deque<TopicEvent> buffer = new ArrayDeque<>();
    private final Deque<Reader> waiting = new ArrayDeque<>();
    private final CompletableFuture<Void> begun = new CompletableFuture<>();
    private TopicEvent end;
    private long sequence;
    private long page;

    TopicSubscription(Engine engine, String cache, String topic, long sequence, long page) {
        this.sequence = sequence;
        this.page = page;
        stream = new Stream(engine, cache, topic);
        stream.open();
    }

    /**
     * The future of a reader that waits. An event or the end is assigned to it under the lock, which removes it from
     * the queue. It has left the queue before if its caller gave it up, so that no event is assigned to it.
     */
    private final class Reader extends CompletableFuture<TopicEvent> {
        private boolean leave() {
            synchronized (stream) {
                return waiting.remove(this);
            }
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            return leave() ? super.cancel(mayInterrupt) : isCancelled();
        }

        @Override
        public boolean completeExceptionally(Throwable thrown) {
            return leave() && super.completeExceptionally(thrown);
        }

        @Override
        public boolean complete(TopicEvent value) {
            return leave() && super.complete(value);
        }

        /** Completes the future with what was assigned to it, on the executor. */
        void completeLater(TopicEvent assigned) {
            try {
                stream.engine.configuration.executor().execute(() -> super.complete(assigned));
            } catch (RejectedExecutionException e) {
                super.complete(assigned);
            }
        }
    }

    /** The stream of the topic. Its lock guards the buffer and the queue of readers. */
    private final class Stream extends EventStream<SubscribeRequest, dev.gannet.v1.TopicEvent> {
        private final String topic;

        Stream(Engine engine, String cache, String topic) {
            super(engine, Methods.SUBSCRIBE, cache);
            this.topic = topic;
        }

        @Override
        synchronized SubscribeRequest request() {
            return SubscribeRequest.newBuilder().setTopic(topic).setSequence(sequence).setPage(page).build();
        }

        @Override
        synchronized int credit() {
            return BUFFER_EVENTS - buffer.size();
        }

        @Override
        void received(dev.gannet.v1.TopicEvent event) {
            begun.complete(null);
            switch (event.getKindCase()) {
                case ITEM -> {
                    TopicItem item = event.getItem();
                    sequence = item.getSequence() + 1;
                    page = item.getPage();
                    boolean isText = item.getValue().hasText();
                    ByteString value = isText ? item.getValue().getTextBytes() : item.getValue().getBinary();
                    deliver(new TopicEvent.Item(
                            new Bytes(value), isText, item.getSequence(), item.getPage(), item.getPublisherId()));
                }
                case DISCONTINUITY -> {
                    TopicDiscontinuity missing = event.getDiscontinuity();
                    sequence = missing.getNewSequence();
                    page = missing.getNewPage();
                    deliver(new TopicEvent.Discontinuity(
                            missing.getLastSequence(), missing.getNewSequence(), missing.getNewPage()));
                }
                case HEARTBEAT -> {
                    // A stream that is cut before its first item continues there.
                    if (event.getHeartbeat().getSequence() != 0) {
                        sequence = event.getHeartbeat().getSequence();
                        page = event.getHeartbeat().getPage();
                    }
                    deliver(new TopicEvent.Heartbeat());
                }
                // A kind of event of a newer server.
                case KIND_NOT_SET -> requestMore(1);
            }
        }

        @Override
        void lost() {
            // The next stream continues at the sequence number.
        }

        @Override
        void ended(CacheError error) {
            begun.complete(null);
            end = error == null ? new TopicEvent.Closed() : new TopicEvent.Error(error);
            while (!waiting.isEmpty()) {
                waiting.poll().completeLater(end);
            }
        }
    }

    /** Gives an event to the next reader. The lock of the stream is held. */
    private void deliver(TopicEvent event) {
        Reader reader = waiting.poll();
        if (reader == null) {
            buffer.add(event);
        } else {
            reader.completeLater(event);
            stream.requestMore(1);
        }
    }

    /**
     * Returns the next event. After the subscription has ended, it is {@link TopicEvent.Closed} or
     * {@link TopicEvent.Error}, after the events that were received before. A future that is cancelled, or completed by
     * the caller, takes no event: the next one gets it. {@code cancel} returns false if an event was assigned before.
     */
    public CompletableFuture<TopicEvent> next() {
        TopicEvent event;
        synchronized (stream) {
            event = buffer.poll();
            if (event == null) {
                if (end != null) {
                    return CompletableFuture.completedFuture(end);
                }
                Reader reader = new Reader();
                waiting.add(reader);
                return reader;
            }
        }
        stream.requestMore(1);
        return CompletableFuture.completedFuture(event);
    }

    /** Completes when the server has accepted the subscription for the first time, or when it has ended. */
    public CompletableFuture<Void> begun() {
        return begun.copy();
    }

    /** Returns the number of events that were not read. */
    int buffered() {
        synchronized (stream) {
            return buffer.size();
        }
    }

    /** Ends the subscription. */
    @Override
    public void close() {
        stream.end(null);
    }
}
