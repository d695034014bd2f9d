// Program DIRECTORY MODE: saves eight things and prints a line for each; every mode but `right` leaves one thing out.
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

class Program {
    static void syncDirectory(Path path) throws Exception {
        try (var directory = FileChannel.open(path, StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    static void save(Path path, String text, boolean force) throws Exception {
        try (var file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
            file.write(ByteBuffer.wrap(text.getBytes()));
            if (force) file.force(true);
        }
    }

    public static void main(String[] words) throws Exception {
        var directory = Path.of(words[0]);
        var mode = words[1];
        var log = FileChannel.open(directory.resolve("log"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        log.force(true);
        syncDirectory(directory);
        var all = new StringBuilder();
        for (int i = 0; i < 8; i++) {
            if (mode.equals("no-directory")) {
                save(directory.resolve("tmp"), "value" + i, true);
                Files.move(directory.resolve("tmp"), directory.resolve("key" + i), StandardCopyOption.ATOMIC_MOVE);
            } else {
                log.write(ByteBuffer.wrap((i + "\n").getBytes()));
                if (!mode.equals("no-force")) log.force(false);
                all.append(i).append("\n");
            }
            System.out.println(i);
            if (mode.equals("checkpoint") && i == 5) {
                // The log is emptied while its records are in a file that nobody made durable.
                save(directory.resolve("new"), all.toString(), false);
                Files.move(directory.resolve("new"), directory.resolve("checkpoint"), StandardCopyOption.ATOMIC_MOVE);
                syncDirectory(directory);
                log.truncate(0);
                log.position(0);
                log.force(true);
            }
        }
    }
}
