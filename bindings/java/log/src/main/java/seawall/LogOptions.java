package seawall;

import static java.lang.foreign.MemorySegment.NULL;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** How a log is opened. Options that are not set have their defaults; the library checks them when the log is opened. */
public final class LogOptions {
    private final Map<String, Object> set = new LinkedHashMap<>();

    /** Makes options with their defaults. */
    public LogOptions() {}

    /**
     * Sets any option of the library that is a number.
     *
     * @param name its name, as the C header lists it, such as {@code in_flight_max}
     * @param value its value
     * @return these options
     * @throws IllegalArgumentException the value is negative
     */
    public LogOptions set(String name, long value) {
        if (value < 0) {
            throw new IllegalArgumentException("option " + name + ": " + value + " is negative");
        }
        set.put(name, value);
        return this;
    }

    /**
     * Sets any option of the library that is a word.
     *
     * @param name its name, as the C header lists it, such as {@code engine}
     * @param value its value
     * @return these options
     */
    public LogOptions set(String name, String value) {
        set.put(name, value);
        return this;
    }

    /**
     * What an acknowledged record outlives; a power cut by default.
     *
     * @param durability the class
     * @return these options
     */
    public LogOptions durability(Durability durability) {
        return set("durability", durability.code());
    }

    /**
     * Whether to make a log where there is none; true by default.
     *
     * @param create false to refuse a directory without a log
     * @return these options
     */
    public LogOptions create(boolean create) {
        return set("create", create ? 1 : 0);
    }

    /**
     * The size of one segment; 32 MiB by default.
     *
     * @param bytes 64 KiB to 64 GiB, a multiple of 4096
     * @return these options
     */
    public LogOptions segmentBytes(long bytes) {
        return set("segment_bytes", bytes);
    }

    /**
     * The size of a block, fixed when the log is made; 4096 by default.
     *
     * @param bytes 512, 1024, 2048 or 4096
     * @return these options
     */
    public LogOptions blockBytes(int bytes) {
        return set("block_bytes", bytes);
    }

    /**
     * The longest ordinary batch; 2 MiB by default.
     *
     * @param bytes 4 KiB to 64 MiB, a multiple of 4096
     * @return these options
     */
    public LogOptions batchBytes(long bytes) {
        return set("batch_bytes", bytes);
    }

    /**
     * The memory for records that are not yet written; 32 MiB by default.
     *
     * @param bytes two batches or more
     * @return these options
     */
    public LogOptions memoryBytes(long bytes) {
        return set("memory_bytes", bytes);
    }

    /**
     * The longest record and transaction; 64 MiB by default.
     *
     * @param bytes 1 byte to 1 GiB
     * @return these options
     */
    public LogOptions recordBytesMax(long bytes) {
        return set("record_bytes_max", bytes);
    }

    /**
     * The most that the log takes of the disk; no bound by default.
     *
     * @param bytes six segments or more
     * @param fullIsError whether appends under a full bound fail; otherwise they wait for a trim
     * @return these options
     */
    public LogOptions diskBytesMax(long bytes, boolean fullIsError) {
        return set("disk_bytes_max", bytes).set("full_is_error", fullIsError ? 1 : 0);
    }

    /**
     * Trims the log by itself to this many bytes, whole segments; by default it does not.
     *
     * @param bytes the bound
     * @return these options
     */
    public LogOptions retentionBytes(long bytes) {
        return set("retention_bytes", bytes);
    }

    /**
     * Trims segments by itself whose newest record is older; by default it does not.
     *
     * @param age the bound; 292 years and more are for ever
     * @return these options
     * @throws IllegalArgumentException the age is negative
     */
    public LogOptions retentionAge(Duration age) {
        return set("retention_age_ns", age.isNegative() ? -1 : Times.nanos(age));
    }

    /**
     * The commit method: {@code fastest} (by a probe, once for a log; the default), {@code probe again}, or an id that {@code seawall
     * methods} lists.
     *
     * @param method the word
     * @return these options
     */
    public LogOptions method(String method) {
        return set("method", method);
    }

    /** Makes a call with the options of the library; NULL for the defaults. */
    long use(Handle.Using call) throws SeawallException {
        if (set.isEmpty()) {
            return call.make(NULL);
        }
        MemorySegment options = Native.pointerFrom(Native.OPTIONS_NEW);
        try (Arena arena = Arena.ofConfined()) {
            for (Map.Entry<String, Object> option : set.entrySet()) {
                MemorySegment name = arena.allocateFrom(option.getKey());
                Native.checked(option.getValue() instanceof String text
                        ? Native.call(Native.OPTIONS_SET_TEXT, options, name, arena.allocateFrom(text))
                        : Native.call(Native.OPTIONS_SET, options, name, option.getValue()));
            }
            return call.make(options);
        } finally {
            Native.call(Native.OPTIONS_FREE, options);
        }
    }
}
