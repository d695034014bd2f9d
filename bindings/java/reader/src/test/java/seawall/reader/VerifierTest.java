package seawall.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that every damaged place is reported, and that damage costs no more than it must. */
class VerifierTest {
    @TempDir
    Path dir;

    /** Two segments of eight records each, one batch a record. */
    private SampleLog sixteen() throws IOException {
        SampleLog log = new SampleLog(dir);
        for (int segment = 0; segment < 2; segment++) {
            log.start();
            for (int i = 0; i < 8; i++) {
                log.record("record " + (segment * 8 + i)).batch();
            }
            if (segment == 1) {
                log.close();
            }
            log.save();
        }
        return log;
    }

    @Test
    void aSoundLogHasNoDamage() throws IOException {
        SampleLog log = sixteen();
        Files.write(dir.resolve("notes.txt"), new byte[1]);
        Files.write(log.path(3), new byte[SampleLog.SEGMENT]);
        Report report = StoredLog.verify(dir);
        assertTrue(report.isSound(), report::toString);
        assertEquals(16, report.records());
        assertEquals(17, report.batches());
        assertEquals(2, report.segments());
        assertEquals(1, report.spares());
        assertEquals(log.lsn, report.endLsn());
        assertEquals(Tail.Kind.CLEAN, report.tail().kind());
        assertEquals(List.of("notes.txt"), report.foreignFiles());
        assertEquals(Durability.POWER_LOSS, report.durability());
    }

    @Test
    void aDamagedBatchCostsOneBatch() throws IOException {
        for (int batch = 0; batch < 8; batch++) {
            SampleLog log = sixteen();
            log.damage(1, (1 + batch) * SampleLog.BLOCK + 140, 1);
            Report report = StoredLog.verify(dir);
            assertEquals(15, report.records(), "batch " + batch);
            assertEquals(1, report.damage().size(), report::toString);
            Damage damage = report.damage().get(0);
            assertEquals((1 + batch) * SampleLog.BLOCK, damage.offset());
            assertEquals(log.path(1), damage.path());
        }
    }

    @Test
    void lostHeadersCostNoRecord() throws IOException {
        for (List<Integer> lost : List.of(List.of(1), List.of(2), List.of(1, 2))) {
            SampleLog log = sixteen();
            for (int segment : lost) {
                log.damage(segment, 0, 8);
                log.damage(segment, SampleLog.SEGMENT - SampleLog.BLOCK, 8);
            }
            Report report = StoredLog.verify(dir);
            assertEquals(16, report.records(), report::toString);
            assertEquals(lost.size(), report.damage().size(), report::toString);
            assertEquals(StoredLog.LOST_HEADER, report.damage().get(0).what());
        }
    }

    @Test
    void aSegmentThatWasCutShortIsReadAsFarAsItGoes() throws IOException {
        SampleLog log = sixteen();
        byte[] first = Files.readAllBytes(log.path(1));
        for (int left = 0; left <= 9; left++) {
            Files.write(log.path(1), java.util.Arrays.copyOf(first, left * SampleLog.BLOCK));
            Report report = StoredLog.verify(dir);
            assertFalse(report.isSound(), "cut to " + left + " blocks");
            assertEquals(8 + Math.max(0, left - 1), report.records(), "cut to " + left + " blocks: " + report);
        }
    }

    @Test
    void aMissingSegmentIsReported() throws IOException {
        SampleLog log = sixteen();
        log.start().record("seventeen").batch().close().save();
        Files.delete(log.path(2));
        Report report = StoredLog.verify(dir);
        assertEquals(9, report.records());
        assertEquals("segment 2 is missing after this one", report.damage().get(0).what());
        Files.delete(log.path(1));
        report = StoredLog.verify(dir);
        assertEquals("segment 2 before this one is missing", report.damage().get(0).what());
    }

    /** Damage anywhere is reported or harmless, and no wrong record is ever handed out. */
    @Test
    void damageToAnyPartOfASegmentIsNoticedOrHarmless() throws IOException {
        for (int at = 0; at < 11 * SampleLog.BLOCK; at += 61) {
            SampleLog log = sixteen();
            log.damage(1, at, 1);
            Report report = StoredLog.verify(dir);
            boolean inRecords = at >= SampleLog.BLOCK && at < 9 * SampleLog.BLOCK;
            assertEquals(inRecords, !report.isSound(), "byte " + at + ": " + report);
            int next = 0;
            try (StoredLog open = StoredLog.open(dir);
                    RecordReader records = open.read(0)) {
                for (LogRecord record = records.next(); record != null; record = records.next()) {
                    assertEquals("record " + next++, new String(record.bytes(), StandardCharsets.UTF_8), "byte " + at);
                }
                assertFalse(inRecords, "byte " + at);
            } catch (LogFormatException damaged) {
                assertEquals(LogFormatException.Reason.DAMAGED, damaged.reason());
                assertTrue(inRecords, "byte " + at);
            }
        }
    }

    @Test
    void theProgramPrintsWhatWasFoundAndFailsOnDamage() throws IOException {
        SampleLog log = sixteen();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        assertEquals(0, run(out, err, "verify", dir.toString()));
        assertEquals(0, run(out, err, "cat", dir.toString()));
        assertTrue(out.toString(StandardCharsets.UTF_8).contains("16 records in 17 batches"), out::toString);
        assertTrue(out.toString(StandardCharsets.UTF_8).contains("0 - cmVjb3JkIDA="), out::toString);
        log.damage(1, SampleLog.BLOCK + 140, 1);
        assertEquals(1, run(out, err, "verify", dir.toString()));
        assertEquals(1, run(out, err, "cat", dir.toString()));
        assertEquals(2, run(out, err));
        assertEquals(2, run(out, err, "cat", dir.toString(), "x"));
        assertTrue(err.toString(StandardCharsets.UTF_8).contains("STREAM is a number"), err::toString);
    }

    private static int run(ByteArrayOutputStream out, ByteArrayOutputStream err, String... arguments) {
        PrintStream to = new PrintStream(out, true, StandardCharsets.UTF_8);
        return Main.run(arguments, to, new PrintStream(err, true, StandardCharsets.UTF_8));
    }
}
