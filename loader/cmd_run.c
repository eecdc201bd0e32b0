#include "loader/cmd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "loader/device_calls.h"
#include "loader/json.h"
#include "loader/source.h"
#include "loader/queue.h"
#include "loader/status.h"

#define BAD_SHOWN 5    /* paths of bad samples in the summary */
#define BAD_MAX   1000 /* in the document */

typedef struct outcome { /* of a run, as the consumer saw it */
    const char *source;
    uint64_t images, batches, epochs; /* epochs that came to their end */
    uint64_t open_ns;                 /* what ldr_open took */
    uint64_t first_ns;                /* from the call of ldr_open to the first batch */
    uint64_t run_ns;                  /* from the return of ldr_open to the end */
    ldr_status status;
    ldri_cmd_waits waits;
    ldr_stats stats;
} outcome;

typedef struct stage {
    const char *name;
    const ldr_stage_stats *stats;
} stage;

enum { N_STAGES = 5 };

static void name_stages(const ldr_stats *st, stage out[N_STAGES])
{
    const stage all[N_STAGES] = {{"read", &st->read},
                                 {"decode", &st->decode},
                                 {"synth", &st->synth},
                                 {"copy", &st->copy},
                                 {"augment", &st->augment}};
    memcpy(out, all, sizeof all);
}

static const char *device_name(ldr_device d)
{
    return d == LDR_DEVICE_CPU ? "cpu" : d == LDR_DEVICE_CUDA ? "cuda" : "auto";
}

static double rate(const outcome *r)
{
    return r->run_ns > 0 ? 1e9 * (double)r->images / (double)r->run_ns : 0;
}

static uint64_t peak_rss_bytes(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
    return (uint64_t)u.ru_maxrss * 1024; /* Linux counts in kilobytes */
}

/* --- the document ---------------------------------------------------------------------------- */

static void write_calls(void *json, const char *name, uint64_t n)
{
    ldri_json_uint(json, name, n);
}

static void write_bad(ldri_json *j, const ldr *ld)
{
    ldri_json_open(j, "bad", '[');
    ldr_bad *bad = calloc(BAD_MAX, sizeof *bad);
    size_t n = bad ? ldr_bad_samples(ld, bad, BAD_MAX) : 0;
    for (size_t i = 0; i < n && i < BAD_MAX; i++) {
        ldri_json_open(j, NULL, '{');
        ldri_json_string(j, "path", ldr_sample_name(ld, bad[i].sample));
        ldri_json_string(j, "cause", ldr_cause_name(bad[i].cause));
        ldri_json_string(j, "message", bad[i].message);
        ldri_json_uint(j, "sample", bad[i].sample);
        ldri_json_uint(j, "epoch", bad[i].epoch);
        ldri_json_close(j);
    }
    free(bad);
    ldri_json_close(j);
}

static void write_passed_over(ldri_json *j, const ldri_source_counts *c)
{
    ldri_json_open(j, "passed_over", '{');
    ldri_json_uint(j, "hidden", c->hidden);
    ldri_json_uint(j, "other", c->other);
    ldri_json_uint(j, "special", c->special);
    ldri_json_uint(j, "outside", c->outside);
    ldri_json_uint(j, "directory_links", c->directory_links);
    ldri_json_uint(j, "unlistable", c->unlistable);
    ldri_json_uint(j, "empty_classes", c->empty_classes);
    ldri_json_uint(j, "too_long", c->too_long);
    ldri_json_close(j);
}

