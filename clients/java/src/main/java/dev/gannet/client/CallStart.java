package dev.gannet.client;

/**
 * A call that begins.
 *
 * @param method the name of the call in the schema, such as Get
 * @param cache the name of the cache, or empty for calls on no cache
 * @param requestBytes the size of the request
 */
public record CallStart(String method, String cache, int requestBytes) {}
