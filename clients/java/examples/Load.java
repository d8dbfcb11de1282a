import dev.gannet.client.CacheClient;
import dev.gannet.client.Configurations;
import dev.gannet.client.Credentials;
import dev.gannet.client.GetResult;
import dev.gannet.client.Metrics;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

/**
 * Offers many requests at once: the client keeps few of them in flight, and the others wait in it.
 * {@code scripts/example Load 127.0.0.1:7000}
 */
final class Load {
    private static final int REQUESTS = 2_000;

    private Load() {}

    public static void main(String[] arguments) {
        try (CacheClient client = CacheClient.create(Credentials.noToken(arguments[0]),
                Configurations.InRegion.LowLatency.latest().withDeadline(Duration.ofSeconds(10)).withMetrics(true),
                Duration.ofHours(1))) {
            IntStream.range(0, REQUESTS).mapToObj(at -> client.set("default", "key " + at, "value")).toList()
                    .forEach(CompletableFuture::join);
            List<CompletableFuture<GetResult>> gets =
                    IntStream.range(0, REQUESTS).mapToObj(at -> client.get("default", "key " + at)).toList();
            long hits = gets.stream().filter(each -> each.join() instanceof GetResult.Hit).count();
            Metrics.MethodMetrics metrics = client.metrics().methods().get("Get");
            System.out.printf("%d hits: p50 %d us, p99 %d us, with the wait in the client%n", hits,
                    metrics.p50().toNanos() / 1_000, metrics.p99().toNanos() / 1_000);
        }
    }
}