static void write_document(const ldr *ld, const outcome *r)
{
    ldri_json j = {.file = stdout};
    const ldr_stats *st = &r->stats;
    stage stages[N_STAGES];
    ldr_error err;
    name_stages(st, stages);
    ldr_last_error(ld, &err);

    ldri_json_open(&j, NULL, '{');
    ldri_json_string(&j, "source", r->source);
    ldri_json_string(&j, "status", ldr_status_name(r->status < 0 ? r->status : LDR_OK));
    ldri_json_string(&j, "error", r->status < 0 ? err.message : "");
    ldri_json_uint(&j, "samples", ldr_sample_count(ld));
    ldri_json_uint(&j, "classes", ldr_class_count(ld));
    ldri_json_uint(&j, "epochs", r->epochs);
    ldri_json_uint(&j, "images", r->images);
    ldri_json_uint(&j, "batches", r->batches);
    ldri_json_real(&j, "seconds", 1e-9 * (double)r->run_ns);
    ldri_json_real(&j, "images_per_s", rate(r));
    ldri_json_real(&j, "open_ms", 1e-6 * (double)r->open_ns);
    ldri_json_real(&j, "first_batch_ms", 1e-6 * (double)r->first_ns);
    ldri_json_open(&j, "wait_ms", '{');
    ldri_json_real(&j, "p50", 1e-6 * (double)ldri_cmd_waits_percentile(&r->waits, 0.50));
    ldri_json_real(&j, "p90", 1e-6 * (double)ldri_cmd_waits_percentile(&r->waits, 0.90));
    ldri_json_real(&j, "p99", 1e-6 * (double)ldri_cmd_waits_percentile(&r->waits, 0.99));
    ldri_json_real(&j, "max", 1e-6 * (double)r->waits.max_ns);
    ldri_json_real(&j, "total", 1e-6 * (double)r->waits.total_ns);
    ldri_json_close(&j);
    ldri_json_open(&j, "stages", '{');
    for (int i = 0; i < N_STAGES; i++) {
        ldri_json_open(&j, stages[i].name, '{');
        ldri_json_uint(&j, "items", stages[i].stats->items);
        ldri_json_uint(&j, "bytes", stages[i].stats->bytes);
        ldri_json_real(&j, "busy_s", 1e-9 * (double)stages[i].stats->busy_ns);
        ldri_json_real(&j, "starved_s", 1e-9 * (double)stages[i].stats->starved_ns);
        ldri_json_real(&j, "blocked_s", 1e-9 * (double)stages[i].stats->blocked_ns);
        ldri_json_close(&j);
    }
    ldri_json_close(&j);
    ldri_json_string(&j, "limit", st->limit ? st->limit : "");
    ldri_json_open(&j, "skipped", '{');
    for (int c = 1; c < LDR_N_CAUSES; c++) {
        if (st->skipped[c]) ldri_json_uint(&j, ldr_cause_name((ldr_cause)c), st->skipped[c]);
    }
    ldri_json_close(&j);
    write_bad(&j, ld);
    write_passed_over(&j, ldri_source_passed_over(ldri_source_of(ld)));
    ldri_json_uint(&j, "threads", st->threads);
    ldri_json_uint(&j, "depth", st->depth);
    ldri_json_string(&j, "device", device_name(st->device));
    ldri_json_uint(&j, "pinned_bytes", st->pinned_bytes);
    ldri_json_uint(&j, "device_bytes", st->device_bytes);
    ldri_json_uint(&j, "host_bytes", st->host_bytes);
    ldri_json_uint(&j, "peak_rss_bytes", peak_rss_bytes());
    ldri_json_open(&j, "cuda_calls", '{');
    ldri_device_calls(ld, write_calls, &j);
    ldri_json_close(&j);
    ldri_json_close(&j);
}

/* --- the summary ----------------------------------------------------------------------------- */

static void print_passed_over(const ldr *ld)
{
    const ldri_source_counts *c = ldri_source_passed_over(ldri_source_of(ld));
    char line[512] = "";
    ldri_cmd_add_count(line, sizeof line, c->hidden, "hidden");
    ldri_cmd_add_count(line, sizeof line, c->other, "without a picture's name");
    ldri_cmd_add_count(line, sizeof line, c->special, "not regular files");
    ldri_cmd_add_count(line, sizeof line, c->outside, "pictures outside class folders");
    ldri_cmd_add_count(line, sizeof line, c->directory_links, "links to directories");
    ldri_cmd_add_count(line, sizeof line, c->unlistable, "directories that cannot be listed");
    ldri_cmd_add_count(line, sizeof line, c->empty_classes, "class folders without a picture");
    ldri_cmd_add_count(line, sizeof line, c->too_long, "paths of more than 4,095 bytes");
    if (line[0]) printf("passed over  %s\n", line);
    if (c->directory_links) {
        printf("             not followed: %s (--follow-links 1 does)\n", c->first_directory_link);
    }
    if (c->unlistable) printf("             cannot be listed: %s\n", c->first_unlistable);
}

