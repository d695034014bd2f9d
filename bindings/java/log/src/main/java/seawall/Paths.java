/*
 * Turns paths into what the library takes and back: the bytes of their names on Unix, UTF-8 on Windows.
 *
 * A name on Unix is bytes, which need not be text in any character set: the bytes are those of the path's URI, never of its text.
 *
 * Invariant: what the library could not be given as it is, is refused: it would open another directory.
 */
package seawall;

import java.io.ByteArrayOutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Path;

final class Paths {
    private static final boolean WINDOWS = NativeLibrary.platform().startsWith("windows");
    private static final String PLAIN = "/-._~";

    private Paths() {}

    /** A path that ends with a zero byte. */
    static MemorySegment text(Arena arena, Path path) {
        byte[] bytes = bytes(path);
        MemorySegment text = arena.allocate(bytes.length + 1L);
        MemorySegment.copy(bytes, 0, text, ValueLayout.JAVA_BYTE, 0, bytes.length);
        return text;
    }

    static byte[] bytes(Path path) {
        if (path.getFileSystem() != FileSystems.getDefault()) {
            throw new IllegalArgumentException("a log lies in the default file system, and this path in another one: " + path.toUri());
        }
        return WINDOWS ? utf8(path.toAbsolutePath().toString()) : named(path.toUri().getRawPath());
    }

    private static byte[] utf8(String path) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(path));
            byte[] bytes = new byte[encoded.remaining()];
            encoded.get(bytes);
            return bytes;
        } catch (CharacterCodingException unpaired) {
            throw new IllegalArgumentException("the name of the directory is no Unicode text: rename it: " + path, unpaired);
        }
    }

    /** The bytes that the path of a URI names, without the slash that marks a directory. */
    private static byte[] named(String path) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        int end = path.length() > 1 && path.endsWith("/") ? path.length() - 1 : path.length();
        for (int i = 0; i < end; i++) {
            boolean escaped = path.charAt(i) == '%';
            bytes.write(escaped ? Integer.parseInt(path, i + 1, i + 3, 16) : path.charAt(i));
            i += escaped ? 2 : 0;
        }
        return bytes.toByteArray();
    }

    /** The path that the library names by these bytes; null for null. */
    static Path of(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        if (WINDOWS || bytes.length == 0 || bytes[0] != '/') {
            return Path.of(new String(bytes, StandardCharsets.UTF_8));
        }
        StringBuilder path = new StringBuilder("file://");
        for (byte at : bytes) {
            boolean plain = at > 0 && (Character.isLetterOrDigit(at) || PLAIN.indexOf(at) >= 0);
            path.append(plain ? String.valueOf((char) at) : String.format("%%%02X", at));
        }
        return Path.of(URI.create(path.toString()));
    }
}
