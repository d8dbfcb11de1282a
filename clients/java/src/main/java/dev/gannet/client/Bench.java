package dev.gannet.client;

import com.google.protobuf.ByteString;
import dev.gannet.v1.GetRequest;
import dev.gannet.v1.SetRequest;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Measures the client library against a server, and prints one JSON object:
 *
 * <pre>
 * bench --address 127.0.0.1:7000 --preset InRegion.LowLatency --concurrency 5000 --seconds 10
 * </pre>
 *
 * Each of the concurrent callers begins its next call when its previous one has ended. Latencies are those that a
 * caller sees, with the wait in the client's queue. The environment variable GANNET_TOKEN has the token, if the server
 * needs one.
 *
 * <p>With {@code --compare}, the same callers also use the bare stub on one connection, without a deadline and with
 * one. The three take turns, so that the state of the machine is the same for all of them.
 */
public final class Bench {
    private static final String HELP = """
            usage: bench [options]
              --address HOST:PORT     of gannet serve --grpc (127.0.0.1:7000)
              --cache NAME            name of the cache (default)
              --preset NAME           such as Laptop or InRegion.LowLatency.v1 (InRegion.Default)
              --in-flight-max N       cap of requests in flight (0: that of the preset)
              --concurrency N         number of callers (100)
              --seconds N             duration of the measurement (10)
              --key-space N           number of keys (10000)
              --value-bytes N         size of each value (100)
              --get-ratio N           share of gets; the other calls are sets (0.9)
              --compare               also measure the bare stub, in turn
              --tls                   use TLS, also for a local address
              --ca-file PATH          PEM file with the CA of the server
            """;

    private static final double TURN_SECONDS = 0.5;

    private final Map<String, String> options = new TreeMap<>(Map.of(
            "address", "127.0.0.1:7000", "cache", "default", "preset", "InRegion.Default", "concurrency", "100",
            "seconds", "10", "in-flight-max", "0", "key-space", "10000", "value-bytes", "100", "get-ratio", "0.9"));
    private final PrintStream out;
    private String[] keys;
    private byte[] value;

    Bench(PrintStream out) {
        this.out = out;
    }

    /** Runs the measurement. */
    public static void main(String[] arguments) {
        System.exit(new Bench(System.out).run(arguments));
    }

    /** Runs the measurement, and returns the status of the program. */
    int run(String... arguments) {
        try {
            if (List.of(arguments).contains("--help")) {
                out.print(HELP);
                return 0;
            }
            parse(arguments);
            measure();
            return 0;
        } catch (CacheException | IllegalArgumentException e) {
            out.println(e.getMessage());
            return 1;
        }
    }

    private void parse(String[] arguments) {
        for (int at = 0; at < arguments.length; at++) {
            String name = arguments[at].startsWith("--") ? arguments[at].substring(2) : "";
            boolean isFlag = name.equals("compare") || name.equals("tls");
            boolean isKnown = isFlag || name.equals("ca-file") || options.containsKey(name);
            if (!isKnown || !isFlag && at + 1 == arguments.length) {
                throw new IllegalArgumentException("cannot use argument '" + arguments[at]
                        + "': it is no option, or has no value; run bench --help");
            }
            options.put(name, isFlag ? "true" : arguments[++at]);
        }
        if (number("concurrency") < 1 || number("seconds") <= 0 || number("key-space") < 1 || number("value-bytes") < 0
                || number("in-flight-max") < 0
                || number("get-ratio") < 0 || number("get-ratio") > 1) {
            throw new IllegalArgumentException("cannot use options: a number is out of range; run bench --help");
        }
        boolean isSecure = options.containsKey("tls") || options.containsKey("ca-file") || token() != null;
        if (options.containsKey("compare") && isSecure) {
            throw new IllegalArgumentException(
                    "cannot use --compare with TLS or a token: the stub has neither; drop --compare");
        }
    }

    private double number(String name) {
        try {
            return Double.parseDouble(options.get(name));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("cannot use --" + name + " '" + options.get(name)
                    + "': it is no number; run bench --help", e);
        }
    }

    private static String token() {
        String token = System.getenv("GANNET_TOKEN");
        return token == null || token.isBlank() ? null : token;
    }

    private Credentials credentials() {
        String address = options.get("address");
        Credentials credentials = token() == null ? Credentials.noToken(address) : Credentials.token(address, token());
        if (options.containsKey("tls")) {
            credentials = credentials.withTls();
        }
        if (options.containsKey("ca-file")) {
            credentials = credentials.withCaFile(java.nio.file.Path.of(options.get("ca-file")));
        }
        return credentials;
    }

    /** The calls that are measured. A call completes with the code of its error, or null. */
    private interface Calls extends AutoCloseable {
        CompletableFuture<String> get(String key);

        CompletableFuture<String> set(String key, byte[] value);

        @Override
        void close();
    }

    /** The calls of the library. */
    private record Library(CacheClient client, String cache) implements Calls {
        @Override
        public CompletableFuture<String> get(String key) {
            return client.get(cache, key).thenApply(Library::codeOf);
        }

