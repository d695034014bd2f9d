package seawall;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** Describes the structures of the native interface; a test holds each offset and size against the library's own account. */
final class Structs {
    static final StructLayout ERROR = struct(
            "seawall_error", "int code", "int cause", "int os_error", "int reserved", "long at", "long limit", "text message", "text path");
    static final StructLayout OPENED = struct(
            "seawall_opened", "int tail", "int method_origin", "int left_in_memory", "int foreign_files", "long lost_from",
            "long lost_to", "long first", "long end", "long segments", "long epoch", "long left_records", "text dir", "text method",
            "text engine", "text engine_refused", "text channel_refused", "text left_reason", "text foreign_file_names", "int evidence",
            "int reserved", "text evidence_because");
    static final StructLayout PART = struct("seawall_part", "text data", "long bytes", "int stream", "int kind");
    static final StructLayout RECORD = struct(
            "seawall_record", "long lsn", "long end", "text data", "long bytes", "long seq", "int stream", "int flags", "text memory");
    static final StructLayout SUMMARY = struct("seawall_summary", "long count", "long p50", "long p99", "long p999", "long max");
    static final StructLayout STATS = struct(
            "seawall_stats", "long records", "long batches", "long relaxed_batches", "long debt_syncs", "long bytes_written",
            "long segments_started", "long segments_filled", "long stalls", "long stalled_for_ns", "long stalls_seen",
            "long follower_wakes", "long appended", "long durable", "long first", "long pinned", "long segments", "long is_prepared",
            "long streams", "long stream_bytes", "long stream_memory_bytes", "long rewritten_records", "long rewritten_bytes",
            "long disk_bytes", "long process_crash", "summary write_ns", "summary batch_records", "long rewrite_stalls");
    static final StructLayout VIEW_STATE = struct(
            "seawall_view_state", "id log_id", "long first", "long end", "long segments", "long lost_from", "long lost_to", "int tail",
            "int writer", "int durability", "int reserved");
    static final StructLayout DAMAGE = struct("seawall_damage", "text path", "text what", "long offset", "long lsn");
    static final StructLayout REPORT = struct(
            "seawall_report", "id log_id", "long epoch", "long segments", "long spares", "long first", "long end", "long records",
            "long bytes", "long batches", "long witnessed", "long lost_from", "long lost_to", "long copied", "long kept", "long removed",
            "long damages", "long foreign_files", "int block_bytes", "int durability", "int tail", "int reserved", "text damage",
            "text foreign_file_names");
    static final StructLayout BYTES = struct("seawall_bytes", "text data", "long bytes");
    static final StructLayout MESSAGE =
            struct("seawall_message", "long id", "text data", "long bytes", "int attempts", "int reserved", "text memory");
    static final StructLayout QUEUE_STATS =
            struct("seawall_queue_stats", "long waiting", "long out", "long delayed", "long dead", "long handles", "long is_owner");

    static final List<StructLayout> ALL =
            List.of(ERROR, OPENED, PART, RECORD, SUMMARY, STATS, VIEW_STATE, DAMAGE, REPORT, BYTES, MESSAGE, QUEUE_STATS);

    private Structs() {}

    /** A structure of fields that are each "TYPE NAME"; the C compiler leaves no holes between them. */
    private static StructLayout struct(String name, String... fields) {
        List<MemoryLayout> members = new ArrayList<>();
        for (String field : fields) {
            int space = field.indexOf(' ');
            MemoryLayout type =
                    switch (field.substring(0, space)) {
                        case "int" -> JAVA_INT;
                        case "long" -> JAVA_LONG;
                        case "text" -> ADDRESS;
                        case "id" -> MemoryLayout.sequenceLayout(16, JAVA_BYTE);
                        default -> SUMMARY;
                    };
            members.add(type.withName(field.substring(space + 1)));
        }
        return MemoryLayout.structLayout(members.toArray(MemoryLayout[]::new)).withName(name);
    }

    static long offset(StructLayout layout, String field) {
        return layout.byteOffset(PathElement.groupElement(field));
    }

    /** A text of the library, which ends with a zero byte; null for NULL. */
    static String text(MemorySegment at) {
        return at.address() == 0 ? null : at.reinterpret(Long.MAX_VALUE).getString(0, StandardCharsets.UTF_8);
    }

    /** A structure in memory. */
    record At(MemorySegment memory, StructLayout layout) {
        int getInt(String field) {
            return memory.get(JAVA_INT, offset(layout, field));
        }

        long getLong(String field) {
            return memory.get(JAVA_LONG, offset(layout, field));
        }

        MemorySegment getPointer(String field) {
            return memory.get(ADDRESS, offset(layout, field));
        }

        /** The text that a field points to; null if it points to none. */
        String getText(String field) {
            return text(getPointer(field));
        }

        /** The bytes of the path that a field points to; null if it points to none. */
        byte[] getPath(String field) {
            MemorySegment at = getPointer(field).reinterpret(Long.MAX_VALUE);
            if (at.address() == 0) {
                return null;
            }
            long bytes = 0;
            while (at.get(JAVA_BYTE, bytes) != 0) {
                bytes++;
            }
            return at.asSlice(0, bytes).toArray(JAVA_BYTE);
        }

        /** The texts of an array of {@code count} pointers. */
        List<String> getTexts(String field, long count) {
            List<String> texts = new ArrayList<>();
            MemorySegment pointers = getPointer(field).reinterpret(count * ADDRESS.byteSize());
            for (long i = 0; i < count; i++) {
                texts.add(text(pointers.getAtIndex(ADDRESS, i)));
            }
            return List.copyOf(texts);
        }

        /** The identity of a log, as 32 hexadecimal digits. */
        String logId() {
            return HexFormat.of().formatHex(memory.asSlice(offset(layout, "log_id"), 16).toArray(JAVA_BYTE));
        }

        Tail tail() {
            return new Tail(Tail.Kind.values()[getInt("tail")], getLong("lost_from"), getLong("lost_to"));
        }

        Durability durability() {
            int code = getInt("durability");
            return code == 0 ? null : Durability.values()[code - 1];
        }
    }
}
