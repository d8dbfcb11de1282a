package dev.gannet.client;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The examples and the load program run. */
class ProgramsTest {
    private static String output(URLClassLoader examples, String name) throws ReflectiveOperationException {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setOut(new PrintStream(output, true, UTF_8));
        try {
            java.lang.reflect.Method main = examples.loadClass(name).getDeclaredMethod("main", String[].class);
            main.setAccessible(true);
            main.invoke(null, (Object) new String[] {Servers.shared().address()});
        } finally {
            System.setOut(before);
        }
        return output.toString(UTF_8);
    }

    @Test
    void examplesPrintTheirResults(@TempDir Path classes) throws IOException, ReflectiveOperationException {
        List<String> arguments = new ArrayList<>(List.of(
                "--release", "17", "-proc:none", "-Xlint:all", "-Werror", "-d", classes.toString(), "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"))));
        try (Stream<Path> sources = Files.list(Path.of("examples"))) {
            sources.forEach(path -> arguments.add(path.toString()));
        }
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new));
        assertEquals(0, status, "the examples compile without warnings");
        try (URLClassLoader examples = new URLClassLoader(
                new URL[] {classes.toUri().toURL()}, ProgramsTest.class.getClassLoader())) {
            String session = output(examples, "Session");
            assertTrue(session.contains("hello\n") && session.contains("[b, c]"), session);
            String logging = output(examples, "LoggingMiddleware");
            assertTrue(logging.contains("ListPushBack default FAILED_PRECONDITION"), logging);
            String friends = output(examples, "Friends");
            assertEquals("Ann and Dan are 2 apart, through Bob\nAnn and Eve are 3 apart, through Bob, Dan\n"
                    + "Ann may know Dan, by 2 common friends\n", friends);
            String load = output(examples, "Load");
            assertTrue(load.startsWith("2000 hits: p50 "), load);
        }
    }

    private static String bench(int status, String... arguments) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        assertEquals(status, new Bench(new PrintStream(output, true, UTF_8)).run(arguments), output::toString);
        return output.toString(UTF_8);
    }

    @Test
    void benchPrintsItsMeasurement() throws IOException {
        String address = Servers.shared().address();
        JsonNode alone = new ObjectMapper().readTree(bench(0, "--address", address, "--preset", "InRegion.LowLatency",
                "--concurrency", "50", "--seconds", "0.3", "--key-space", "100"));
        assertTrue(alone.get("requests").asLong() > 0, alone::toString);
        assertEquals(1, alone.get("connections").asInt());
        JsonNode compared = new ObjectMapper().readTree(bench(0, "--address", address, "--compare",
                "--concurrency", "2", "--seconds", "0.1", "--key-space", "100"));
        for (String name : List.of("library", "stub", "stub_with_deadline")) {
            assertTrue(compared.get(name).get("requests").asLong() > 0, compared::toString);
            assertEquals(0, compared.get(name).get("errors").size(), compared::toString);
        }
        assertTrue(bench(1, "--seconds", "soon").contains("it is no number; run bench --help"));
        assertTrue(bench(1, "--second", "1").contains("cannot use argument '--second'"));
        assertTrue(bench(1, "--compare", "--tls").contains("drop --compare"));
        assertTrue(bench(0, "--help").contains("--get-ratio"));
    }
}
