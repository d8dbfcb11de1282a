import dev.gannet.client.CacheClient;
import dev.gannet.client.Configurations;
import dev.gannet.client.Credentials;
import dev.gannet.client.DistancesResult;
import dev.gannet.client.Edge;
import dev.gannet.client.EdgeType;
import dev.gannet.client.EdgesChangedResult;
import dev.gannet.client.ErrorResult;
import dev.gannet.client.Graph;
import dev.gannet.client.PathsResult;
import dev.gannet.client.SuggestionsResult;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Stores friends in a graph, and prints how far apart two of them are, through whom, and whom one may know:
 * {@code scripts/example Friends 127.0.0.1:7000}.
 */
final class Friends {
    /** The person with number 1 is the first one. */
    private static final List<String> NAMES = List.of("Ann", "Bob", "Cem", "Dan", "Eve");

    private Friends() {}

    public static void main(String[] arguments) {
        try (CacheClient client = CacheClient.create(
                Credentials.noToken(arguments[0]), Configurations.Laptop.latest(), Duration.ofHours(1))) {
            Graph people = client.graph("default", "friends");
            people.declareType(EdgeType.of("knows").undirected()).join();
            EdgesChangedResult added = people.addEdges("knows", List.of(
                    Edge.of(1, 2), Edge.of(1, 3), Edge.of(2, 4), Edge.of(3, 4), Edge.of(4, 5))).join();
            if (added instanceof ErrorResult error) {
                System.out.println(error.message());
                return;
            }
            printWay(people, 1, 4);
            printWay(people, 1, 5);
            if (people.suggest(1, "knows").join() instanceof SuggestionsResult.Success found) {
                found.suggestions().forEach(each -> System.out.printf("%s may know %s, by %d common friends%n",
                        nameOf(1), nameOf(each.node()), each.common()));
            }
        }
    }

    private static void printWay(Graph people, long first, long last) {
        if (people.distances(first, "knows", List.of(last)).join() instanceof DistancesResult.Success distance
                && people.paths(first, last, "knows").join() instanceof PathsResult.Success found) {
            List<Long> path = found.paths().get(0);
            String between = path.subList(1, path.size() - 1).stream().map(Friends::nameOf)
                    .collect(Collectors.joining(", "));
            System.out.printf("%s and %s are %d apart, through %s%n", nameOf(first), nameOf(last),
                    distance.distances().get(0).getAsInt(), between);
        }
    }

    private static String nameOf(long person) {
        return NAMES.get((int) person - 1);
    }
}
