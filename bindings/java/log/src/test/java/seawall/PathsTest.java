package seawall;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Tests that a log is made in the directory that was named, whatever the bytes of its name are. */
class PathsTest extends Fixture {
    private Path odd(String name) {
        return Path.of(URI.create(dir.toUri() + name));
    }

    @Test
    void aDirectoryIsItsBytes() throws Exception {
        for (String name : List.of("plain", "%FF%FE", "a%20b", "%25FF", "%C3%BC", "u%CC%88", "%F0%9F%98%80", "%0A", "a%23b%3Fc", "%5C")) {
            Path path = Files.createDirectory(odd(name));
            try (Log log = Log.open(path, small())) {
                log.commit(log.append(new byte[1]));
                LogLockedException locked = assertThrows(LogLockedException.class, () -> Log.open(path));
                assertTrue(locked.path().startsWith(path), name);
                log.backup(odd(name + "-copy"));
            }
            assertTrue(Files.exists(path.resolve("LOCK")), name);
            assertTrue(Files.exists(odd(name + "-copy")), name);
            assertEquals(1, Log.verify(path).records());
            try (View view = View.open(path)) {
                assertTrue(view.state().endLsn() > 0);
            }
            Path segment = path.resolve("00000000000000000001.seg");
            damage(segment, 512 + 140);
            assertEquals(segment, Log.verify(path).damage().getFirst().path(), name);
        }
        try (Stream<Path> made = Files.list(dir)) {
            assertEquals(20, made.count(), "no directory but those that were named");
        }
    }

    @Test
    void aRelativePathAndTheRootAreWhatTheyAre() {
        assertArrayEquals(Path.of("a/../b").toAbsolutePath().toString().getBytes(), Paths.bytes(Path.of("a/../b")));
        assertArrayEquals(new byte[] {'/'}, Paths.bytes(Path.of("/")));
        assertEquals(null, Paths.of(null));
    }

    @Test
    void whatIsNoPathOfThisSystemIsRefused() throws Exception {
        Path zip = dir.resolve("logs.zip");
        try (FileSystem other = FileSystems.newFileSystem(URI.create("jar:" + zip.toUri()), Map.of("create", "true"))) {
            assertThrows(IllegalArgumentException.class, () -> Log.open(other.getPath("/log")));
            assertThrows(IllegalArgumentException.class, () -> Log.verify(other.getPath("/log")));
            assertThrows(IllegalArgumentException.class, () -> View.open(other.getPath("/log")));
        }
    }

    @Test
    void thePathOfAnExceptionOutlivesItsBeingWrittenAndRead() throws Exception {
        Path path = odd("%FF");
        SeawallException refusal = assertThrows(SeawallException.class, () -> Log.open(path, new LogOptions().create(false)));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(refusal);
        }
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            assertEquals(path, ((SeawallException) in.readObject()).path());
        }
    }
}
