package dev.gannet.client;

/**
 * An element of a leaderboard with its rank.
 *
 * @param id the element, from 0 to 4,294,967,295
 * @param rank the rank; that of the first element is 0
 */
public record RankedElement(long id, long rank, double score) {}
