package dev.gannet.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Expectations on results. */
final class Expect {
    private Expect() {}

    /** Returns the result of a call, at most 20 s after now. */
    static <R> R got(CompletableFuture<R> call) {
        return call.completeOnTimeout(null, 20, TimeUnit.SECONDS).join();
    }

    static void success(CompletableFuture<DoneResult> call) {
        assertEquals(new DoneResult.Success(), got(call));
    }

    /** Returns the error of a call, whose message ends with its remedy and has these parts. */
    static CacheError error(ErrorCode code, CompletableFuture<?> call, String... parts) {
        Object result = got(call);
        assertTrue(result instanceof ErrorResult, () -> "the result is " + result);
        return check(code, ((ErrorResult) result).error(), parts);
    }

    static CacheError check(ErrorCode code, CacheError error, String... parts) {
        assertEquals(code, error.code(), error::toString);
        assertFalse(error.remedy().isBlank());
        assertTrue(error.message().endsWith("; " + error.remedy()), error::message);
        for (String part : parts) {
            assertTrue(error.message().contains(part), () -> "'" + part + "' is not in: " + error.message());
        }
        return error;
    }
}
