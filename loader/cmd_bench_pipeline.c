/* The whole loader, as `ldr run` runs it, and what a hand-over costs its caller. */
#include "loader/cmd_bench.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "loader/cmd.h"
#include "loader/queue.h"

/* Memory of the loader whose hand-overs are timed, and how many are ready at a time. */
#define HANDOVER_BYTES ((size_t)256 << 20)
#define HANDOVER_READY 64u
#define WAIT_NS        (10 * UINT64_C(1000000000)) /* for batches to be ready */

static ldr *open_endless(const ldri_bench *b, uint32_t batch, uint32_t depth, int *status)
{
    ldr *ld = NULL;
    ldr_error err;
    ldr_options o = *b->o;
    o.threads = b->n_workers;
    o.batch = batch;
    o.depth = depth;
    o.pinned_limit = 0; /* the user's is for another depth */
    o.epochs = 0;
    if (ldri_cmd_open(&ld, &o, &err) < 0) *status = ldri_cmd_failed(&err);
    return ld;
}

static ldr_status next_batch(ldr *ld, int timeout_ms, const ldr_batch **out)
{
    ldr_status s;
    do s = ldr_next(ld, NULL, timeout_ms, out);
    while (s == LDR_END);
    return s;
}

/* --- images a second ------------------------------------------------------------------------- */

/* Takes batches until `ns` have passed, at least one; from a batch to a batch, so that whole ones
 * are counted. */
static ldr_status consume(ldr *ld, uint64_t ns, ldri_bench_rate *out)
{
    uint64_t start = ldri_now_ns(), now, images = 0, pixels = 0;
    do {
        const ldr_batch *batch;
        ldr_status s = next_batch(ld, -1, &batch);
        if (s != LDR_OK) return s;
        images += batch->count;
        pixels += (uint64_t)batch->count * batch->width * batch->height;
        s = ldr_release(ld, batch, NULL);
        if (s < 0) return s;
        now = ldri_now_ns();
    } while (now - start < ns);
    double seconds = 1e-9 * (double)(now - start);
    *out = (ldri_bench_rate){.images = (double)images / seconds,
                             .pixels = (double)pixels / seconds,
                             .bytes = 3 * (double)pixels / seconds};
    return LDR_OK;
}

void ldri_bench_pipeline(ldri_bench *b, int *status)
{
    ldr_status s = LDR_OK;
    ldri_bench_rate *rates = calloc(b->n_rounds, sizeof *rates);
    ldr *ld = open_endless(b, b->o->batch, b->o->depth, status);
    if (!ld || !rates) goto close;
    b->rates[LDRI_BENCH_PIPELINE] = rates;
    /* Two batches of each arena: after them no page is new, and none was made ahead. */
    for (uint32_t i = 0; i < 2 * b->o->depth && s == LDR_OK; i++) s = consume(ld, 0, &rates[0]);
    for (uint32_t r = 0; r < b->n_rounds && s == LDR_OK; r++) {
        s = consume(ld, (uint64_t)(1e9 * b->seconds), &rates[r]);
    }
    ldr_stats stats = {.size = sizeof stats};
    ldr_stats_get(ld, &stats); /* its only failure is a wrong size */
    b->limit = stats.limit;
    *status = ldri_cmd_outcome(ld, s);
    rates = NULL;
close:
    if (ld) ldri_cmd_close(&ld);
    free(rates);
}

/* --- hand-over ------------------------------------------------------------------------------- */

/* Waits until `images` have been made since the loader was opened.  Nothing tells when a batch is
 * ready without taking it, so this looks again and again.  0: they did not come. */
static int wait_for(ldr *ld, uint64_t images)
{
    const struct timespec millisecond = {0, 1000000};
    uint64_t start = ldri_now_ns();
    while (ldri_now_ns() - start < WAIT_NS && !ldri_cmd_stopped()) {
        ldr_stats st = {.size = sizeof st};
        ldr_stats_get(ld, &st);
        nanosleep(&millisecond, NULL); /* after the look: the hub then passes the last one on */
        if (st.augment.items >= images || st.copy.items >= images) return 1;
    }
    return 0;
}

void ldri_bench_handover(ldri_bench *b, int *status)
{
    size_t each = (size_t)b->o->width * b->o->height * 3 * (3 + sizeof(float));
    size_t depth = HANDOVER_BYTES / each < HANDOVER_READY ? HANDOVER_BYTES / each : HANDOVER_READY;
    if (depth < 2) depth = 2;
    ldr_status s = LDR_OK;
    uint64_t taken = 0;
    ldri_cmd_waits *waits = calloc(1, sizeof *waits);
    ldr *ld = open_endless(b, 1, (uint32_t)depth, status);
    if (!ld || !waits) goto close;
    for (uint32_t r = 0; r < b->n_rounds && s >= 0 && wait_for(ld, taken + depth); r++) {
        for (size_t i = 0; i < depth; i++) {
            const ldr_batch *batch;
            uint64_t start = ldri_now_ns();
            s = ldr_next(ld, NULL, 0, &batch);
            if (s == LDR_END) continue;
            if (s != LDR_OK) break;
            s = ldr_release(ld, batch, NULL);
            ldri_cmd_waits_add(waits, ldri_now_ns() - start);
            taken++;
        }
    }
    if (waits->n > 0) b->handover_us = 1e-3 * (double)ldri_cmd_waits_percentile(waits, 0.5);
    *status = ldri_cmd_outcome(ld, s);
close:
    if (ld) ldri_cmd_close(&ld);
    free(waits);
}
