package dev.gannet.client;

import dev.gannet.v1.GraphAttribute;
import dev.gannet.v1.GraphFigure;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Translates parts of graphs into messages, and back. */
final class GraphMessages {
    private GraphMessages() {}

    /** Returns the milliseconds since 1970 of a change. */
    static long millisecondsOf(Instant time) {
        if (time.isBefore(Instant.EPOCH) || time.getEpochSecond() > Long.MAX_VALUE / 1_000 - 1) {
            throw new IllegalArgumentException(
                    "cannot use time " + time + ": it is out of range; pass one from 1970 on");
        }
        return time.toEpochMilli();
    }

    /** Checks a number of a query, of which 0 would stand for the server's default. */
    static int positive(String name, int number) {
        if (number < 1) {
            throw new IllegalArgumentException(
                    "cannot use " + name + " " + number + ": it is below 1; pass at least 1, or leave it out");
        }
        return number;
    }

    /** Checks the name of a graph, of which an empty one would stand for another graph or the whole store. */
    static String graphName(String name) {
        if (name.isEmpty()) {
            throw new IllegalArgumentException("cannot use graph: its name is empty; pass a name");
        }
        return name;
    }

    static Map<String, Bytes> attributesOf(List<GraphAttribute> attributes) {
        Map<String, Bytes> values = new LinkedHashMap<>();
        attributes.forEach(each -> values.put(each.getName(), new Bytes(each.getValue())));
        return values;
    }

    static Map<String, Long> figuresOf(List<GraphFigure> figures) {
        Map<String, Long> values = new LinkedHashMap<>();
        figures.forEach(each -> values.put(each.getName(), each.getValue()));
        return values;
    }

    static EdgeState stateOf(dev.gannet.v1.EdgeState state) {
        return switch (state) {
            case EDGE_ABSENT -> EdgeState.ABSENT;
            case EDGE_LIVE -> EdgeState.LIVE;
            case EDGE_NEGATIVE -> EdgeState.NEGATIVE;
            case EDGE_ARCHIVED -> EdgeState.ARCHIVED;
            case EDGE_REMOVED -> EdgeState.REMOVED;
            case UNRECOGNIZED -> throw new BadReplyException("the state of an edge is unknown");
        };
    }
}
