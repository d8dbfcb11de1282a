package dev.gannet.client;

/**
 * A node at distance 2 of another one.
 *
 * @param node the node
 * @param common the number of their common neighbours
 */
public record Suggestion(long node, long common) {}
