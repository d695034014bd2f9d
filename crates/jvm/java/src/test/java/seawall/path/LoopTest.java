/* Tests the timing loop: file changes timed separately, the requested number of writes, schedules timed from arrival. */
package seawall.path;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LoopTest {
    private static final int BYTES = 64;

    @TempDir
    Path folder;

    private Sample run(Order.Pace pace, long writes, long places, long each, int files) throws IOException, Unavailable {
        List<Path> paths = new java.util.ArrayList<>();
        for (int i = 0; i < files; i++) {
            paths.add(Files.write(folder.resolve("f" + i), new byte[(int) places * BYTES]));
        }
        Sample sample = new Sample();
        Order order = new Order(pace, 1000, writes, Long.MAX_VALUE / 4, places * BYTES, places, each, paths);
        Loop.run(Row.find("channel-direct-at").orElseThrow(), order, new Record(BYTES), sample);
        return sample;
    }

    @Test
    void aFullFileIsLeftForTheNextAndThatIsNoWrite() throws Exception {
        Sample sample = run(Order.Pace.CLOSED, 100, 5, 4, 3);
        assertEquals(100, sample.service.getTotalCount());
        // 20 writes a file: the fifth is full when the loop ends.
        assertEquals(4, sample.roll.getTotalCount());
        assertEquals(0, sample.response.getTotalCount());
        for (int file = 0; file < 3; file++) {
            byte[] found = Files.readAllBytes(folder.resolve("f" + file));
            assertEquals(5 * BYTES, found.length);
            assertTrue(found[4 * BYTES] != 0 || found[4 * BYTES + 1] != 0, "the last place of file " + file);
        }
    }

    @Test
    void oneFileIsBegunAnewWithoutARollAndSoAreAllWhileWarmingUp() throws Exception {
        assertEquals(0, run(Order.Pace.CLOSED, 100, 5, 1, 1).roll.getTotalCount());
        assertEquals(0, run(Order.Pace.TIGHT, 100, 5, 1, 2).roll.getTotalCount());
    }

    @Test
    void onAScheduleEveryWriteHasAResponseNoShorterThanItsService() throws Exception {
        Sample sample = run(Order.Pace.SCHEDULED, 1000, 5, 1, 2);
        assertEquals(1000, sample.response.getTotalCount());
        assertTrue(sample.response.getMean() >= sample.service.getMean());
        assertTrue(sample.response.getMinValue() >= sample.service.getMinValue());
    }

    @Test
    void aBlockEndsWithItsTime() throws Exception {
        Path file = Files.write(folder.resolve("f"), new byte[BYTES]);
        Order order = new Order(Order.Pace.TIGHT, 0, Long.MAX_VALUE, 1_000_000, BYTES, 1, 1, List.of(file));
        Sample sample = new Sample();
        Loop.run(Row.find("raf-seek+write").orElseThrow(), order, new Record(BYTES), sample);
        assertTrue(sample.service.getTotalCount() > 0 && sample.elapsedNs >= 1_000_000);
    }
}
