package dev.gannet.client;

import dev.gannet.v1.EdgeChange;
import dev.gannet.v1.GraphAttribute;
import java.time.Instant;

/**
 * An edge that a call changes. It is immutable; its methods return changed copies:
 *
 * <pre>{@code Edge.of(1, 2).withAttribute("stars", "5")}</pre>
 *
 * <p>A node is an unsigned number from 1 to 2^64 - 2, which {@link Long#toUnsignedString(long)} prints.
 */
public final class Edge {
    private final EdgeChange message;

    private Edge(EdgeChange message) {
        this.message = message;
    }

    /** Returns the edge from one node to another. */
    public static Edge of(long source, long destination) {
        return new Edge(EdgeChange.newBuilder().setSource(source).setDestination(destination).build());
    }

    /** Returns a copy of this type, instead of that of the call. */
    public Edge withType(String type) {
        return new Edge(message.toBuilder().setType(type).build());
    }

    /**
     * Returns a copy whose change has this time, instead of that of the call. The newest change of an edge wins.
     *
     * @throws IllegalArgumentException if it is before 1970
     */
    public Edge withTime(Instant time) {
        return new Edge(message.toBuilder().setTimeMs(GraphMessages.millisecondsOf(time)).build());
    }

    /** Returns a copy with the negative state, such as a block. Only an added edge has it. */
    public Edge negative() {
        return new Edge(message.toBuilder().setNegative(true).build());
    }

    /** Returns a copy with another attribute, whose name the edge type declares. Only an added edge has attributes. */
    public Edge withAttribute(String name, String value) {
        return withAttribute(name, Bytes.of(value));
    }

    /** Returns a copy with another attribute, whose name the edge type declares. Only an added edge has attributes. */
    public Edge withAttribute(String name, Bytes value) {
        return new Edge(message.toBuilder()
                .addAttributes(GraphAttribute.newBuilder().setName(name).setValue(value.data())).build());
    }

    EdgeChange message() {
        return message;
    }
}
