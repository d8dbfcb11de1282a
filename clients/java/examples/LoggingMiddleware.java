import dev.gannet.client.CacheClient;
import dev.gannet.client.CacheError;
import dev.gannet.client.CallEnd;
import dev.gannet.client.CallStart;
import dev.gannet.client.Configurations;
import dev.gannet.client.Credentials;
import dev.gannet.client.Middleware;
import java.time.Duration;

/** Writes one line for each call: {@code scripts/example LoggingMiddleware 127.0.0.1:7000}. */
final class LoggingMiddleware implements Middleware {
    private LoggingMiddleware() {}

    @Override
    public Object before(CallStart start) {
        return null;
    }

    @Override
    public void after(CallEnd end, Object context) {
        String outcome = end.error().map(CacheError::code).map(Enum::name).orElse("OK");
        System.out.printf("%s %s %s %d us, %d us queued, %d retries%n", end.method(), end.cache(), outcome,
                end.duration().toNanos() / 1_000, end.queued().toNanos() / 1_000, end.retries());
    }

    public static void main(String[] arguments) {
        try (CacheClient client = CacheClient.create(Credentials.noToken(arguments[0]),
                Configurations.InRegion.LowLatency.latest().withMiddleware(new LoggingMiddleware()),
                Duration.ofHours(1))) {
            client.set("default", "greeting", "hello").join();
            client.get("default", "greeting").join();
            // Another type of items: the log shows the error.
            client.listPushBack("default", "greeting", "again").join();
        }
    }
}
