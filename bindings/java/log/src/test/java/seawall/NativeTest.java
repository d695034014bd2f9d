package seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.StructLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** Holds this side of the native interface against the library's own account of it. */
class NativeTest {
    private static final Path HEADER = Path.of(System.getProperty("seawall.root"), "bindings/c/include/seawall.h");

    @Test
    void everyStructureLiesInMemoryAsTheLibrarySays() {
        String account = Structs.text(Native.pointerFrom(Native.LAYOUT));
        for (StructLayout layout : Structs.ALL) {
            String name = layout.name().orElseThrow();
            List<String> expected = account.lines().filter(line -> line.startsWith(name + " ") || line.startsWith(name + ".")).toList();
            Stream<String> fields = layout.memberLayouts().stream()
                    .map(MemoryLayout::name)
                    .map(field -> field.orElseThrow())
                    .map(field -> name + "." + field + " " + Structs.offset(layout, field) + " "
                            + layout.select(MemoryLayout.PathElement.groupElement(field)).byteSize());
            List<String> ours = Stream.concat(Stream.of(name + " " + layout.byteSize()), fields).toList();
            assertEquals(expected, ours);
        }
    }

    @Test
    void everyCodeHasTheNameThatTheLibraryGivesIt() {
        for (ErrorCode code : ErrorCode.values()) {
            assertEquals(Structs.text(Native.pointerFrom(Native.ERROR_NAME, code.code())), code.label());
        }
        int next = -1 - ErrorCode.values().length;
        assertEquals("unknown", Structs.text(Native.pointerFrom(Native.ERROR_NAME, next)), "the library has a code more");
    }

    /** Functions of the header are called, or left out on purpose. */
    @Test
    void everyFunctionOfTheHeaderIsCalledOrLeftOutOnPurpose() throws Exception {
        List<String> leftOut = List.of("seawall_log_durable_word", "seawall_log_append_commit",
                "seawall_log_notify_fd", "seawall_salvage", "seawall_probe_run", "seawall_probe_free");
        Path sources = Path.of(System.getProperty("seawall.root"), "bindings/java/log/src/main/java/seawall");
        String called = Files.readString(sources.resolve("Native.java")) + Files.readString(sources.resolve("NativeLibrary.java"));
        Matcher function = Pattern.compile("\\b(seawall_\\w+)\\(").matcher(Files.readString(HEADER));
        List<String> missing = function.results()
                .map(found -> found.group(1))
                .distinct()
                .filter(name -> !called.contains('"' + name + '"') && !leftOut.contains(name))
                .collect(Collectors.toList());
        assertEquals(List.of(), missing);
        assertTrue(Files.readString(HEADER).contains("#define SEAWALL_ABI_VERSION " + NativeLibrary.ABI_VERSION + "\n"));
    }

    @Test
    void theLibraryOfThisPlatformLiesInTheJarWhereTheLoaderLooks() throws Exception {
        String resource = NativeLibrary.resource(NativeLibrary.platform(), System.mapLibraryName("seawall_ffi"));
        try (InputStream library = NativeLibrary.class.getResourceAsStream(resource)) {
            assertNotNull(library, resource);
        }
        record Row(String os, String arch, String platform) {}
        List<Row> rows = List.of(
                new Row("Linux", "amd64", "linux-x86_64"),
                new Row("Mac OS X", "aarch64", "macos-aarch64"),
                new Row("Windows 11", "amd64", "windows-x86_64"),
                new Row("SunOS", "amd64", "illumos-x86_64"));
        for (Row row : rows) {
            assertEquals(row.platform, NativeLibrary.platform(row.os, row.arch));
        }
    }

    /** What the figures of docs/java.md were measured with: a debug build checks assertions and overflows. */
    @Test
    void theLibraryInTheJarIsTheReleasedOne() {
        Assumptions.assumeTrue(System.getProperty(NativeLibrary.OVERRIDE) == null, "another library than that of the jar is named");
        String version = Structs.text(Native.pointerFrom(Native.VERSION));
        assertTrue(version.matches("[0-9]+\\.[0-9]+\\.[0-9]+"), version);
    }

    @Test
    void theUnpackedLibraryIsRemovedAtOnce() throws Exception {
        assertNotNull(Structs.text(Native.pointerFrom(Native.VERSION)));
        try (Stream<Path> left = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
            assertEquals(List.of(), left.filter(path -> path.toString().contains("seawall_ffi")).toList());
        }
    }

    @Test
    void anErrorCarriesCodeFileAndNumberOfTheSystem() {
        SeawallException refusal = assertThrows(SeawallException.class, () -> Log.open(Path.of("/proc/no-such-folder/log")));
        assertEquals(ErrorCode.IO, refusal.code());
        assertEquals(2, refusal.osError());
        assertTrue(refusal.path().startsWith("/proc/no-such-folder"), refusal::toString);
        SeawallException option =
                assertThrows(SeawallException.class, () -> Log.open(Path.of("x"), new LogOptions().set("no_such_option", 1)));
        assertEquals(ErrorCode.INVALID_OPTION, option.code());
    }
}
