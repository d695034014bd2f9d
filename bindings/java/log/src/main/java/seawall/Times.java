package seawall;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.TimeUnit;

/** Turns times into the numbers of the native interface. What is more than a number holds is as good as without end. */
final class Times {
    private static final Duration NANOS_MAX = Duration.ofNanos(Long.MAX_VALUE);
    private static final Instant MICROS_MAX = Instant.EPOCH.plusSeconds(TimeUnit.MICROSECONDS.toSeconds(Long.MAX_VALUE));

    private Times() {}

    /** How long a wait or an age is; 0 for one that is negative. */
    static long nanos(Duration time) {
        return time.isNegative() ? 0 : time.compareTo(NANOS_MAX) < 0 ? time.toNanos() : Long.MAX_VALUE;
    }

    /** Microseconds since 1970; 0 for a time before that. */
    static long micros(Instant time) {
        if (time.isBefore(Instant.EPOCH)) {
            return 0;
        }
        return time.isBefore(MICROS_MAX) ? TimeUnit.SECONDS.toMicros(time.getEpochSecond()) + time.getNano() / 1000 : Long.MAX_VALUE;
    }
}
