/*
 * Times one way of writing; all rows and all modes of the program use this loop.
 *
 *        due        t0            t1
 *   ------|---------|--- write ---|------   service = t1 - t0, response = t1 - due (on a schedule)
 *
 * Invariants: between the two readings of the clock lies one write and nothing else; leaving a file for the next is timed
 * separately and is part of no write's service time; what opening a file allocates, and what the first write through it sets up,
 * is not counted as the writes'.
 */
package seawall.path;

import java.io.IOException;
import java.nio.file.Path;

/** The timed loop. */
final class Loop {
    private final Row row;
    private final Order order;
    private final Record record;
    private final Sample sample;
    private Writer writer;
    private int file;
    private long openAllocatedBytes;
    private boolean fresh = true;

    private Loop(Row row, Order order, Record record, Sample sample) {
        this.row = row;
        this.order = order;
        this.record = record;
        this.sample = sample;
    }

    /**
     * Runs {@code order} by {@code row} and adds what it measured to {@code sample}.
     *
     * @throws IOException a write failed: what was measured before is not to be trusted
     * @throws Unavailable the row cannot run here
     */
    static void run(Row row, Order order, Record record, Sample sample) throws IOException, Unavailable {
        new Loop(row, order, record, sample).run();
    }

    private void run() throws IOException, Unavailable {
        writer = Ways.open(row, order.files().get(0), order.fileBytes(), record);
        try {
            writer.rewind();
            Accounts before = Accounts.now();
            long allocated = Accounts.allocatedBytes();
            time();
            long after = Accounts.allocatedBytes();
            sample.allocatedBytes =
                    after < 0 || sample.allocatedBytes < 0 ? -1 : sample.allocatedBytes + after - allocated - openAllocatedBytes;
            sample.times = Accounts.now().since(before);
        } finally {
            writer.close();
        }
    }

    private void time() throws IOException, Unavailable {
        boolean scheduled = order.pace() == Order.Pace.SCHEDULED;
        long intervalNs = order.pace() == Order.Pace.TIGHT ? 0 : order.intervalNs();
        boolean growing = row.file() == Row.Kind.GROWING;
        long pass = order.places() * order.writesPerPlace();
        long startNs = System.nanoTime();
        long endNs = startNs + order.timeMaxNs();
        long dueNs = startNs;
        long doneNs = startNs;
        long inPass = 0;
        for (long done = 0; done < order.writesMax() && dueNs - endNs < 0 && doneNs - endNs < 0; done++) {
            if (inPass == pass && !growing) {
                inPass = 0;
                roll();
            }
            long nowNs = System.nanoTime();
            while (nowNs - dueNs < 0) {
                Thread.onSpinWait();
                nowNs = System.nanoTime();
            }
            long position = inPass / order.writesPerPlace() * record.bytes();
            long allocated = fresh ? Accounts.allocatedBytes() : 0;
            long beginNs = System.nanoTime();
            writer.write(position);
            doneNs = System.nanoTime();
            if (fresh) {
                openAllocatedBytes += Accounts.allocatedBytes() - allocated;
                fresh = false;
            }
            inPass++;
            sample.service.recordValue(doneNs - beginNs);
            if (scheduled) {
                sample.response.recordValue(doneNs - dueNs);
            }
            dueNs = (scheduled ? dueNs : doneNs) + intervalNs;
        }
        sample.elapsedNs += doneNs - startNs;
    }

    /** Leaves the file for the next, or goes back to its start if it is the only one. */
    private void roll() throws IOException, Unavailable {
        long allocated = Accounts.allocatedBytes();
        if (order.files().size() > 1 && order.pace() != Order.Pace.TIGHT) {
            long beginNs = System.nanoTime();
            writer.close();
            file = (file + 1) % order.files().size();
            Path next = order.files().get(file);
            writer = Ways.open(row, next, order.fileBytes(), record);
            sample.roll.recordValue(System.nanoTime() - beginNs);
            fresh = true;
        }
        writer.rewind();
        openAllocatedBytes += Accounts.allocatedBytes() - allocated;
    }
}
