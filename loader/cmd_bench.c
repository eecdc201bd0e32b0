#include "loader/cmd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/cmd_bench.h"
#include "loader/cpus.h"
#include "loader/options.h"
#include "loader/status.h"

#define WARM_UP_SECONDS 0.1
#define MAX_ROUNDS      1000u
#define MAX_SECONDS     3600.0

static void show_progress(const char *what, uint32_t round, uint32_t n_rounds)
{
    if (!isatty(STDERR_FILENO)) return;
    if (what) {
        fprintf(stderr, "\r%s: round %u of %u\033[K", what, round + 1, n_rounds);
    } else {
        fputs("\r\033[K", stderr);
    }
}

static ldr_status run_stage(ldri_bench *b, ldri_bench_stage stage, uint32_t round, ldr_error *err)
{
    ldri_bench_step *step = ldri_bench_step_of(b, stage);
    if (!step) return LDR_OK;
    /* Stages of one round begin with the same file, so that they meet the same pictures. */
    uint64_t first = round * b->n_items / b->n_rounds;
    return ldri_bench_drive(b, step, first, b->seconds, &b->rates[stage][round], err);
}

static ldr_status warm_up(ldri_bench *b, ldr_error *err)
{
    ldr_status s = LDR_OK;
    double seconds = b->seconds < WARM_UP_SECONDS ? b->seconds : WARM_UP_SECONDS;
    for (int i = 0; i < LDRI_BENCH_PIPELINE && s >= 0; i++) {
        ldri_bench_rate ignored;
        ldri_bench_step *step = ldri_bench_step_of(b, (ldri_bench_stage)i);
        if (step) s = ldri_bench_drive(b, step, 0, seconds, &ignored, err);
    }
    return s;
}

/* All stages in turn, every second round in the opposite order: of two that are compared each goes
 * first as often. */
static ldr_status run_rounds(ldri_bench *b, ldr_error *err)
{
    ldr_status s = warm_up(b, err);
    for (int i = 0; i < LDRI_BENCH_PIPELINE && s >= 0; i++) {
        if (!ldri_bench_step_of(b, (ldri_bench_stage)i)) continue;
        b->rates[i] = calloc(b->n_rounds, sizeof *b->rates[i]);
        if (!b->rates[i]) {
            return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE, "out of memory");
        }
    }
    for (uint32_t round = 0; round < b->n_rounds && s >= 0; round++) {
        show_progress("stages", round, b->n_rounds);
        for (int i = 0; i < LDRI_BENCH_PIPELINE && s >= 0; i++) {
            int stage = round % 2 ? LDRI_BENCH_PIPELINE - 1 - i : i;
            s = run_stage(b, (ldri_bench_stage)stage, round, err);
        }
    }
    show_progress(NULL, 0, 0);
    return s;
}

static ldr_status measure_stages(ldri_bench *b, ldr_error *err)
{
    ldr_status s = ldri_source_open(&b->source, b->o, err);
    if (s >= 0) s = ldri_bench_load_items(b, err);
    if (s >= 0) s = ldri_bench_make_stages(b, err);
    if (s >= 0) s = run_rounds(b, err);
    ldri_bench_free_stages(b);
    return s;
}

static int bad_usage(const ldri_cli *cli)
{
    if (cli->rounds < 1 || cli->rounds > MAX_ROUNDS) {
        ldri_cmd_say("rounds is %u: give 1 to %u", cli->rounds, MAX_ROUNDS);
        return 1;
    }
    if (!(cli->seconds > 0 && cli->seconds <= MAX_SECONDS)) {
        ldri_cmd_say("seconds is %g: give more than 0, up to %g", cli->seconds, MAX_SECONDS);
        return 1;
    }
    return 0;
}

int ldri_cmd_bench(const ldri_cli *cli)
{
    ldr_options given = cli->options, o;
    ldr_error err;
    int status = 0;
    given.source = cli->args[0];
    if (bad_usage(cli)) return 2;
    if (ldri_options_resolve(&given, &o, &err) < 0) return ldri_cmd_failed(&err);

    ldri_bench b = {.o = &o,
                    .limits = {o.max_pixels, o.max_scans, o.max_file},
                    .n_workers = o.threads ? o.threads : ldri_cpus_allowed(),
                    .n_rounds = cli->rounds,
                    .seconds = cli->seconds,
                    .handover_us = NAN};
    if (measure_stages(&b, &err) < 0) status = ldri_cmd_failed(&err);
    if (status == 0) ldri_bench_pipeline(&b, &status);
    if (status == 0) ldri_bench_handover(&b, &status);
    if (status == 0) {
        if (cli->json) {
            ldri_bench_print_json(&b);
        } else {
            ldri_bench_print_table(&b);
        }
        if (!ldri_cmd_stdout_works(1)) status = 1;
    }
    for (int i = 0; i < LDRI_BENCH_N_STAGES; i++) free(b.rates[i]);
    ldri_bench_free_items(&b);
    ldri_source_close(&b.source);
    return status;
}
