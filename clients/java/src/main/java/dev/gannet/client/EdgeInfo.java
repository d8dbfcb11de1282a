package dev.gannet.client;

import java.time.Instant;
import java.util.Map;

/**
 * An edge of the server.
 *
 * @param state the state
 * @param time the time of its newest change; the epoch (1970) if there is no edge
 * @param attributes the attributes by their names
 */
public record EdgeInfo(EdgeState state, Instant time, Map<String, Bytes> attributes) {}
