/* What the programs of the tests share: checks that are counted, and paths below the directory that they are given. */
static int failures;

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            printf("%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, seawall_error_last()->message); \
            failures++;                                                                         \
        }                                                                                       \
    } while (0)

static const char *root;
static char path_of_case[4096];

static const char *path(const char *name) {
    snprintf(path_of_case, sizeof path_of_case, "%s/%s", root, name);
    return path_of_case;
}

/* Whether a text holds a word. */
static int says(const char *text, const char *word) {
    return text != NULL && strstr(text, word) != NULL;
}
