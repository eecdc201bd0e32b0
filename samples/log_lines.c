/* log_lines.c - the loader's log in the program's own: a line goes to a sink of ours, with a time
 * and a level.
 *
 *     LDR_DEBUG=info log_lines photos/train
 *     LDR_DEBUG=debug,stage log_lines photos/train
 */
#include <stdio.h>
#include <time.h>

#include "loader.h"

/* Called from several threads: one fprintf a line keeps lines whole. */
static void sink(void *user, int level, const char *line)
{
    static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    char clock[32];
    time_t now = time(NULL);
    struct tm t;
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &t));
    fprintf(user, "%s %-5s loader: %s\n", clock, names[level], line);
}

int main(int argc, char **argv)
{
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_eval(&o, 224);
    o.source = argc > 1 ? argv[1] : ".";
    o.log = sink;
    o.log_user = stdout;

    ldr *ld;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) {
        fprintf(stderr, "log_lines: %s\n", err.message);
        return 1;
    }
    const ldr_batch *b;
    ldr_status s;
    while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) ldr_release(ld, b, NULL);
    ldr_close(&ld);
    return s < 0;
}
