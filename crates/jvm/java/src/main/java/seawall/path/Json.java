/*
 * Encodes a result as one line of JSON, with figures and the histogram that they came from.
 *
 * Invariant: a percentile is reported only if at least one sample lies beyond it; otherwise it is null, because it would be the
 * maximum under another name.
 */
package seawall.path;

import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Locale;
import org.HdrHistogram.Histogram;

/** A JSON object under construction. */
final class Json {
    private static final double[] PERCENTS = {50.0, 90.0, 99.0, 99.9, 99.99};
    private static final String[] NAMES = {"p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns"};

    private final StringBuilder out = new StringBuilder("{");

    Json put(String name, String value) {
        return raw(name, value == null ? "null" : quoted(value));
    }

    Json put(String name, long value) {
        return raw(name, Long.toString(value));
    }

    /** {@code value}, or null if it is negative: unknown. */
    Json known(String name, long value) {
        return raw(name, value < 0 ? "null" : Long.toString(value));
    }

    /** {@code json} as it is. */
    Json raw(String name, String json) {
        if (out.length() > 1) {
            out.append(',');
        }
        out.append(quoted(name)).append(':').append(json);
        return this;
    }

    /** The figures of a histogram and itself: HdrHistogram V2, deflated, base64. */
    Json put(String name, Histogram histogram) {
        Json object = new Json()
                .put("count", histogram.getTotalCount())
                .put("min_ns", histogram.getTotalCount() == 0 ? 0 : histogram.getMinValue())
                .raw("mean_ns", String.format(Locale.ROOT, "%.3f", histogram.getMean()));
        for (int i = 0; i < PERCENTS.length; i++) {
            boolean enough = histogram.getTotalCount() * (100.0 - PERCENTS[i]) / 100.0 + 1e-6 >= 1.0;
            object.known(NAMES[i], enough ? histogram.getValueAtPercentile(PERCENTS[i]) : -1);
        }
        return raw(name, object.put("max_ns", histogram.getMaxValue()).put("hdr", encoded(histogram)).end());
    }

    String end() {
        return out + "}";
    }

    private static String encoded(Histogram histogram) {
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int bytes = histogram.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encodeToString(java.util.Arrays.copyOf(buffer.array(), bytes));
    }

    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            switch (c) {
                case '"' -> quoted.append("\\\"");
                case '\\' -> quoted.append("\\\\");
                default -> {
                    if (c < ' ') {
                        quoted.append(String.format("\\u%04x", (int) c));
                    } else {
                        quoted.append(c);
                    }
                }
            }
        }
        return quoted.append('"').toString();
    }
}
