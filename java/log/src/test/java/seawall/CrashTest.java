package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Kills a JVM that writes, and looks for every record that it had acknowledged. */
class CrashTest extends Fixture {
    private static final int ACKNOWLEDGED = 400;

    @Test
    void everyAcknowledgedRecordOfAKilledJvmIsThere() throws Exception {
        Map<Long, String> acknowledged = new HashMap<>();
        Process child = jvm(Child.class, "writers", dir.toString()).start();
        try (BufferedReader printed = child.inputReader(UTF_8)) {
            String line = printed.readLine();
            for (; line != null; line = printed.readLine()) {
                int space = line.indexOf(' ');
                acknowledged.put(Long.parseLong(line.substring(0, space)), line.substring(space + 1));
                if (acknowledged.size() == ACKNOWLEDGED) {
                    // SIGKILL; by its handle, which leaves the pipe open, because what it had printed by then counts.
                    child.toHandle().destroyForcibly();
                }
            }
        }
        assertEquals(128 + 9, child.waitFor());
        assertTrue(acknowledged.size() >= ACKNOWLEDGED, acknowledged.size() + " records");
        Map<Long, String> found = new HashMap<>();
        try (Log log = Log.open(dir, small().create(false))) {
            assertEquals(Tail.Kind.TORN, log.opened().tail().kind());
            try (Cursor cursor = log.read(0)) {
                while (cursor.next()) {
                    found.put(cursor.endLsn(), new String(cursor.bytes(), UTF_8));
                }
            }
        }
        acknowledged.forEach((lsn, text) -> assertEquals(text, found.get(lsn)));
        assertTrue(Log.verify(dir).isSound());
    }
}
