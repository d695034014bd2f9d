/* Tests that the figures of a JSON line are those of its histogram, within the stated precision. */
package seawall.path;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.SplittableRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;

class JsonTest {
    private static final int SAMPLES = 200_000;

    private static long[] samples() {
        SplittableRandom random = new SplittableRandom(7);
        long[] samples = new long[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) {
            // From hundreds of nanoseconds to seconds, beyond where the original clipped.
            samples[i] = (long) Math.exp(6 + random.nextDouble() * 16);
        }
        return samples;
    }

    static String field(String json, String name) {
        Matcher matcher = Pattern.compile("\"" + name + "\":(\"[^\"]*\"|[^,}]*)").matcher(json);
        assertTrue(matcher.find(), name + " is missing in " + json);
        return matcher.group(1).replace("\"", "");
    }

    @Test
    void percentilesAreThoseOfTheHistogramAndCloseToTheSamples() throws Exception {
        long[] samples = samples();
        Histogram histogram = new Sample().service;
        for (long sample : samples) {
            histogram.recordValue(sample);
        }
        String json = new Json().put("service", histogram).end();
        Arrays.sort(samples);
        Object[][] named = {{"p50_ns", 50.0}, {"p90_ns", 90.0}, {"p99_ns", 99.0}, {"p999_ns", 99.9}, {"p9999_ns", 99.99}};
        for (Object[] one : named) {
            double percent = (double) one[1];
            long printed = Long.parseLong(field(json, (String) one[0]));
            assertEquals(histogram.getValueAtPercentile(percent), printed);
            long exact = samples[(int) Math.ceil(percent / 100 * SAMPLES) - 1];
            assertEquals(1.0, printed / (double) exact, 0.001, one[0] + ": " + printed + " for " + exact);
        }
        assertEquals(SAMPLES, Long.parseLong(field(json, "count")));
        assertTrue(Long.parseLong(field(json, "max_ns")) >= samples[SAMPLES - 1], "nothing is clipped");
        byte[] encoded = Base64.getDecoder().decode(field(json, "hdr"));
        Histogram back = Histogram.decodeFromCompressedByteBuffer(ByteBuffer.wrap(encoded), 0);
        assertEquals(histogram, back);
    }

    @Test
    void aPercentileThatTheSamplesDoNotCarryIsLeftOut() {
        Histogram histogram = new Sample().service;
        for (int i = 1; i <= 1000; i++) {
            histogram.recordValue(i);
        }
        String json = new Json().put("service", histogram).end();
        assertEquals("999", field(json, "p999_ns"));
        assertEquals("null", field(json, "p9999_ns"));
        String none = new Json().put("service", new Sample().service).end();
        assertEquals("0", field(none, "min_ns"));
    }

    @Test
    void textIsQuoted() {
        assertEquals("{\"a\":\"\\\"\\\\\\u000a\"}", new Json().put("a", "\"\\\n").end());
        assertFalse(new Json().put("a", (String) null).end().contains("\"null\""));
    }
}
