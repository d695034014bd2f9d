/*
 * One row of the table, read from rows.tsv, the only place where rows are listed; Ways opens them.
 *
 * Invariant: ids are unique, and no longer than the report's first column has room for.
 */
package seawall.path;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A way to write a journal.
 *
 * @param id stable name
 * @param like the native row that makes the same calls
 * @param jdk the first JDK that has it
 * @param file how its file is to be made
 * @param allocatesNothing whether it promises to allocate no byte per write, once compiled
 * @param what what it does, for people
 */
record Row(String id, String like, int jdk, Kind file, boolean allocatesNothing, String what) {

    /** How a row's file is made. */
    enum Kind {
        /** Of a fixed length, overwritten in place. */
        FIXED,
        /** Empty, growing. */
        GROWING,
        /** Of a fixed length; position, length and address must be multiples of the store's block. */
        ALIGNED
    }

    private static final int COLUMNS = 6;

    /** All rows, in the order of the table. */
    static final List<Row> ALL = read();

    static Optional<Row> find(String id) {
        return ALL.stream().filter(row -> row.id.equals(id)).findFirst();
    }

    private static List<Row> read() {
        List<Row> rows = new ArrayList<>();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(
                Row.class.getResourceAsStream("rows.tsv"), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (!line.startsWith("#") && !line.isBlank()) {
                    rows.add(parse(line));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return List.copyOf(rows);
    }

    private static Row parse(String line) {
        String[] cells = line.split("\t", -1);
        if (cells.length != COLUMNS) {
            throw new IllegalStateException("rows.tsv: not " + COLUMNS + " cells: " + line);
        }
        Kind kind = Kind.valueOf(cells[3].toUpperCase(java.util.Locale.ROOT));
        return new Row(cells[0], cells[1], Integer.parseInt(cells[2]), kind, cells[4].equals("yes"), cells[5]);
    }
}
