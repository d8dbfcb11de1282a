package dev.gannet.client;

/**
 * The settings that all calls of one view of a client share.
 *
 * @param defaultTtlMs the time to live of items that are written without one
 * @param deadlineNs the time for one call
 */
record Scope(long defaultTtlMs, long deadlineNs) {}
