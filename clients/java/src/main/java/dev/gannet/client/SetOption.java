package dev.gannet.client;

/** A setting of a call that stores an item: {@link Ttl}. */
public sealed interface SetOption extends CollectionOption permits Ttl {}
