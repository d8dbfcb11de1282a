package dev.gannet.client;

/** A setting of a call that writes to a list: {@link Ttl}, {@link KeepTtl} or {@link MaxLength}. */
public sealed interface ListOption permits CollectionOption, MaxLength {}
