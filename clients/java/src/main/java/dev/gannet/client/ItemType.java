package dev.gannet.client;

/** The type of an item. */
public enum ItemType {
    /** A value of memcached clients, a string of Redis clients. */
    VALUE,
    /** A dictionary, the hash of Redis clients. */
    DICTIONARY,
    /** A set. */
    SET,
    /** A list. */
    LIST,
    /** A sorted set. */
    SORTED_SET
}
