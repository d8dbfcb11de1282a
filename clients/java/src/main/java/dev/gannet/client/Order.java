package dev.gannet.client;

/** The order of a sorted set or leaderboard. */
public enum Order {
    /** The lowest score first. */
    ASCENDING,
    /** The highest score first. */
    DESCENDING
}
