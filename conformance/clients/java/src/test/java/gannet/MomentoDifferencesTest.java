package gannet;

import static gannet.MomentoServer.CACHE;
import static gannet.MomentoServer.fails;
import static gannet.MomentoServer.is;
import static momento.sdk.exceptions.MomentoErrorCode.BAD_REQUEST_ERROR;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.file.Path;
import java.time.Duration;
import momento.sdk.CacheClient;
import momento.sdk.PreviewStorageClient;
import momento.sdk.config.StorageConfigurations;
import momento.sdk.responses.SortOrder;
import momento.sdk.responses.cache.sortedset.SortedSetGetRankResponse;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Shows the differences that docs/momento.md lists to users of Momento's published client library for Java. */
final class MomentoDifferencesTest {
    @TempDir
    static Path folder;

    private static MomentoServer server;

    @BeforeAll
    static void start() throws Exception {
        server = new MomentoServer(folder);
    }

    @AfterAll
    static void stop() throws Exception {
        server.close();
    }

    @Test
    void absentElementOfASortedSetHasRankZero() throws Exception {
        CacheClient cache = server.cacheClient();
        server.plain.zadd("z", 1, "a");
        assertNull(server.plain.zrank("z", "x"));
        SortedSetGetRankResponse.Hit hit =
            is(SortedSetGetRankResponse.Hit.class, cache.sortedSetGetRank(CACHE, "z", "x", SortOrder.ASCENDING));
        assertEquals(0, hit.rank());
        // An absent sorted set is the same.
        is(SortedSetGetRankResponse.Hit.class, cache.sortedSetGetRank(CACHE, "none", "x", SortOrder.ASCENDING));
    }

    @Test
    void signingKeysAreRefused() throws Exception {
        CacheClient cache = server.cacheClient();
        fails(BAD_REQUEST_ERROR, cache.createSigningKey(Duration.ofMinutes(1)));
        fails(BAD_REQUEST_ERROR, cache.revokeSigningKey("id"));
        fails(BAD_REQUEST_ERROR, cache.listSigningKeys());
    }

    @Test
    void storageIsRefused() throws Exception {
        try (PreviewStorageClient storage =
            new PreviewStorageClient(server.credentials(), StorageConfigurations.Laptop.latest())) {
            fails(BAD_REQUEST_ERROR, storage.createStore("s"));
            fails(BAD_REQUEST_ERROR, storage.deleteStore("s"));
            fails(BAD_REQUEST_ERROR, storage.listStores());
            fails(BAD_REQUEST_ERROR, storage.put("s", "k", "v"));
            fails(BAD_REQUEST_ERROR, storage.get("s", "k"));
            fails(BAD_REQUEST_ERROR, storage.delete("s", "k"));
        }
    }
}
