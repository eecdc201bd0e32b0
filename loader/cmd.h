/* cmd.h - what the verbs of the command share.  A verb is a function ldri_cmd_VERB that returns the
 * exit status: 0 done, 1 failed, 2 wrong usage.  Results go to standard output, messages to
 * standard error, one line each, behind "ldr: ". */
#ifndef LDR_CMD_H
#define LDR_CMD_H

#include <stdio.h>

#include "loader/cli.h"
#include "loader/loader.h"

int ldri_cmd_run(const ldri_cli *cli);
int ldri_cmd_verify(const ldri_cli *cli);
int ldri_cmd_plan(const ldri_cli *cli);
int ldri_cmd_preview(const ldri_cli *cli);
int ldri_cmd_decode(const ldri_cli *cli);
int ldri_cmd_bench(const ldri_cli *cli);
int ldri_cmd_doctor(const ldri_cli *cli);

/* --- messages (cmd_common.c) ----------------------------------------------------------------- */

void ldri_cmd_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds "n what" to a list in out, after a comma if it is not the first; nothing if n is 0. */
void ldri_cmd_add_count(char *out, size_t capacity, uint64_t n, const char *what);
int ldri_cmd_failed(const ldr_error *err); /* says it; the exit status that goes with it */

/* 1 while standard output takes what is written; 0, and said once, when it does not (disk full,
 * reader gone).  flush: also what is still in the buffer. */
int ldri_cmd_stdout_works(int flush);

/* ldr_open, and a signal aborts the loader from then on.  close takes that back first. */
ldr_status ldri_cmd_open(ldr **out, const ldr_options *o, ldr_error *err);
void ldri_cmd_close(ldr **ld);

/* The exit status after a loop over ldr_next that ended with `s`; says what failed. */
int ldri_cmd_outcome(const ldr *ld, ldr_status s);

/* Up to `max` bad samples, a line each, and how many more there are. */
void ldri_cmd_list_bad(FILE *f, const char *prefix, const ldr *ld, size_t max);

/* --- signals (cmd_signals.c) ----------------------------------------------------------------- */

void ldri_cmd_signals_start(void); /* before any other thread is made */
int ldri_cmd_stopped(void);        /* SIGINT or SIGTERM once one has come; else 0 */
void ldri_cmd_guard(ldr *ld);      /* a signal aborts this loader; NULL: it ends the process */

/* As mkstemp and rename, and the file is removed if a signal ends the process between them. */
int ldri_cmd_make_temporary(char *path_template);
int ldri_cmd_rename_temporary(const char *temporary, const char *target);
void ldri_cmd_remove_temporary(const char *temporary);

/* --- files that appear whole or not at all (cmd_output.c) ------------------------------------ */

typedef struct ldri_cmd_file {
    FILE *stream;
    char *temporary, *target;
} ldri_cmd_file;

ldr_status ldri_cmd_file_open(ldri_cmd_file *f, const char *path, ldr_error *err);
ldr_status ldri_cmd_file_commit(ldri_cmd_file *f, const char *path, ldr_error *err);
void ldri_cmd_file_discard(ldri_cmd_file *f);
int ldri_cmd_has_suffix(const char *path, const char *suffix); /* letters in either case */

/* --- waits (cmd_waits.c) --------------------------------------------------------------------- */

/* Durations in a table of fixed size, exact below 256 ns and to 1/128 above: cells 0 .. 255, then
 * 128 for each power of two. */
#define LDRI_WAIT_CELLS (256 + 56 * 128)

typedef struct ldri_cmd_waits { /* zeroed: empty */
    uint64_t n, total_ns, max_ns;
    uint64_t cells[LDRI_WAIT_CELLS];
} ldri_cmd_waits;

void ldri_cmd_waits_add(ldri_cmd_waits *w, uint64_t ns);
uint64_t ldri_cmd_waits_percentile(const ldri_cmd_waits *w, double share); /* 0 < share <= 1 */

/* --- progress bar (cmd_progress.c) ----------------------------------------------------------- */

typedef struct ldri_cmd_progress {
    int on; /* standard error is a terminal */
    uint64_t start_ns, drawn_ns;
    uint64_t batches_per_epoch, epochs; /* epochs 0: no end */
} ldri_cmd_progress;

void ldri_cmd_progress_start(ldri_cmd_progress *p, uint64_t batches_per_epoch, uint64_t epochs);
void ldri_cmd_progress_draw(ldri_cmd_progress *p, uint64_t batches, uint64_t images);
void ldri_cmd_progress_clear(ldri_cmd_progress *p);

/* --- drawing (cmd_font.c) -------------------------------------------------------------------- */

#define LDRI_FONT_WIDTH  5
#define LDRI_FONT_HEIGHT 9

typedef struct ldri_cmd_canvas { /* RGB8 */
    uint8_t *pixels;
    uint32_t width, height;
    size_t pitch;
} ldri_cmd_canvas;

/* Writes text (a character that is not ASCII as a box) with pixels of scale x scale, from (left,
 * top) on, and ends it with ".." where max_width is too small.  Returns the width used. */
uint32_t ldri_cmd_draw_text(ldri_cmd_canvas *c, uint32_t left, uint32_t top, uint32_t max_width,
                            uint32_t scale, const uint8_t colour[3], const char *text);

#endif
