/*
 * Finds the native library and loads it.
 *
 *     -Dseawall.native=PATH            that file
 *     otherwise                        META-INF/native/<os>-<arch>/ on the class path: this jar, or one beside it for another system
 *
 * A library inside a jar is copied to a temporary file that only this user can reach, loaded, and removed at once where the system
 * lets an open file go (not on Windows: there it goes when the JVM ends).
 *
 * Invariants: a library of another interface is refused by its version, never called; every opening without a library says why there is
 * none and what to do.
 */
package seawall;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

final class NativeLibrary {
    /** Names a library to use instead of the one in the jar. */
    static final String OVERRIDE = "seawall.native";

    /** The version of the interface that this code is written for. */
    static final int ABI_VERSION = 0;

    /** The library, or why there is none. */
    private static final Object FOUND = find();

    private NativeLibrary() {}

    /**
     * The library. What opens something calls this first: the class of its functions could not be initialised without it, and would say
     * that alone.
     */
    static SymbolLookup load() {
        if (FOUND instanceof SymbolLookup library) {
            return library;
        }
        UnsatisfiedLinkError first = (UnsatisfiedLinkError) FOUND;
        throw unsatisfied(first.getMessage(), first.getCause());
    }

    private static Object find() {
        Module user = NativeLibrary.class.getModule();
        try {
            return checked(named());
        } catch (IllegalCallerException denied) {
            return unsatisfied("native access is denied, which the log needs: start the JVM with --enable-native-access="
                    + (user.isNamed() ? user.getName() : "ALL-UNNAMED"), denied);
        } catch (UnsatisfiedLinkError lacking) {
            return lacking;
        }
    }

    private static SymbolLookup named() {
        String named = System.getProperty(OVERRIDE);
        if (named != null) {
            return lookup(Path.of(named).toAbsolutePath(), "the library that -D" + OVERRIDE + " names could not be loaded");
        }
        String resource = resource(platform(), fileName());
        try (InputStream packed = open(resource)) {
            if (packed == null) {
                throw new UnsatisfiedLinkError("no native library for " + platform() + " is on the class path (looked for "
                        + resource.substring(1) + "): add the seawall jar of this platform, or name a library with -D" + OVERRIDE
                        + "=PATH");
            }
            return unpack(packed);
        } catch (IOException refused) {
            throw unsatisfied("the native library could not be unpacked to " + System.getProperty("java.io.tmpdir")
                    + " (name another folder with -Djava.io.tmpdir=DIR, or a library with -D" + OVERRIDE + "=PATH): " + refused, refused);
        }
    }

    /** A file of this jar or, on the module path as well, of one beside it. */
    private static InputStream open(String resource) {
        InputStream own = NativeLibrary.class.getResourceAsStream(resource);
        ClassLoader loader = NativeLibrary.class.getClassLoader();
        return own != null || loader == null ? own : loader.getResourceAsStream(resource.substring(1));
    }

    private static SymbolLookup unpack(InputStream packed) throws IOException {
        Path file = Files.createTempFile("seawall-", fileName());
        try {
            Files.copy(packed, file, StandardCopyOption.REPLACE_EXISTING);
            return lookup(file, "the native library could not be loaded from " + file.getParent() + " (if that is mounted noexec, name"
                    + " another folder with -Djava.io.tmpdir=DIR, or a library with -D" + OVERRIDE + "=PATH)");
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
            throw unsatisfied(what + ": " + reason(file, refused), refused);
        }
    }

    /** What the system says, which the lookup keeps to itself. */
    private static String reason(Path file, IllegalArgumentException refused) {
        try {
            System.load(file.toString());
            return refused.getMessage();
        } catch (UnsatisfiedLinkError reason) {
            // It begins with the file, twice.
            return reason.getMessage().replace(file + ": " + file + ": ", file + ": ");
        }
    }

    private static SymbolLookup checked(SymbolLookup library) {
        MemorySegment function = library.find("seawall_abi_version")
                .orElseThrow(() -> new UnsatisfiedLinkError("the native library is another one: it has no function seawall_abi_version"));
        int found;
        try {
            found = (int) Linker.nativeLinker().downcallHandle(function, FunctionDescriptor.of(ValueLayout.JAVA_INT)).invokeExact();
        } catch (RuntimeException | Error thrown) {
            throw thrown;
        } catch (Throwable impossible) {
            throw new IllegalStateException(impossible);
        }
        if (found != ABI_VERSION) {
            throw new UnsatisfiedLinkError("the native library has version " + found + " of the interface, this jar needs version "
                    + ABI_VERSION + ": use the library of the same release");
        }
        return library;
    }

    private static UnsatisfiedLinkError unsatisfied(String message, Throwable cause) {
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
