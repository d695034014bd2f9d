package seawall;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Makes calls that may wait inside the library for virtual threads, which would hold their carrier meanwhile. */
final class Waits {
    /** As many as wait at once: with a bound, what they wait for might wait for them. */
    private static final ExecutorService THREADS =
            Executors.newCachedThreadPool(Thread.ofPlatform().daemon().name("seawall-waits-", 0).factory());

    private Waits() {}

    /** A call that may wait. */
    interface Call {
        long make() throws SeawallException;
    }

    /** Makes the call: here, or on another thread if this one is virtual. Not interruptible. */
    static long elsewhere(Call call) throws SeawallException {
        if (!Thread.currentThread().isVirtual()) {
            return call.make();
        }
        CompletableFuture<Long> made = new CompletableFuture<>();
        THREADS.execute(() -> {
            try {
                made.complete(call.make());
            } catch (Throwable thrown) {
                made.completeExceptionally(thrown);
            }
        });
        return join(made);
    }

    /** What a future comes to. Not interruptible: an interrupt stays set. */
    static long join(CompletableFuture<Long> future) throws SeawallException {
        try {
            return future.join();
        } catch (CompletionException failed) {
            throw unwrapped(failed.getCause());
        }
    }

    /** The exception of the log that a future ended with; what is none is thrown. */
    static SeawallException unwrapped(Throwable cause) {
        if (cause instanceof SeawallException refused) {
            return refused;
        }
        throw Native.unexpected(cause);
    }
}
