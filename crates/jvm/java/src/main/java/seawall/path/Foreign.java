/*
 * Refuses the rows of java.lang.foreign where the JDK has none, with the reason. JDK 22 and later load the class
 * of the same name from META-INF/versions/22 instead, if the jar was built by such a JDK.
 */
package seawall.path;

import java.nio.file.Path;

/** Rows that need java.lang.foreign. */
final class Foreign {
    private Foreign() {}

    /** The first JDK in which java.lang.foreign is final. */
    static final int JDK = 22;

    /** Where the record lies and how the call is made. */
    enum Data {
        /** Native memory, plain call. */
        NATIVE,
        /** Native memory, critical call. */
        CRITICAL,
        /** A byte[], critical call. */
        HEAP
    }

    /** What makes the write durable. */
    enum Sync {
        NONE,
        FDATASYNC,
        RWF_DSYNC
    }

    private static final String REASON =
            "the jar was built by a JDK older than 22: build it again with a newer one (name it with --jdk)";

    /** Why these rows cannot run, or null. */
    static String unavailable() {
        return REASON;
    }

    static Writer mapped(Path file, long bytes, Record record, boolean force) throws Unavailable {
        throw new Unavailable(REASON);
    }

    static Writer calls(Path file, Record record, Data data, Sync sync) throws Unavailable {
        throw new Unavailable(REASON);
    }
}
