package dev.gannet.client;

import dev.gannet.v1.DeclareTypeRequest;
import java.util.List;

/**
 * The declaration of an edge type. It is directed and its pages are ordered by identifier unless its methods, which
 * return changed copies, change that:
 *
 * <pre>{@code EdgeType.of("follows").sortByTime().withCap(5_000)}</pre>
 */
public final class EdgeType {
    private final DeclareTypeRequest message;

    private EdgeType(DeclareTypeRequest message) {
        this.message = message;
    }

    /** Returns a directed type of this name. */
    public static EdgeType of(String name) {
        return new EdgeType(DeclareTypeRequest.newBuilder().setType(name).build());
    }

    /** Returns a copy whose edges lead in both directions. */
    public EdgeType undirected() {
        return new EdgeType(message.toBuilder().setUndirected(true).build());
    }

    /** Returns a copy whose lists hold the edges of another type from their other ends. */
    public EdgeType inverseOf(String other) {
        return new EdgeType(message.toBuilder().setInverseOf(other).build());
    }

    /** Returns a copy whose pages list the newest edge first. */
    public EdgeType sortByTime() {
        return new EdgeType(message.toBuilder().setSortByTime(true).build());
    }

    /**
     * Returns a copy with a maximum number of live edges in one list.
     *
     * @throws IllegalArgumentException if it is not from 1 to 4,294,967,295
     */
    public EdgeType withCap(long edges) {
        if (edges < 1 || edges > 0xffff_ffffL) {
            throw new IllegalArgumentException(
                    "cannot use cap " + edges + ": it is out of range; pass 1 to 4294967295");
        }
        return new EdgeType(message.toBuilder().setCap((int) edges).build());
    }

    /** Returns a copy whose edges have attributes of these names. */
    public EdgeType withAttributes(String... names) {
        return new EdgeType(message.toBuilder().clearAttributes().addAllAttributes(List.of(names)).build());
    }

    DeclareTypeRequest message(String graph) {
        return message.toBuilder().setGraph(graph).build();
    }
}
