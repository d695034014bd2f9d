// program DIRECTORY MODE: saves eight things and prints a line for each; every mode but `right` leaves one thing out.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void sync_dir(void) { int d = open(".", O_RDONLY); fsync(d); close(d); }
int main(int c, char **v) {
    if (c != 3 || chdir(v[1])) return 1;
    const char *mode = v[2];
    char text[32], name[32];
    if (!strcmp(mode, "no-msync")) {
        int f = open("map", O_RDWR | O_CREAT, 0644);
        if (ftruncate(f, 4096)) return 1;
        fsync(f);
        sync_dir();
        char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
        for (int i = 1; i < 9; i++) { sprintf(page, "%d", i); printf("%d\n", i); fflush(stdout); }
        return 0;
    }
    FILE *log = fopen("log", "a");
    if (!log) return 1;
    fsync(fileno(log));
    sync_dir();
    for (int i = 0; i < 8; i++) {
        if (!strcmp(mode, "no-fdatasync") || !strcmp(mode, "only-fflush")) {
            if (mode[0] == 'o') { fprintf(log, "%d\n", i); fflush(log); }
            else if (dprintf(fileno(log), "%d\n", i) < 0) return 1;
            printf("%d\n", i);
            fflush(stdout);
            continue;
        }
        int f = open("tmp", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        int n = sprintf(text, "value%d", i);
        if (write(f, text, n) != n) return 1;
        if (!strcmp(mode, "right")) fsync(f);
        if (!strcmp(mode, "wrong-file")) fsync(fileno(log));
        close(f);
        sprintf(name, "key%d", i);
        rename("tmp", name);
        sync_dir();
        printf("%d\n", i);
        fflush(stdout);
    }
}
