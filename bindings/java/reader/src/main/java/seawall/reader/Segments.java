/*
 * Lists the files of a log's directory and puts its segments in order.
 *
 * A segment belongs to the log if a later one names it as the one before; the newest needs none that does. One between the two
 * that begins where the newer one begins was abandoned empty by a recovery.
 *
 * Invariants: nothing is changed; a file whose name is not one of the log's own is reported and not opened.
 */
package seawall.reader;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import seawall.reader.LogFormatException.Reason;

final class Segments {
    /** A file that has the name of a segment. */
    static final class File {
        final Path path;
        final long number;
        final long bytes;
        /** A sound header, or null. */
        SegmentHeader header;
        /** What is wrong with the file as a whole, or null; {@link #header} is then the copy in its first block, if that is sound. */
        Damage damage;
        /** Where the first intact batch lies, once that was looked for. */
        long firstBatchAt;

        File(Path path, long number, long bytes) {
            this.path = path;
            this.number = number;
            this.bytes = bytes;
        }

        boolean isStarted() {
            return header != null && damage == null;
        }

        LogFormatException damaged(long offset, long lsn, String what) {
            return LogFormatException.damaged(new Damage(path, offset, lsn, what));
        }
    }

    /** Files of the log that are no segments. */
    private static final Set<String> OURS = Set.of("LOCK", "METHOD", "METHOD.new", "PROBE", "MEMORY");

    final Path dir;
    /** In the order of their numbers. */
    final List<File> files = new ArrayList<>();
    final List<String> foreign = new ArrayList<>();

    /** Lists {@code dir}, where a file of a wrong length is no reason to stop. */
    static Segments list(Path dir) throws IOException {
        Segments found = new Segments(dir);
        if (!Files.isDirectory(dir)) {
            throw LogFormatException.of(Reason.NOT_A_LOG, dir, "there is no directory");
        }
        if (Files.exists(dir.resolve("REBUILDING"))) {
            throw LogFormatException.of(Reason.NOT_A_LOG, dir, "it holds a log that is being rebuilt: `seawall log takeover` makes it whole");
        }
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(dir)) {
            for (Path path : entries) {
                found.add(path);
            }
        }
        found.files.sort(Comparator.comparing(file -> file.number, Long::compareUnsigned));
        found.foreign.sort(null);
        for (File file : found.files) {
            readHeader(file);
        }
        return found;
    }

    private Segments(Path dir) {
        this.dir = dir;
    }

    private void add(Path path) throws IOException {
        String name = path.getFileName().toString();
        long number = number(name);
        if (number != 0 && name.endsWith(".seg")) {
            files.add(new File(path, number, Files.size(path)));
        } else if (number == 0 && !OURS.contains(name)) {
            foreign.add(name);
        }
    }

    /** The number in a name of 20 digits and a known ending, 0 if it has none. */
    static long number(String name) {
        if (name.length() != 24 || !(name.endsWith(".seg") || name.endsWith(".new"))) {
            return 0;
        }
        String digits = name.substring(0, 20);
        if (!digits.chars().allMatch(digit -> digit >= '0' && digit <= '9')) {
            return 0;
        }
        try {
            return Long.parseUnsignedLong(digits);
        } catch (NumberFormatException tooLarge) {
            return 0;
        }
    }

    /** Reads both copies of a header; leaves neither where none was written for this file. */
    private static void readHeader(File file) throws IOException {
        try (SegmentFile open = new SegmentFile(file.path)) {
            Fault.Broken worst = null;
            long misfitAt = -1;
            if (file.bytes < Layout.SEGMENT_BYTES_MIN || file.bytes % Layout.SMALLEST_BLOCK != 0) {
                misfit(file, open, file.bytes, "as no segment is");
                return;
            }
            long[] places = {0, file.bytes - 4096, file.bytes - 2048, file.bytes - 1024, file.bytes - 512};
            for (int i = 0; i < places.length; i++) {
                if (places[i] < 0) {
                    continue;
                }
                try {
                    SegmentHeader header = SegmentHeader.decode(open.header(places[i]), i == 0 ? 0 : 1);
                    if (header.number() != file.number) {
                        continue;
                    }
                    if (header.segmentBytes() != file.bytes) {
                        misfitAt = places[i];
                    } else if (i == 0 || header.dataEnd() == places[i]) {
                        file.header = header;
                        return;
                    }
                } catch (Fault.Broken broken) {
                    worst = worse(worst, broken);
                }
            }
            if (worst != null) {
                refuse(file, worst);
            }
            if (misfitAt >= 0) {
                misfit(file, open, misfitAt, "its header says otherwise");
            }
        }
    }

    /** What a fault says beside damage, the least first. */
    private static final List<Fault> TELLING = List.of(Fault.CLASS, Fault.FEATURES, Fault.VERSION);

    private static Fault.Broken worse(Fault.Broken known, Fault.Broken other) {
        return TELLING.indexOf(other.fault) > (known == null ? -1 : TELLING.indexOf(known.fault)) ? other : known;
    }

    private static void refuse(File file, Fault.Broken broken) throws LogFormatException {
        switch (broken.fault) {
            case VERSION -> {
                boolean newer = broken.value > Layout.VERSION;
                throw LogFormatException.of(
                        newer ? Reason.NEWER_FORMAT : Reason.OLDER_FORMAT,
                        file.path,
                        "format version " + broken.value + (newer ? " is newer than version " : " is older than version ")
                                + Layout.VERSION + ", which this reader knows");
            }
            case FEATURES -> throw LogFormatException.of(
                    Reason.UNKNOWN_FEATURE, file.path, "it needs features 0x" + Long.toHexString(broken.value));
            case CLASS -> file.damage =
                    new Damage(file.path, 0, 0, "in its header, durability class " + broken.value + " is not known");
            default -> { }
        }
    }

    /** The file is not as long as its header says, or as any segment is: what is left is the first copy of its header. */
    private static void misfit(File file, SegmentFile open, long at, String what) throws IOException {
        file.damage = new Damage(file.path, at, 0, "the file is " + file.bytes + " bytes long, " + what);
        try {
            SegmentHeader header = SegmentHeader.decode(open.header(0), 0);
            file.header = header.number() == file.number ? header : null;
        } catch (Fault.Broken none) {
            file.header = null;
        }
    }

    /** The newest segment with a sound header, null if there is none. */
    File newest() {
        File newest = null;
        for (File file : files) {
            newest = file.isStarted() ? file : newest;
        }
        return newest;
    }

    /** The segments that make up the log, oldest first. */
    List<File> chain() throws LogFormatException {
        List<File> members = new ArrayList<>();
        File newer = newest();
        members.add(newer);
        for (int i = files.indexOf(newer) - 1; i >= 0; i--) {
            File file = files.get(i);
            SegmentHeader header = file.header;
            SegmentHeader next = newer.header;
            if (!header.identity().equals(next.identity())) {
                throw LogFormatException.of(Reason.FOREIGN_SEGMENT, file.path, "it belongs to another log than the newest segment");
            }
            if (header.number() == next.previous()) {
                if (Layout.before(next.firstLsn(), header.firstLsn()) || header.blockBytes() != next.blockBytes()) {
                    throw file.damaged(0, header.firstLsn(), "its header contradicts the one after it");
                }
                members.add(0, file);
                newer = file;
            } else if (Layout.before(next.previous(), header.number()) && header.firstLsn() == next.firstLsn()) {
                continue;
            } else {
                throw file.damaged(
                        0, header.firstLsn(), "segment " + Long.toUnsignedString(next.previous()) + " is missing after this one");
            }
        }
        return members;
    }
}