        @Override
        public CompletableFuture<String> set(String key, byte[] value) {
            return client.set(cache, key, value).thenApply(Library::codeOf);
        }

        private static String codeOf(Object result) {
            return result instanceof ErrorResult error ? error.code().name() : null;
        }

        @Override
        public void close() {
            client.close();
        }
    }

    /** The calls of a stub: the least that a program without the library does. */
    private static final class Stub implements Calls {
        private final ManagedChannel channel;
        private final Channel withCache;
        private final Duration deadline;

        Stub(String address, String cache, Duration deadline) {
            this.deadline = deadline;
            channel = NettyChannelBuilder.forTarget(address).usePlaintext().build();
            Metadata headers = new Metadata();
            headers.put(Metadata.Key.of("cache", Metadata.ASCII_STRING_MARSHALLER), cache);
            withCache = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
        }

        private <Q extends com.google.protobuf.Message, P extends com.google.protobuf.Message>
                CompletableFuture<String> call(Method<Q, P> method, Q request) {
            CallOptions callOptions = CallOptions.DEFAULT;
            if (!deadline.isZero()) {
                callOptions = callOptions.withDeadlineAfter(deadline.toNanos(), TimeUnit.NANOSECONDS);
            }
            CompletableFuture<String> ended = new CompletableFuture<>();
            ClientCalls.asyncUnaryCall(
                    withCache.newCall(method.descriptor(), callOptions), request, new StreamObserver<P>() {
                        @Override
                        public void onNext(P reply) {}

                        @Override
                        public void onCompleted() {
                            ended.complete(null);
                        }

                        @Override
                        public void onError(Throwable thrown) {
                            ended.complete(Status.fromThrowable(thrown).getCode().name());
                        }
                    });
            return ended;
        }

        @Override
        public CompletableFuture<String> get(String key) {
            return call(Methods.GET, GetRequest.newBuilder().setKey(ByteString.copyFromUtf8(key)).build());
        }

        @Override
        public CompletableFuture<String> set(String key, byte[] value) {
            return call(Methods.SET, SetRequest.newBuilder().setKey(ByteString.copyFromUtf8(key))
                    .setValue(ByteString.copyFrom(value)).setTtlMs(3_600_000).build());
        }

        @Override
        public void close() {
            channel.shutdownNow();
        }
    }

    /** One caller, which has one call at a time. */
    private final class Caller {
        private final Calls calls;
        private final Random random;
        private final double getRatio = number("get-ratio");
        private final Map<String, Long> errors = new TreeMap<>();
        private long[] latencies = new long[1_024];
        private int count;
        private long end;
        private CountDownLatch running;

        Caller(Calls calls, long seed) {
            this.calls = calls;
            random = new Random(seed);
        }

        void start(long until, CountDownLatch latch) {
            end = until;
            running = latch;
            next();
        }

        private void next() {
            while (true) {
                long begun = System.nanoTime();
                if (begun >= end) {
                    running.countDown();
                    return;
                }
                String key = keys[random.nextInt(keys.length)];
                CompletableFuture<String> call =
                        random.nextDouble() < getRatio ? calls.get(key) : calls.set(key, value);
                if (!call.isDone()) {
                    call.whenComplete((code, thrown) -> {
                        record(begun, code);
                        next();
                    });
                    return;
                }
                record(begun, call.join());
            }
        }

