package seawall.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import seawall.reader.LogFormatException.Reason;

/** Tests what a reader has to honour: streams, cuts, trims, transactions, the end of the log. */
class StoredLogTest {
    @TempDir
    Path dir;

    SampleLog log;

    @BeforeEach
    void start() throws IOException {
        log = new SampleLog(dir).start();
    }

    static List<String> texts(RecordReader reader) throws IOException {
        List<String> texts = new ArrayList<>();
        try (reader) {
            for (LogRecord record = reader.next(); record != null; record = reader.next()) {
                texts.add(new String(record.bytes(), StandardCharsets.UTF_8));
            }
        }
        return texts;
    }

    private List<String> all() throws IOException {
        try (StoredLog open = StoredLog.open(dir)) {
            return texts(open.read(open.firstLsn()));
        }
    }

    private List<String> stream(int id) throws IOException {
        try (StoredLog open = StoredLog.open(dir)) {
            return texts(open.readStream(id, open.stream(id).map(StoredStream::first).orElse(0L)));
        }
    }

    private Reason refusal() {
        return assertThrows(LogFormatException.class, () -> StoredLog.open(dir)).reason();
    }

    @Test
    void recordsComeInOrderOverSegmentsWithTheirLsnsAndTransactions() throws IOException {
        log.record("debit", true).record("credit").batch().record("three").batch().save();
        log.start().record("four").batch().close().save();
        assertEquals(List.of("debit", "credit", "three", "four"), all());
        StoredLog open = StoredLog.open(dir);
        assertEquals(2, open.segments());
        assertEquals(new Tail(Tail.Kind.CLEAN, log.lsn, log.lsn), open.tail().orElseThrow());
        RecordReader records = open.read(9);
        LogRecord second = records.next();
        assertEquals(9, second.lsn());
        assertEquals(19, second.endLsn());
        assertTrue(second.endsTransaction());
        assertEquals(1_795_000_000L, second.time().getEpochSecond());
        assertEquals(Reason.BEYOND_END, assertThrows(LogFormatException.class, () -> open.read(log.lsn + 1)).reason());
    }

    @Test
    void whatLiesBeforeTheTrimIsNotShown() throws IOException {
        log.record("one").record("two").batch();
        log.trim = 7;
        log.record("three").batch().close().save();
        assertEquals(List.of("two", "three"), all());
        StoredLog open = StoredLog.open(dir);
        assertEquals(Reason.TRIMMED, assertThrows(LogFormatException.class, () -> open.read(0)).reason());
    }

    @Test
    void damageInFrontOfTheFirstRecordIsSteppedOverUnlessItIsOfAHeader() throws IOException {
        log.record("one").batch().ofStream(1, 0, "of a stream").batch();
        log.trim = log.here();
        log.streamsFrom = 1;
        log.record("two").batch().save().start().record("three").batch().close().save();
        for (int batch : new int[] {1, 2}) {
            log.damage(1, batch * SampleLog.BLOCK + 130, 1);
            assertEquals(List.of("two", "three"), all());
        }
        // A later record of the stream could be taken for the one that is damaged.
        StoredLog open = StoredLog.open(dir);
        assertEquals(Reason.DAMAGED, assertThrows(LogFormatException.class, open::streams).reason());
        log.damage(1, SampleLog.BLOCK + 48, 1);
        assertEquals(Reason.DAMAGED, assertThrows(LogFormatException.class, this::all).reason());
    }

    @Test
    void aCutHidesTheTailOfTheLogAndNoRecordOfAStream() throws IOException {
        long from = log.record("kept").here();
        log.record("cut").ofStream(5, 0, "of a stream").batch();
        log.tagged(6, 0, from, new byte[0]).record("new").batch().close().save();
        assertEquals(List.of("kept", "of a stream", "new"), all());
    }

