/* A program that has closed standard input, output and error, as a daemon does, and goes on printing: `streams DIR METHOD CLOSED`.
   Exit code 0 if nothing of what it prints reaches the log. */
#include "seawall.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count != 4) return 1;
    int closed = atoi(arguments[3]);
    for (int fd = 0; fd < closed; fd++) close(fd);
    seawall_options *options = seawall_options_new();
    seawall_options_set_text(options, "method", arguments[2]);
    seawall_log *log = NULL;
    if (seawall_log_open(arguments[1], options, &log) != 0) return 2;
    char record[1000];
    memset(record, 'r', sizeof record);
    for (int i = 0; i < 200; i++) {
        if (seawall_log_append_commit(log, record, sizeof record, -1) < 0) return 3;
        char text[] = "a warning of another library\n";
        for (int fd = 0; fd < 3; fd++) {
            /* Of a stream that is closed this must fail. */
            if (fd < closed && write(fd, text, strlen(text)) >= 0) return 10 + fd;
        }
    }
    if (seawall_log_close(log) != 0) return 4;
    seawall_log_free(log);
    if (seawall_log_open(arguments[1], options, &log) != 0) return 5;
    seawall_log_free(log);
    seawall_options_free(options);
    return 0;
}
