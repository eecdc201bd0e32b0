#include "loader/pipeline.h"

#include <stdio.h>

void ldri_report_source(const ldr *ld, uint64_t took_ns)
{
    char shown[200];
    ldri_printable_path(shown, sizeof shown, ld->o.source);
    ldri_source_warn(ld->source, &ld->log);
    ldri_log_line(&ld->log, LDR_LOG_INFO, LDRI_LOG_SOURCE,
                  "%s: %llu samples in %u classes, listed in %.1f ms", shown,
                  (unsigned long long)ldri_source_count(ld->source),
                  ldri_source_class_count(ld->source), (double)took_ns * 1e-6);
}

void ldri_report_memory(const ldr *ld)
{
    uint64_t pinned, device, host;
    ld->ops->memory(ld->backend, &pinned, &device, &host);
    ldri_log_line(&ld->log, LDR_LOG_INFO, LDRI_LOG_MEMORY,
                  "%s, %u workers, depth %u: arenas %llu bytes, device %llu, host %llu, list %zu",
                  ld->ops->name, ld->n_workers, ld->o.depth, (unsigned long long)pinned,
                  (unsigned long long)device, (unsigned long long)host,
                  ldri_source_bytes(ld->source));
}

void ldri_report_wait(const ldr *ld, uint64_t waited_ns)
{
    static const char *const doing[] = {"idle", "reading", "waiting for decode_limit to load",
                                        "decoding", "augmenting"};
    const ldri_worker *oldest = NULL;
    uint64_t since = UINT64_MAX;
    for (uint32_t i = 0; i < ld->n_workers; i++) { /* who has been at it for longest */
        const ldri_worker *w = &ld->workers[i];
        uint64_t t = atomic_load_explicit(&w->since_ns, memory_order_relaxed);
        if (atomic_load_explicit(&w->doing, memory_order_relaxed) != LDRI_IDLE && t < since) {
            oldest = w;
            since = t;
        }
    }
    char path[200], who[300] = "all workers are idle";
    if (oldest) {
        uint64_t sample = atomic_load_explicit(&oldest->sample, memory_order_relaxed);
        snprintf(who, sizeof who, "a worker has been %s %s for %.1f s",
                 doing[atomic_load_explicit(&oldest->doing, memory_order_relaxed)],
                 ldri_source_shown_path(ld->source, sample, path, sizeof path),
                 (double)(ldri_now_ns() - since) * 1e-9);
    }
    ldri_log_line(
        &ld->log, LDR_LOG_WARN, LDRI_LOG_WAIT,
        "waited %.1f s for a batch: %zu jobs queued, %zu arenas done, %zu batches ready, %zu "
        "outputs free; %s",
        (double)waited_ns * 1e-9, ldri_ring_count(&ld->jobs), ldri_ring_count(&ld->done),
        ldri_ring_count(&ld->ready), ldri_ring_count(&ld->free_outputs), who);
}
