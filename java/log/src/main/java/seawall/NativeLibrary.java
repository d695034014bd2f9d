/*
 * Finds the native library and loads it.
 *
 *     -Dseawall.native=PATH            that file
 *     otherwise                        META-INF/native/<os>-<arch>/ on the class path: this jar, or one beside it for another system
 *
 * A library inside a jar is copied to a temporary file that only this user can reach, loaded, and removed at once where the system
 * lets an open file go (not on Windows: there it goes when the JVM ends).
 *
 * Invariant: a library of another interface is refused by its version, never called.
 */
package seawall;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/** The native library of this platform. */
final class NativeLibrary {
    /** Names a library to use instead of the one in the jar. */
    static final String OVERRIDE = "seawall.native";

    private NativeLibrary() {}

    static SymbolLookup load() {
        String named = System.getProperty(OVERRIDE);
        if (named != null) {
            return lookup(Path.of(named).toAbsolutePath(), "the file that -D" + OVERRIDE + " names");
        }
        String resource = resource(platform(), fileName());
        try (InputStream packed = NativeLibrary.class.getResourceAsStream(resource)) {
            if (packed == null) {
                throw new UnsatisfiedLinkError("no native library for " + platform() + " is on the class path (looked for "
                        + resource.substring(1) + "): add the seawall jar of this platform, or name a library with -D" + OVERRIDE
                        + "=PATH");
            }
            return unpack(packed);
        } catch (IOException refused) {
            throw unsatisfied("the native library could not be unpacked to " + System.getProperty("java.io.tmpdir")
                    + " (name another folder with -Djava.io.tmpdir, or a library with -D" + OVERRIDE + "): " + refused, refused);
        }
    }

    private static SymbolLookup unpack(InputStream packed) throws IOException {
        Path file = Files.createTempFile("seawall-", fileName());
        try {
            Files.copy(packed, file, StandardCopyOption.REPLACE_EXISTING);
            return lookup(file, "the library from the jar");
        } finally {
            try {
                Files.delete(file);
            } catch (IOException inUse) {
                file.toFile().deleteOnExit();
            }
        }
    }

    private static SymbolLookup lookup(Path file, String what) {
        try {
            return SymbolLookup.libraryLookup(file, Arena.global());
        } catch (IllegalArgumentException refused) {
            throw unsatisfied(what + " could not be loaded: " + file + ": " + refused.getMessage(), refused);
        }
    }

    private static UnsatisfiedLinkError unsatisfied(String message, Exception cause) {
        UnsatisfiedLinkError error = new UnsatisfiedLinkError(message);
        error.initCause(cause);
        return error;
    }

    /** Where a library lies in a jar. */
    static String resource(String platform, String fileName) {
        return "/META-INF/native/" + platform + "/" + fileName;
    }

    /** The operating system and processor, as the folders in the jar are named. */
    static String platform() {
        return platform(System.getProperty("os.name"), System.getProperty("os.arch"));
    }

    static String platform(String system, String processor) {
        String os = system.toLowerCase(Locale.ROOT);
        String arch = processor.toLowerCase(Locale.ROOT);
        String family = os.startsWith("mac") ? "macos" : os.startsWith("windows") ? "windows" : os.equals("sunos") ? "illumos" : os;
        return family + "-"
                + switch (arch) {
                    case "amd64", "x86_64" -> "x86_64";
                    case "aarch64", "arm64" -> "aarch64";
                    default -> arch;
                };
    }

    private static String fileName() {
        return System.mapLibraryName("seawall_ffi");
    }
}
