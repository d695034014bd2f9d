/*
 * Completes the futures of commits, in the order of their LSNs, on one platform thread.
 *
 *     commitAsync ─► requests ─► one thread: commit the lowest LSN ─► complete every future that the durable LSN has passed
 *
 * The thread commits the lowest LSN that is waited for: as the leader of that batch it writes everything that was appended until
 * then, so that the futures after it are mostly done as well; those that are not come next.
 *
 * Invariants: a future is completed once, and none is left when the log was closed; after a failure of the log, pending and later
 * futures get the same exception; nothing that a future's dependents do runs under a lock of this class.
 */
package seawall;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

final class CommitFutures {
    private record Request(long lsn, CompletableFuture<Long> future) {}

    private final Log log;
    private final String name;
    private final ConcurrentLinkedQueue<Request> requests = new ConcurrentLinkedQueue<>();
    private final PriorityQueue<Request> pending = new PriorityQueue<>(Comparator.comparingLong(Request::lsn));
    /** Guards the start of the thread against the end of the log. */
    private final ReentrantLock starting = new ReentrantLock();
    private volatile Thread thread;
    private volatile boolean idle;
    private volatile boolean closing;
    private volatile boolean ended;
    /** Completed by the thread when it ends. */
    private final CompletableFuture<Void> done = new CompletableFuture<>();
    private volatile SeawallException failure;

    CommitFutures(Log log, String name) {
        this.log = log;
        this.name = name;
    }

    /** The future of everything before {@code lsn}. */
    CompletableFuture<Long> request(long lsn) {
        if (log.isDurable(lsn)) {
            return CompletableFuture.completedFuture(lsn);
        }
        if (lsn < 0) {
            return refused(lsn);
        }
        SeawallException failed = failure;
        if (failed != null) {
            return CompletableFuture.failedFuture(failed);
        }
        if (thread == null && !start()) {
            return CompletableFuture.failedFuture(closed());
        }
        CompletableFuture<Long> future = new CompletableFuture<>();
        requests.add(new Request(lsn, future));
        if (idle) {
            LockSupport.unpark(thread);
        }
        if (ended) {
            settleLeft();
        }
        return future;
    }

    /** For an LSN that no log has, which the library refuses at once. */
    private CompletableFuture<Long> refused(long lsn) {
        try {
            log.commitHere(lsn);
            throw new IllegalStateException("LSN " + lsn + " is durable");
        } catch (SeawallException beyond) {
            return CompletableFuture.failedFuture(beyond);
        }
    }

    /** For requests that came when the thread had looked for the last time: it says that it has ended before it looks. */
    private void settleLeft() {
        for (Request left = requests.poll(); left != null; left = requests.poll()) {
            settle(left, closed());
        }
    }

    /** Starts the thread; false if the log was closed. */
    private boolean start() {
        starting.lock();
        try {
            if (thread == null && !closing) {
                thread = Thread.ofPlatform().daemon().name("seawall-commits " + name).start(() -> {
                    try {
                        run();
                    } finally {
                        done.complete(null);
                    }
                });
            }
            return thread != null;
        } finally {
            starting.unlock();
        }
    }

    private void run() {
        while (true) {
            gather();
            if (pending.isEmpty()) {
                if (closing && requests.isEmpty()) {
                    ended = true;
                    settleLeft();
                    return;
                }
                idle = true;
                if (requests.isEmpty() && !closing) {
                    LockSupport.park(this);
                }
                idle = false;
                continue;
            }
            commit(pending.peek());
            complete();
        }
    }

    private void gather() {
        for (Request request = requests.poll(); request != null; request = requests.poll()) {
            pending.add(request);
        }
    }

    /** Waits until the lowest of all is durable; one whose commit fails alone ends alone. */
    private void commit(Request lowest) {
        if (log.isDurable(lowest.lsn())) {
            return;
        }
        try {
            log.commitHere(lowest.lsn());
        } catch (SeawallException refused) {
            if (log.isDurable(lowest.lsn())) {
                return;
            }
            if (refused.code() == ErrorCode.BEYOND_END) {
                pending.remove(lowest);
                lowest.future().completeExceptionally(refused);
                return;
            }
            failure = refused;
        }
    }

    /** Completes what is durable, in order; after a failure, with that, what is not. */
    private void complete() {
        gather();
        SeawallException failed = failure;
        long durable = log.durableLsn();
        while (!pending.isEmpty() && (failed != null || pending.peek().lsn() <= durable)) {
            settle(pending.poll(), failed);
        }
    }

    private void settle(Request request, SeawallException otherwise) {
        if (log.isDurable(request.lsn())) {
            request.future().complete(request.lsn());
        } else {
            request.future().completeExceptionally(otherwise);
        }
    }

    private static SeawallException closed() {
        return SeawallException.of(NativeError.here(ErrorCode.CLOSED, 0, "the log is closed"));
    }

    /** The log takes no more appends, and everything that was appended is durable, or it has failed: the thread ends. */
    void close() {
        starting.lock();
        closing = true;
        starting.unlock();
        Thread ending = thread;
        if (ending != null && ending != Thread.currentThread()) {
            LockSupport.unpark(ending);
            // Not interruptible: an interrupt stays set.
            done.join();
        }
    }
}
