package dev.gannet.client;

/** A setting of a call that writes to a dictionary, set or sorted set: {@link Ttl} or {@link KeepTtl}. */
public sealed interface CollectionOption extends ListOption permits SetOption, KeepTtl {}