    @Test
    void laterCutsTakeInEarlierOnesAndAStatementReplacesAll() throws IOException {
        log.record("a").record("b").record("c").batch();
        log.tagged(6, 0, 10, new byte[0]).record("d").batch();
        log.tagged(6, 0, 5, new byte[0]).record("e").batch();
        assertEquals(List.of("a", "e"), saved());
        // A new segment states that only b is cut; a statement that is no list of ranges states nothing.
        log.cutsFrom = 1;
        log.start().tagged(7, 0, 0, SampleLog.cuts(5, 10)).batch();
        log.tagged(7, 0, 0, SampleLog.cuts(9, 3)).tagged(7, 0, 0, SampleLog.cuts(1, 2, 2, 9)).tagged(7, 0, 0, new byte[8]).batch();
        assertEquals(List.of("a", "c", "d", "e"), saved());
    }

    private List<String> saved() throws IOException {
        log.save();
        return all();
    }

    @Test
    void aStreamIsWhatItsRecordsTrimsAndCutsLeave() throws IOException {
        for (int i = 0; i < 5; i++) {
            log.ofStream(7, i, "s" + i).ofStream(9, i, "t" + i).batch();
        }
        log.tagged(3, 7, 2, new byte[0]).tagged(4, 9, 3, new byte[0]).ofStream(9, 3, "t3 again").batch();
        log.save();
        assertEquals(List.of("s2", "s3", "s4"), stream(7));
        assertEquals(List.of("t0", "t1", "t2", "t3 again"), stream(9));
        log.tagged(3, 7, -1, new byte[0]).tagged(5, 9, 40, new byte[0]).ofStream(9, 40, "later").batch().save();
        assertEquals(List.of(), stream(7));
        assertEquals(List.of("later"), stream(9));
        StoredLog open = StoredLog.open(dir);
        assertEquals(1, open.streams().size());
        assertEquals(41, open.stream(9).orElseThrow().next());
        assertEquals(Reason.TRIMMED, assertThrows(LogFormatException.class, () -> open.readStream(9, 39)).reason());
        assertEquals(Reason.BEYOND_END, assertThrows(LogFormatException.class, () -> open.readStream(9, 42)).reason());
    }

    @Test
    void aRewrittenRecordIsReadOnceAndInItsPlace() throws IOException {
        log.ofStream(1, 0, "old").batch().ofStream(1, 1, "new").batch().save();
        log.streamsFrom = 1;
        log.start().tagged(2, 1, 0, "old".getBytes(StandardCharsets.UTF_8)).batch().close().save();
        assertEquals(List.of("old", "new"), stream(1));
        assertEquals(List.of("old", "new"), all());
        // The segment that held the first of them goes; the copy has its number.
        log.trim = 0;
        assertEquals(List.of("old", "new"), stream(1));
    }

    @Test
    void aStreamOfALogWithAGapSaysSo() throws IOException {
        log.ofStream(1, 0, "zero").ofStream(1, 5, "five").batch().close().save();
        StoredLog open = StoredLog.open(dir);
        RecordReader records = open.readStream(1, 0);
        assertEquals(0, records.next().sequence().getAsLong());
        assertEquals(Reason.STREAM_GAP, assertThrows(LogFormatException.class, records::next).reason());
    }

    @Test
    void theEndIsCleanTornLostOrDamaged() throws IOException {
        log.durable = 0;
        log.record("one").batch();
        int second = log.offset;
        log.acknowledged = 0;
        log.record("two").batch().record("three").batch().save();
        assertEquals(Tail.Kind.TORN, StoredLog.open(dir).tail().orElseThrow().kind());
        // Nothing after the hole says that it was acknowledged: torn.
        log.damage(1, second + 130, 1);
        assertEquals(List.of("one"), all());
        // A later batch says so, and this log promises power loss: damaged.
        log.acknowledged = -1;
        log.record("four").batch().save();
        log.damage(1, second + 130, 1);
        assertEquals(Reason.DAMAGED, refusal());
    }

