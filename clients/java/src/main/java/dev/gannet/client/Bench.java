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
 * Each of the concurrent callers begins its next call when its previous one has ended. The measurement begins after a
 * warm-up of half its duration, and of at most 1 s. Latencies are those that a caller sees, with the wait in the
 * client's queue. The environment variable GANNET_TOKEN has the token, if the server needs one.
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
              --key-space N           number of keys (1000)
              --value-bytes N         size of each value (100)
              --get-ratio N           share of gets; the other calls are sets (1)
              --compare               also measure the bare stub, in turn
              --tls                   use TLS, also for a local address
              --ca-file PATH          PEM file with the CA of the server
            """;

    private static final double TURN_SECONDS = 0.5;
    /** The number of keys that each batch of the preparation stores. */
    private static final int BATCH_KEYS = 1_000;

    private final Map<String, String> options = new TreeMap<>(Map.of(
            "address", "127.0.0.1:7000", "cache", "default", "preset", "InRegion.Default", "concurrency", "100",
            "seconds", "10", "in-flight-max", "0", "key-space", "1000", "value-bytes", "100", "get-ratio", "1"));
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
        private long begin;
        private long end;
        private CountDownLatch running;

        Caller(Calls calls, long seed) {
            this.calls = calls;
            random = new Random(seed);
        }

        /** Calls until an instant, and records the calls that end after another one. */
        void start(long from, long until, CountDownLatch latch) {
            begin = from;
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
            long now = System.nanoTime();
            if (now < begin || now >= end) {
                return;
            }
            if (count == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * count);
            }
            latencies[count++] = now - begun;
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

        void run(double warmUp, double seconds) {
            long begin = System.nanoTime() + (long) (warmUp * 1e9);
            long end = begin + (long) (seconds * 1e9);
            CountDownLatch running = new CountDownLatch(callers.size());
            // The callers begin on a thread of their own: thousands of first calls take longer than a short warm-up.
            Thread beginning = new Thread(() -> callers.forEach(each -> each.start(begin, end, running)));
            beginning.start();
            try {
                TimeUnit.NANOSECONDS.sleep(begin - System.nanoTime());
                double cpuBefore = cpuSeconds();
                TimeUnit.NANOSECONDS.sleep(end - System.nanoTime());
                cpu += cpuSeconds() - cpuBefore;
                elapsed += seconds;
                beginning.join();
                running.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
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

        /** Returns the number of calls without an error. */
        long requests() {
            long failed = callers.stream().flatMap(each -> each.errors.values().stream())
                    .mapToLong(Long::longValue).sum();
            return callers.stream().mapToLong(each -> each.count).sum() - failed;
        }

        double cpuPerRequest() {
            return cpu * 1e6 / Math.max(1, requests());
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
            fields.add("\"requests\": " + requests());
            fields.add(decimal("requests_per_s", requests() / elapsed));
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
        fill(cache);
        try (Library library = new Library(
                CacheClient.create(credentials(), configuration, Duration.ofHours(1)), cache)) {
            connect(library.client());
            Measurement own = new Measurement(library);
            if (!options.containsKey("compare")) {
                own.run(Math.min(1, seconds / 2), seconds);
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

    /** Stores all keys, with a client of its own, because a preset for low latency has a short deadline. */
    private void fill(String cache) {
        try (CacheClient client =
                CacheClient.create(credentials(), Configurations.named("Laptop"), Duration.ofHours(1))) {
            connect(client);
            String text = new String(value, java.nio.charset.StandardCharsets.UTF_8);
            for (int from = 0; from < keys.length; from += BATCH_KEYS) {
                Map<String, String> batch = new TreeMap<>();
                for (int at = from; at < Math.min(from + BATCH_KEYS, keys.length); at++) {
                    batch.put(keys[at], text);
                }
                if (client.setBatch(cache, batch).join() instanceof DoneResult.Error error) {
                    throw error.error().toException();
                }
            }
        }
    }

    private void compare(Measurement own, Measurement bare, Measurement timed, double seconds) {
        List<Measurement> all = List.of(bare, own, timed);
        // The first turns compile the code.
        for (int turn = 0; turn < 4; turn++) {
            all.forEach(each -> each.run(0, Math.min(TURN_SECONDS, seconds)));
        }
        all.forEach(Measurement::reset);
        for (double passed = 0; passed < seconds; passed += TURN_SECONDS) {
            all.forEach(each -> each.run(0, Math.min(TURN_SECONDS, seconds)));
        }
        out.println("{\n  \"library\": " + own.json("  ") + ",\n  \"stub\": " + bare.json("  ")
                + ",\n  \"stub_with_deadline\": " + timed.json("  ") + ",\n  "
                + decimal("cpu_over_stub", own.cpuPerRequest() / bare.cpuPerRequest()) + ",\n  "
                + decimal("cpu_over_stub_with_deadline", own.cpuPerRequest() / timed.cpuPerRequest()) + "\n}");
    }
}
