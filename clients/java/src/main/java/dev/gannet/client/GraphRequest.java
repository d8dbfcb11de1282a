package dev.gannet.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.gannet.v1.GraphQueryResult;
import io.grpc.Status;
import java.util.concurrent.CompletableFuture;

/** A query with its request. A request without a graph is one for the graph that executes it. */
record GraphRequest<Q extends Message, P extends Message, R extends GraphResult>(GraphCall<Q, P, R> call, Q message) {
    /** Executes the query alone. */
    CompletableFuture<R> send(Calls<?> calls, String cache, String graph) {
        Q request = message;
        FieldDescriptor field = message.getDescriptorForType().findFieldByName("graph");
        if (((String) message.getField(field)).isEmpty()) {
            @SuppressWarnings("unchecked")
            Q named = (Q) message.toBuilder().setField(field, graph).build();
            request = named;
        }
        Q sent = request;
        return calls.unary(call.method(), cache, sent, reply -> call.result().apply(sent, reply), call.error());
    }

    /** Returns the query as a part of a batch. */
    dev.gannet.v1.GraphQuery part() {
        dev.gannet.v1.GraphQuery.Builder part = dev.gannet.v1.GraphQuery.newBuilder();
        call.put().accept(part, message);
        return part.build();
    }

    /** Returns the result of the query from its place in the reply to a batch. */
    R resultOf(GraphQueryResult result, Engine engine) {
        if (result.hasError()) {
            Status status = Status.fromCodeValue(result.getError().getCode())
                    .withDescription(result.getError().getMessage());
            return call.error().apply(engine.errorOf(call.method(), status, message.getSerializedSize()));
        }
        if (result.getResultCase() != call.kind()) {
            throw new BadReplyException(
                    "the result of " + call.method().name() + " is one of " + result.getResultCase());
        }
        return call.result().apply(message, call.part().apply(result));
    }
}
