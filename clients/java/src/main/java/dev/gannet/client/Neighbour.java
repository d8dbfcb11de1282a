package dev.gannet.client;

import java.time.Instant;
import java.util.Map;

/**
 * A neighbour of a node, with the edge to it.
 *
 * @param node the neighbour
 * @param time the time of the newest change of the edge
 * @param attributes the attributes of the edge by their names
 */
public record Neighbour(long node, Instant time, Map<String, Bytes> attributes) {}
