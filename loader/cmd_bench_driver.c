/* DESIGN.  A round's threads are started and joined by the main thread, which sleeps in the join.
 * What they share is written before they start (bench, step, deadline) or atomic (next, damaged);
 * counts are each worker's own and read after the join.  Nothing waits, so nothing can hang: a
 * worker leaves after the item during which the deadline passed. */
#include "loader/cmd_bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "loader/queue.h"

#define WORKER_NICE 5 /* as loader.c starts them */

static double thread_cpu_seconds(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0; /* ratios of it are then NAN */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(void *arg)
{
    ldri_bench_worker *w = arg;
    ldri_bench *b = w->bench;
    double cpu_start = thread_cpu_seconds();
    uint64_t now;
    do {
        b->step(w, atomic_fetch_add_explicit(&b->next, 1, memory_order_relaxed));
        now = ldri_now_ns();
    } while (now < b->deadline_ns);
    w->seconds = 1e-9 * (double)(now - b->start_ns);
    w->cpu_seconds = thread_cpu_seconds() - cpu_start;
}

ldr_status ldri_bench_drive(ldri_bench *b, ldri_bench_step *step, uint64_t first, double seconds,
                            ldri_bench_rate *out, ldr_error *err)
{
    ldr_status s = LDR_OK;
    uint32_t n_started = 0;
    b->step = step;
    atomic_store_explicit(&b->next, first, memory_order_relaxed);
    b->start_ns = ldri_now_ns();
    b->deadline_ns = b->start_ns + (uint64_t)(1e9 * seconds);
    while (n_started < b->n_workers && s >= 0) {
        char name[16];
        ldri_bench_worker *w = &b->workers[n_started];
        memset(&w->count, 0, sizeof w->count);
        snprintf(name, sizeof name, "ldr-b%u", n_started);
        s = ldri_thread_start(&w->thread, name, work, w, WORKER_NICE);
        if (s < 0) {
            ldri_error_set(err, s, errno, LDR_NO_SAMPLE,
                           "cannot start %u threads: lower threads, or raise the limit on "
                           "processes (ulimit -u)",
                           b->n_workers);
        } else {
            n_started++;
        }
    }
    for (uint32_t i = 0; i < n_started; i++) ldri_thread_join(&b->workers[i].thread);
    if (s < 0) return s;

    /* Each worker by its own end, because large pictures end apart; all by the same start, because
     * where workers share a CPU some only begin when others are done. */
    double items = 0, cpu_seconds = 0;
    *out = (ldri_bench_rate){0};
    for (uint32_t i = 0; i < b->n_workers; i++) {
        const ldri_bench_worker *w = &b->workers[i];
        out->images += (double)w->count.items / w->seconds;
        out->pixels += (double)w->count.pixels / w->seconds;
        out->bytes += (double)w->count.bytes / w->seconds;
        items += (double)w->count.items;
        cpu_seconds += w->cpu_seconds;
    }
    out->images_per_cpu_s = items / cpu_seconds;
    return LDR_OK;
}
