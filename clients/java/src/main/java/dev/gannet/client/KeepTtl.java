package dev.gannet.client;

/** The setting by which a write to a collection that exists does not change its time to live. */
public enum KeepTtl implements CollectionOption {
    /** The only value. */
    KEEP_TTL
}