    @Test
    void aLogThatPromisesLessMayLoseWhatWasNeverSynced() throws IOException {
        log.number = 0;
        log.durability = 2;
        log.start();
        log.durable = 0;
        log.record("one").batch();
        int second = log.offset;
        log.record("two").batch().record("three").batch().save();
        log.damage(1, second + 130, 1);
        assertEquals(new Tail(Tail.Kind.LOST, 7, 14), StoredLog.open(dir).tail().orElseThrow());
        assertEquals(new Tail(Tail.Kind.LOST, 7, 14), StoredLog.verify(dir).tail());
        log.durable = 14;
        log.record("four").batch().save();
        log.damage(1, second + 130, 1);
        assertEquals(Reason.DAMAGED, refusal());
    }

    @Test
    void behindACloseMarkOnlyALaterEpochContinues() throws IOException {
        log.record("one").batch().close().open().record("two").batch().save();
        assertEquals(List.of("one", "two"), all());
        // Without its open mark what follows is not a part of the log, but a later epoch after a close mark was there for good.
        log.damage(1, 3 * SampleLog.BLOCK, 1);
        assertEquals(Reason.DAMAGED, refusal());
    }

    @Test
    void aLogThatIsWrittenIsShownAsFarAsItIsKnownToBeAcknowledged() throws IOException {
        log.record("one").batch().record("two").batch().save();
        try (StoredLog open = StoredLog.openWhileWritten(dir)) {
            assertTrue(open.tail().isEmpty());
            assertEquals(List.of("one"), texts(open.read(0)));
        }
        log.mark().save();
        try (StoredLog open = StoredLog.openWhileWritten(dir)) {
            assertEquals(List.of("one", "two"), texts(open.read(0)));
        }
    }

    @Test
    void oneCopyOfAHeaderIsEnoughAndNoneIsDamage() throws IOException {
        log.record("one").batch().close().save();
        log.damage(1, 0, 8);
        assertEquals(List.of("one"), all());
        log.damage(1, SampleLog.SEGMENT - SampleLog.BLOCK, 8);
        assertEquals(Reason.DAMAGED, refusal());
    }

    @Test
    void segmentsThatAreMissingForeignOrAbandonedAreTold() throws IOException {
        log.record("one").batch().save().start().record("two").batch().save().start().record("three").batch().close().save();
        // Empty, begun where the third begins, and named by none: an earlier recovery gave it up.
        assertEquals(List.of("one", "two", "three"), all());
        byte[] second = Files.readAllBytes(log.path(2));
        Files.delete(log.path(2));
        assertEquals(Reason.DAMAGED, refusal());
        Files.write(log.path(2), second);
        Files.delete(log.path(1));
        assertEquals(Reason.DAMAGED, refusal());
        SampleLog other = new SampleLog(dir, "fedcba9876543210".getBytes(StandardCharsets.US_ASCII));
        other.start().record("other").batch().save();
        assertEquals(Reason.FOREIGN_SEGMENT, refusal());
        LogFormatException refusal = assertThrows(LogFormatException.class, () -> StoredLog.verify(dir));
        assertEquals(Reason.FOREIGN_SEGMENT, refusal.reason());
    }

    @Test
    void aSegmentThatARecoveryGaveUpIsSteppedOver() throws IOException {
        log.record("one").batch().save();
        // The third names the first as the one before it.
        log.start().save().start(3, 1).save();
        assertEquals(List.of("one"), all());
        assertEquals(2, StoredLog.open(dir).segments());
        assertEquals(2, StoredLog.verify(dir).segments());
    }

    @Test
    void aDirectoryWithoutALogIsNone() throws IOException {
        assertEquals(Reason.NOT_A_LOG, refusal());
        assertEquals(Reason.NOT_A_LOG, assertThrows(LogFormatException.class, () -> StoredLog.open(dir.resolve("none"))).reason());
        // Prepared, and never started.
        Files.write(log.path(1), new byte[SampleLog.SEGMENT]);
        assertEquals(Reason.NOT_A_LOG, refusal());
    }
}