static void print_summary(const ldr *ld, const outcome *r)
{
    const ldr_stats *st = &r->stats;
    char skipped[512] = "", source[128];
    stage stages[N_STAGES];
    name_stages(st, stages);
    printf("source       %s: %" PRIu64 " samples, %" PRIu32 " classes\n",
           ldri_printable_path(source, sizeof source, r->source), ldr_sample_count(ld),
           ldr_class_count(ld));
    printf("loaded       %" PRIu64 " images in %" PRIu64 " batches, %" PRIu64 " epoch%s\n",
           r->images, r->batches, r->epochs, r->epochs == 1 ? "" : "s");
    printf("time         %.3f s: %.0f images/s; opened in %.1f ms, first batch at %.1f ms\n",
           1e-9 * (double)r->run_ns, rate(r), 1e-6 * (double)r->open_ns,
           1e-6 * (double)r->first_ns);
    printf("waits        p50 %.3f, p90 %.3f, p99 %.3f, max %.3f, total %.1f ms\n",
           1e-6 * (double)ldri_cmd_waits_percentile(&r->waits, 0.50),
           1e-6 * (double)ldri_cmd_waits_percentile(&r->waits, 0.90),
           1e-6 * (double)ldri_cmd_waits_percentile(&r->waits, 0.99),
           1e-6 * (double)r->waits.max_ns, 1e-6 * (double)r->waits.total_ns);
    printf("limit        %s\n", st->limit ? st->limit : "");
    printf("with         %s, %" PRIu32 " threads, depth %" PRIu32
           "; memory: arenas %.1f MB, outputs %.1f MB, peak %.1f MB\n",
           device_name(st->device), st->threads, st->depth, 1e-6 * (double)st->pinned_bytes,
           1e-6 * (double)st->host_bytes, 1e-6 * (double)peak_rss_bytes());
    printf("\nstage           items        MB    busy s starved s blocked s\n");
    for (int i = 0; i < N_STAGES; i++) {
        const ldr_stage_stats *s = stages[i].stats;
        if (s->items == 0) continue;
        printf("%-10s %10" PRIu64 " %9.1f %9.2f %9.2f %9.2f\n", stages[i].name, s->items,
               1e-6 * (double)s->bytes, 1e-9 * (double)s->busy_ns, 1e-9 * (double)s->starved_ns,
               1e-9 * (double)s->blocked_ns);
    }
    for (int c = 1; c < LDR_N_CAUSES; c++) {
        ldri_cmd_add_count(skipped, sizeof skipped, st->skipped[c], ldr_cause_name((ldr_cause)c));
    }
    if (skipped[0]) {
        printf("\nbad          %s\n", skipped);
        ldri_cmd_list_bad(stdout, "             ", ld, BAD_SHOWN);
    }
    print_passed_over(ld);
}

/* --------------------------------------------------------------------------------------------- */

static void consume(ldr *ld, const ldri_cli *cli, uint64_t called_ns, outcome *r)
{
    ldri_cmd_progress progress;
    uint64_t opened_ns = ldri_now_ns();
    r->open_ns = opened_ns - called_ns;
    ldri_cmd_progress_start(&progress, ldr_length(ld), cli->options.epochs);
    for (;;) {
        const ldr_batch *b;
        uint64_t before_ns = ldri_now_ns();
        r->status = ldr_next(ld, NULL, -1, &b);
        uint64_t after_ns = ldri_now_ns();
        if (r->status == LDR_END) {
            if (++r->epochs == cli->options.epochs) break;
            continue;
        }
        if (r->status != LDR_OK) break;
        if (r->batches == 0) r->first_ns = after_ns - called_ns;
        ldri_cmd_waits_add(&r->waits, after_ns - before_ns);
        r->batches++;
        r->images += b->count;
        r->status = ldr_release(ld, b, NULL);
        if (r->status < 0) break;
        ldri_cmd_progress_draw(&progress, r->batches, r->images);
    }
    r->run_ns = ldri_now_ns() - opened_ns;
    ldri_cmd_progress_clear(&progress);
}

int ldri_cmd_run(const ldri_cli *cli)
{
    ldr *ld;
    ldr_error err;
    ldr_options o = cli->options;
    o.source = cli->args[0];
    uint64_t called_ns = ldri_now_ns();
    if (ldri_cmd_open(&ld, &o, &err) < 0) return ldri_cmd_failed(&err);

    outcome *r = calloc(1, sizeof *r);
    if (!r) {
        ldri_cmd_close(&ld);
        ldri_cmd_say("out of memory");
        return 1;
    }
    r->source = cli->args[0];
    consume(ld, cli, called_ns, r);
    r->stats.size = sizeof r->stats;
    ldr_stats_get(ld, &r->stats); /* its only failure is a wrong size */
    if (cli->json) {
        write_document(ld, r);
    } else {
        print_summary(ld, r);
    }
    int status = ldri_cmd_outcome(ld, r->status);
    if (!ldri_cmd_stdout_works(1) && status == 0) status = 1;
    free(r);
    ldri_cmd_close(&ld);
    return status;
}
