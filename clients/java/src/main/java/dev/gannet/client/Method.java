package dev.gannet.client;

import com.google.protobuf.Message;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.protobuf.ProtoUtils;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * One call of the schema.
 *
 * @param index the place of its metrics
 * @param name the name in the schema
 * @param isIdempotent true if its repetition changes nothing
 * @param isHedged true if it may be sent a second time before its reply
 * @param texts the texts of the request
 */
record Method<Q extends Message, P extends Message>(
        int index, String name, MethodDescriptor<Q, P> descriptor, boolean isIdempotent, boolean isHedged,
        TextFields texts) {
    private static final List<Method<?, ?>> ALL = new ArrayList<>();

    private static final Set<String> READS = Set.of(
            "Get", "GetBatch", "KeysExist", "GetWithHash", "ItemGetTtl", "ItemGetType", "DictionaryGet",
            "DictionaryFetch", "DictionaryLength", "SetFetch", "SetSample", "SetContains", "SetLength", "ListFetch",
            "ListLength", "SortedSetFetch", "SortedSetGetScore", "SortedSetGetRank", "SortedSetLength", "ListCaches",
            "RecordGet", "RecordScan", "RecordQuery");

    /** Returns a new method, whose path is SERVICE/NAME. */
    static synchronized <Q extends Message, P extends Message> Method<Q, P> of(
            MethodType type, String path, Q request, P reply, boolean isIdempotent) {
        MethodDescriptor<Q, P> descriptor = MethodDescriptor.<Q, P>newBuilder()
                .setType(type)
                .setFullMethodName("gannet.v1." + path)
                .setRequestMarshaller(ProtoUtils.marshaller(request))
                .setResponseMarshaller(ProtoUtils.marshaller(reply))
                .setSafe(isIdempotent)
                .build();
        Method<Q, P> created = new Method<>(
                ALL.size(), descriptor.getBareMethodName(), descriptor, isIdempotent, false,
                TextFields.of(request.getDescriptorForType()));
        ALL.add(created);
        return created;
    }

    /** Returns all methods, by their indexes. */
    static List<Method<?, ?>> all() {
        // The first use of the table fills the list.
        if (Methods.GET == null) {
            throw new IllegalStateException("the table of methods is not initialised");
        }
        return ALL;
    }

    Method<Q, P> hedged() {
        Method<Q, P> form = new Method<>(index, name, descriptor, isIdempotent, true, texts);
        ALL.set(index, form);
        return form;
    }

    /** Returns a form that is not repeated. */
    Method<Q, P> once() {
        return new Method<>(index, name, descriptor, false, isHedged, texts);
    }

    /** Returns the service of the call, such as {@code Records}. */
    String service() {
        String full = descriptor.getServiceName();
        return full.substring(full.lastIndexOf('.') + 1);
    }

    /** Returns the name of a text of the request that has a lone surrogate, which the encoding would replace. */
    Optional<String> badText(Message request) {
        return texts.bad(request);
    }

    /** Returns true if the call changes no item. */
    boolean isRead() {
        return READS.contains(name);
    }

    boolean isStream() {
        return descriptor.getType() == MethodType.SERVER_STREAMING;
    }
}
