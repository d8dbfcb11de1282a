package dev.gannet.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.dataformat.toml.TomlMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** The table of presets, which all client libraries share. */
class PresetsTest {
    private static final Path TABLE = Servers.REPOSITORY.resolve("clients/presets.toml");
    private static final Path GENERATED = Path.of("src/main/java/dev/gannet/client/Presets.java");

    private final Map<String, String> latest = new TreeMap<>();
    private final Map<String, JsonNode> versions = new TreeMap<>();

    /** With {@code -Dgannet.generate=true}, the test writes the table instead of comparing it. */
    @Test
    void generatedTableIsCurrent() throws IOException {
        collect("", new TomlMapper().readTree(TABLE.toFile()));
        String expected = source();
        if (Boolean.getBoolean("gannet.generate")) {
            Files.writeString(GENERATED, expected);
        }
        assertEquals(expected, Files.readString(GENERATED), "run mvn test -Dtest=PresetsTest -Dgannet.generate=true");
    }

    /** A frozen version must never change, not even together with the shared table. */
    @Test
    void valuesOfVersion1AreFrozen() {
        assertFrozen("Laptop.v1", 15_000, 200, 2, false, 5_000, 5_000);
        assertFrozen("InRegion.Default.v1", 1_100, 400, 4, true, 5_000, 1_000);
        assertFrozen("InRegion.LowLatency.v1", 500, 20, 1, true, 5_000, 1_000);
        assertFrozen("Lambda.v1", 1_100, 400, 4, true, 0, 1_000);
    }

    private static void assertFrozen(
            String name, int deadlineMs, int inFlight, int connections, boolean eager, int keepalive, int connect) {
        Configuration preset = Configurations.named(name);
        assertEquals(Duration.ofMillis(deadlineMs), preset.deadline(), name);
        assertEquals(inFlight, preset.requestsInFlightMax(), name);
        assertEquals(connections, preset.connectionsMax(), name);
        assertEquals(eager, preset.eagerConnect(), name);
        assertEquals(Duration.ofMillis(keepalive), preset.keepaliveTime(), name);
        assertEquals(Duration.ofMillis(1_000), preset.keepaliveTimeout(), name);
        assertEquals(keepalive > 0, preset.keepaliveWithoutCalls(), name);
        assertEquals(Duration.ofMillis(connect), preset.connectTimeout(), name);
        assertEquals(16_384, preset.requestsQueuedMax(), name);
        assertEquals(100, preset.streamsPerConnection(), name);
        assertEquals(Duration.ofMillis(50), preset.reconnectDelayMin(), name);
        assertEquals(Duration.ofMillis(1_000), preset.reconnectDelayMax(), name);
        assertEquals(RetryStrategy.fixedCount(3), preset.retryStrategy(), name);
        assertEquals(new RetryBudget(10, 10), preset.retryBudget(), name);
        assertEquals(10_485_760, preset.messageBytesMax(), name);
        assertEquals(Presets.VERSIONS.get(name).connectionsMax(), preset.connectionsMax(), name);
    }

    @Test
    void unknownPresetNamesThePresets() {
        CacheException thrown = assertThrows(CacheException.class, () -> Configurations.named("Desktop"));
        Expect.check(
                ErrorCode.INVALID_ARGUMENT, thrown.error(), "InRegion.Default, InRegion.LowLatency, Lambda, Laptop");
    }

    private void collect(String name, JsonNode table) {
        for (Map.Entry<String, JsonNode> each : table.properties()) {
            String path = name.isEmpty() ? each.getKey() : name + "." + each.getKey();
            if (each.getKey().equals("latest")) {
                latest.put(name, each.getValue().asText());
            } else if (each.getValue().has("deadline_ms")) {
                versions.put(path, each.getValue());
            } else {
                collect(path, each.getValue());
            }
        }
    }

    private String source() {
        StringBuilder text = new StringBuilder("// Generated from clients/presets.toml by PresetsTest. Do not edit.\n")
                .append("package dev.gannet.client;\n\nimport java.util.Map;\n\n/** The table of presets. */\n")
                .append("final class Presets {\n    static final Map<String, String> LATEST = Map.ofEntries(\n");
        List<String> entries = new ArrayList<>();
        latest.forEach((name, version) ->
                entries.add("            Map.entry(\"%s\", \"%s\")".formatted(name, version)));
        text.append(String.join(",\n", entries)).append(");\n\n")
                .append("    static final Map<String, Preset> VERSIONS = Map.ofEntries(\n");
        entries.clear();
        versions.forEach((name, values) -> entries.add(
                "            Map.entry(\n                    \"%s\",\n                    new Preset(\n%s))"
                        .formatted(name, String.join(",\n", arguments(values)))));
        return text.append(String.join(",\n", entries)).append(");\n\n    private Presets() {}\n}\n").toString();
    }

    private static List<String> arguments(JsonNode values) {
        List<String> keys = Arrays.stream(Preset.class.getRecordComponents())
                .map(each -> each.getName().replaceAll("([A-Z])", "_$1").toLowerCase(java.util.Locale.ROOT)).toList();
        assertEquals(keys.stream().sorted().toList(),
                values.properties().stream().map(Map.Entry::getKey).sorted().toList(), "settings of a preset");
        return keys.stream().map(key -> "                            " + values.get(key)).toList();
    }
}
