package dev.gannet.client;

/**
 * A list of a graph: the edges of one type from one node.
 *
 * @param node the node
 * @param type the edge type
 */
public record NodeList(long node, String type) {}
