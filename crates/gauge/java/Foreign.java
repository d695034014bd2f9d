/* Writes by downcalls of the C library's pwrite and fdatasync through java.lang.foreign, on Linux from JDK 22 on. */
import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

@SuppressWarnings("restricted")
final class Foreign {
    private static final int O_RDWR = 2;
    private static final MethodHandle OPEN =
            bind("open", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT), Linker.Option.firstVariadicArg(2));
    private static final MethodHandle PWRITE = bind("pwrite", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle FDATASYNC = bind("fdatasync", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
    private static final MethodHandle CLOSE = bind("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));

    private static MethodHandle bind(String name, FunctionDescriptor descriptor, Linker.Option... options) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().find(name).orElseThrow(), descriptor, options);
    }

    static Ways.Writer open(Path file, byte[] bytes, boolean sync) throws Throwable {
        if (!System.getProperty("os.name").equals("Linux")) {
            throw new Ways.Unavailable("these calls are Linux's: measure on Linux");
        }
        Arena arena = Arena.ofConfined();
        MemorySegment record = arena.allocate(bytes.length, 4096).copyFrom(MemorySegment.ofArray(bytes));
        int descriptor = (int) OPEN.invokeExact(arena.allocateFrom(file.toString()), O_RDWR);
        if (descriptor < 0) {
            throw new IOException("open failed");
        }
        return new Ways.Writer(position -> {
            Ways.whole((long) PWRITE.invokeExact(descriptor, record, record.byteSize(), position), record.byteSize());
            if (sync && (int) FDATASYNC.invokeExact(descriptor) != 0) {
                throw new IOException("fdatasync failed");
            }
        }, () -> {
            arena.close();
            if ((int) CLOSE.invokeExact(descriptor) != 0) {
                throw new IOException("close failed");
            }
        });
    }
}
