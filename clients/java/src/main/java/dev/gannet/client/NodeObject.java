package dev.gannet.client;

import dev.gannet.v1.GraphNode;
import dev.gannet.v1.NodeBin;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The object of a node: its type and its bins, at most 16 KiB together. It is immutable; its methods return changed
 * copies:
 *
 * <pre>{@code NodeObject.of("person").withBin("name", "Ann")}</pre>
 *
 * @param type the type
 * @param bins the values by their names; no bin has the name {@code TS}
 */
public record NodeObject(Bytes type, Map<Bytes, Bytes> bins) {
    /** Copies the bins. */
    public NodeObject {
        bins = Map.copyOf(bins);
    }

    /** Returns an object without bins. */
    public static NodeObject of(String type) {
        return of(Bytes.of(type));
    }

    /** Returns an object without bins. */
    public static NodeObject of(Bytes type) {
        return new NodeObject(type, Map.of());
    }

    /** Returns a copy with another bin. */
    public NodeObject withBin(String name, String value) {
        return withBin(Bytes.of(name), Bytes.of(value));
    }

    /** Returns a copy with another bin. */
    public NodeObject withBin(Bytes name, Bytes value) {
        Map<Bytes, Bytes> more = new LinkedHashMap<>(bins);
        more.put(name, value);
        return new NodeObject(type, more);
    }

    /** Returns the type as text (UTF-8). */
    public String typeString() {
        return type.toString();
    }

    /** Returns the bins as text (UTF-8). */
    public Map<String, String> binStrings() {
        Map<String, String> texts = new HashMap<>();
        bins.forEach((name, value) -> texts.put(name.toString(), value.toString()));
        return texts;
    }

    GraphNode message() {
        GraphNode.Builder message = GraphNode.newBuilder().setType(type.data());
        bins.forEach((name, value) ->
                message.addBins(NodeBin.newBuilder().setName(name.data()).setValue(value.data())));
        return message.build();
    }

    static NodeObject of(GraphNode message) {
        Map<Bytes, Bytes> bins = new HashMap<>();
        message.getBinsList().forEach(each -> bins.put(new Bytes(each.getName()), new Bytes(each.getValue())));
        return new NodeObject(new Bytes(message.getType()), bins);
    }
}
