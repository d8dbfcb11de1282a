import dev.gannet.client.CacheClient;
import dev.gannet.client.Configurations;
import dev.gannet.client.Credentials;
import dev.gannet.client.GetResult;
import dev.gannet.client.Range;
import dev.gannet.client.Ttl;
import java.time.Duration;
import java.util.List;

/** Stores a value, and reads it again: {@code scripts/example Session 127.0.0.1:7000}. */
final class Session {
    private Session() {}

    public static void main(String[] arguments) {
        try (CacheClient client = CacheClient.create(
                Credentials.noToken(arguments[0]), Configurations.Laptop.latest(), Duration.ofHours(1))) {
            client.set("default", "greeting", "hello", Ttl.of(Duration.ofMinutes(1))).join();
            GetResult found = client.get("default", "greeting").join();
            if (found instanceof GetResult.Hit hit) {
                System.out.println(hit.valueString());
            } else if (found instanceof GetResult.Miss) {
                System.out.println("not there");
            } else if (found instanceof GetResult.Error error) {
                System.out.println(error.message());
            }
            client.delete("default", "queue")
                    .thenCompose(done -> client.listConcatenateBack("default", "queue", List.of("a", "b", "c")))
                    .thenCompose(length -> client.listFetch("default", "queue", Range.from(-2)))
                    .thenAccept(System.out::println)
                    .join();
        }
    }
}
