package dev.gannet.client;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * A record of the server.
 *
 * @param key the key
 * @param revision the revision, which grows with each change
 * @param expiresAt the instant at which it expires, or empty for never
 * @param bins the bins by their names
 */
public record StoredRecord(Bytes key, long revision, Optional<Instant> expiresAt, Map<String, BinValue> bins) {}