        private void record(long begun, String code) {
            if (count == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * count);
            }
            latencies[count++] = System.nanoTime() - begun;
            if (code != null) {
                errors.merge(code, 1L, Long::sum);
            }
        }
    }

    /** All turns of one kind of calls. */
    private final class Measurement {
        private final Calls calls;
        private final List<Caller> callers = new ArrayList<>();
        private double elapsed;
        private double cpu;

        Measurement(Calls calls) {
            this.calls = calls;
            for (int at = 0; at < (int) number("concurrency"); at++) {
                callers.add(new Caller(calls, at));
            }
        }

        void run(double seconds) {
            double cpuBefore = cpuSeconds();
            long begun = System.nanoTime();
            CountDownLatch running = new CountDownLatch(callers.size());
            callers.forEach(each -> each.start(begun + (long) (seconds * 1e9), running));
            try {
                running.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            elapsed += (System.nanoTime() - begun) / 1e9;
            cpu += cpuSeconds() - cpuBefore;
        }

        /** Forgets what was measured so far. */
        void reset() {
            callers.forEach(each -> {
                each.count = 0;
                each.errors.clear();
            });
            elapsed = 0;
            cpu = 0;
        }

        int requests() {
            return callers.stream().mapToInt(each -> each.count).sum();
        }

        double cpuPerRequest() {
            return cpu * 1e6 / requests();
        }

        String json(String indent) {
            long[] all = callers.stream().flatMapToLong(each -> Arrays.stream(each.latencies, 0, each.count))
                    .sorted().toArray();
            Map<String, Long> errors = new TreeMap<>();
            callers.forEach(each -> each.errors.forEach((code, number) -> errors.merge(code, number, Long::sum)));
            List<String> shown = errors.entrySet().stream()
                    .map(each -> "\"" + each.getKey() + "\": " + each.getValue()).toList();
            List<String> fields = new ArrayList<>();
            Metrics metrics = calls instanceof Library library ? library.client().metrics() : null;
            if (metrics != null) {
                fields.add("\"preset\": \"" + options.get("preset") + "\"");
            }
            fields.add("\"concurrency\": " + callers.size());
            fields.add(decimal("seconds", elapsed));
            fields.add("\"requests\": " + all.length);
            fields.add(decimal("requests_per_s", all.length / elapsed));
            fields.add(decimal("p50_us", quantile(all, 0.5)));
            fields.add(decimal("p99_us", quantile(all, 0.99)));
            fields.add(decimal("p999_us", quantile(all, 0.999)));
            fields.add("\"errors\": {" + String.join(", ", shown) + "}");
            fields.add("\"connections\": " + (metrics == null ? 1 : metrics.connections()));
            fields.add("\"retries\": " + (metrics == null ? 0 : metrics.retries()));
            fields.add(decimal("cpu_seconds", cpu));
            fields.add(decimal("cpu_us_per_request", cpuPerRequest()));
            return "{\n" + indent + "  " + String.join(",\n" + indent + "  ", fields) + "\n" + indent + "}";
        }
    }

    private static String decimal(String name, double number) {
        return String.format(Locale.ROOT, "\"%s\": %.3f", name, Double.isFinite(number) ? number : 0);
    }

    /** Returns the microseconds that this share of the sorted latencies does not exceed. */
    private static double quantile(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[Math.min((int) (share * sorted.length), sorted.length - 1)] / 1e3;
    }

    private static double cpuSeconds() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
    }

    private void measure() {
        Configuration preset = Configurations.named(options.get("preset"));
        int inFlightMax = (int) number("in-flight-max");
        Configuration configuration = inFlightMax > 0 ? preset.withRequestsInFlightMax(inFlightMax) : preset;
        String cache = options.get("cache");
        keys = new String[(int) number("key-space")];
        for (int at = 0; at < keys.length; at++) {
            keys[at] = "bench:" + at;
        }
        value = "x".repeat((int) number("value-bytes")).getBytes(java.nio.charset.StandardCharsets.UTF_8);
        double seconds = number("seconds");
        try (Library library = new Library(
                CacheClient.create(credentials(), configuration, Duration.ofHours(1)), cache)) {
            connect(library.client());
            fill(library);
            Measurement own = new Measurement(library);
            if (!options.containsKey("compare")) {
                own.run(seconds);
                out.println(own.json(""));
                return;
            }
            try (Stub bare = new Stub(options.get("address"), cache, Duration.ZERO);
                    Stub timed = new Stub(options.get("address"), cache, configuration.deadline())) {
                compare(own, new Measurement(bare), new Measurement(timed), seconds);
            }
        }
    }

    private static void connect(CacheClient client) {
        DoneResult opened = client.connect().join();
        // The first connection of a process loads the classes of the network, which may take longer than a deadline.
        for (int attempt = 1; attempt < 5 && opened instanceof DoneResult.Error error
                && error.code() == ErrorCode.TIMEOUT; attempt++) {
            opened = client.connect().join();
        }
        if (opened instanceof DoneResult.Error error) {
            throw error.error().toException();
        }
    }

    private void fill(Library library) {
        int batch = 100;
        for (int from = 0; from < keys.length; from += batch) {
            List<CompletableFuture<String>> calls = new ArrayList<>();
            for (int at = from; at < Math.min(from + batch, keys.length); at++) {
                calls.add(library.set(keys[at], value));
            }
            for (int at = 0; at < calls.size(); at++) {
                String failure = calls.get(at).join();
                // The first calls of a process are slow, and may take longer than the deadline of the preset.
                for (int attempt = 1; attempt < 5 && ErrorCode.TIMEOUT.name().equals(failure); attempt++) {
                    failure = library.set(keys[from + at], value).join();
                }
                if (failure != null) {
                    throw new IllegalArgumentException("cannot fill the cache: " + failure
                            + "; check its name and the token");
                }
            }
        }
    }

    private void compare(Measurement own, Measurement bare, Measurement timed, double seconds) {
        List<Measurement> all = List.of(bare, own, timed);
        // The first turns compile the code.
        for (int turn = 0; turn < 4; turn++) {
            all.forEach(each -> each.run(Math.min(TURN_SECONDS, seconds)));
        }
        all.forEach(Measurement::reset);
        for (double passed = 0; passed < seconds; passed += TURN_SECONDS) {
            all.forEach(each -> each.run(Math.min(TURN_SECONDS, seconds)));
        }
        out.println("{\n  \"library\": " + own.json("  ") + ",\n  \"stub\": " + bare.json("  ")
                + ",\n  \"stub_with_deadline\": " + timed.json("  ") + ",\n  "
                + decimal("cpu_over_stub", own.cpuPerRequest() / bare.cpuPerRequest()) + ",\n  "
                + decimal("cpu_over_stub_with_deadline", own.cpuPerRequest() / timed.cpuPerRequest()) + "\n}");
    }
}
