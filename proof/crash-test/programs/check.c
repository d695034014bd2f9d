// Judges a state: check FAMILY DIRECTORY ACKS. keys: each acknowledged key has its value, and no key has another one;
// log: the acknowledged lines begin the log; map: the last acknowledged number is in the page; pair: a and b go together;
// record: one letter throughout.
// new-keys: as keys, for files that are written in place.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char data[1 << 16], acks[1 << 16], path[4096];
static long load(const char *dir, const char *name, char *to) {
    snprintf(path, sizeof path, "%s%s%s", dir, *name ? "/" : "", name);
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    long n = fread(to, 1, (1 << 16) - 1, f);
    to[n] = 0;
    fclose(f);
    return n;
}
static int lost(const char *what) { printf("%s\n", what); return 1; }
int main(int c, char **v) {
    if (c != 4) return 2;
    const char *family = v[1], *dir = v[2];
    long acked = load(v[3], "", acks), lines = 0, last = -1;
    for (long i = 0; i < acked; i++) lines += acks[i] == '\n';
    for (char *s = acks; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : 0) last = atol(s);
    if (strstr(family, "keys")) {
        for (int k = 0; k < 10; k++) {
            char name[32], value[32], text[80];
            snprintf(name, sizeof name, "key%d", k);
            snprintf(value, sizeof value, "value%d", k);
            long n = load(dir, name, data);
            if (n < 0) { snprintf(name, sizeof name, "sub%d/key", k); n = load(dir, name, data); }
            snprintf(text, sizeof text, "key %d is %s", k, n < 0 ? "gone" : "not whole");
            // A file that is written in place may be there in part until it is acknowledged; a renamed one may not.
            if (n < 0 ? k < lines : strcmp(data, value) && (k < lines || !strcmp(family, "keys"))) return lost(text);
        }
    } else if (!strcmp(family, "log")) {
        // Records may have been moved into a checkpoint, which stands before them.
        long n = load(dir, "checkpoint", data);
        if (n < 0) n = 0;
        if (load(dir, "log", data + n) < 0 && lines) return lost("there is no log");
        if (strncmp(data, acks, acked)) return lost("an acknowledged line is not in the log");
    } else if (!strcmp(family, "map")) {
        long n = load(dir, "map", data);
        if (lines && (n < 1 || atol(data) < last)) return lost("the page is older than what was acknowledged");
    } else if (!strcmp(family, "pair")) {
        long n = load(dir, "commit", data);
        long commit = n > 0 ? atol(data) : 0;
        n = load(dir, "data", data);
        if (commit < lines) return lost("the commit is gone");
        if (commit && (n < 1 || atol(data) < commit)) return lost("the commit is there and its data is not");
    } else {
        // What was written over is in the journal, if there is a whole one.
        long n = load(dir, "journal", data), same = 0;
        while (same < n && data[same] == data[0] && data[0] >= 'a') same++;
        if (same < 3000) n = load(dir, "record", data);
        for (long i = 1; lines && i < n; i++) if (data[i] != data[0]) return lost("the record is torn");
        if (lines && (n < 3000 || data[0] - 'a' < last)) return lost("the record is older than what was acknowledged");
    }
    return 0;
}
