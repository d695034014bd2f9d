/* Tests the table: every row has an opener, every opener a row, and each writes the record. */
package seawall.path;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RowsTest {
    private static final int BYTES = 4096;
    private static final long PLACES = 4;

    @TempDir
    Path folder;

    @Test
    void everyRowHasAnOpenerAndEveryOpenerARow() {
        List<String> ids = Row.ALL.stream().map(Row::id).collect(Collectors.toList());
        assertEquals(ids.size(), ids.stream().distinct().count());
        assertEquals(ids.stream().sorted().toList(), Ways.OPENERS.keySet().stream().sorted().toList());
    }

    @Test
    void aRowThatNeedsANewerJdkSaysSoAndIsNeverReplaced() {
        // Among plain classes there is no other version of Foreign, whatever the JDK.
        for (Row row : Row.ALL) {
            String reason = Ways.unavailable(row);
            assertEquals(row.jdk() > 17, reason != null, row.id());
            if (reason != null) {
                assertTrue(reason.contains("--jdk"), reason);
                assertThrows(Unavailable.class, () -> Ways.open(row, folder.resolve("none"), 0, new Record(1)));
            }
        }
    }

    /** Every row that runs among plain classes puts its record where it belongs; the others are seen to by the jar's test. */
    @Test
    void everyRowWritesTheRecordInEachPlace() throws IOException {
        Record record = new Record(BYTES);
        for (Row row : Row.ALL) {
            Path file = folder.resolve(row.id());
            boolean growing = row.file() == Row.Kind.GROWING;
            Files.write(file, growing ? new byte[0] : new byte[(int) PLACES * BYTES]);
            Order order = new Order(Order.Pace.TIGHT, 0, PLACES, Long.MAX_VALUE / 4, PLACES * BYTES, PLACES, 1, List.of(file));
            Sample sample = new Sample();
            try {
                Loop.run(row, order, record, sample);
            } catch (Unavailable e) {
                continue;
            }
            assertEquals(PLACES, sample.service.getTotalCount(), row.id());
            byte[] found = Files.readAllBytes(file);
            assertEquals(PLACES * BYTES, found.length, row.id());
            for (int place = 0; place < PLACES; place++) {
                byte[] at = Arrays.copyOfRange(found, place * BYTES, (place + 1) * BYTES);
                assertArrayEquals(record.heap, at, row.id() + " in place " + place);
            }
        }
    }
}
