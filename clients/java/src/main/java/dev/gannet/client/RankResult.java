package dev.gannet.client;

/** The result of a read of a rank. */
public sealed interface RankResult {
    /** The rank. The first element has rank 0. */
    record Hit(long rank) implements RankResult {}

    /** The item, or the part of it that the call names, does not exist. */
    record Miss() implements RankResult {
        static final Miss INSTANCE = new Miss();
    }

    /** The call failed. */
    record Error(CacheError error) implements RankResult, ErrorResult {}
}
