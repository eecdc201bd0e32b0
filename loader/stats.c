#include "loader/pipeline.h"

#include "loader/device_calls.h"

#include <string.h>

static uint64_t load(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static uint64_t until(uint64_t now, const _Atomic uint64_t *since)
{
    uint64_t t = load(since);
    return t && t < now ? now - t : 0;
}

static void add(ldr_stage_stats *to, const ldri_counter *c)
{
    to->items += load(&c->items);
    to->bytes += load(&c->bytes);
    to->busy_ns += load(&c->busy_ns);
    to->starved_ns += load(&c->starved_ns);
    to->blocked_ns += load(&c->blocked_ns);
}

/* The consumer, if workers spend more time waiting for room than for anything else; else the stage
 * that takes most of their time. */
static const char *find_limit(const ldr_stats *s, uint64_t limited_ns)
{
    uint64_t busy = s->read.busy_ns + s->decode.busy_ns + s->augment.busy_ns;
    if (limited_ns > busy / 4 && limited_ns > s->decode.blocked_ns / 2) return "decode_limit";
    if (s->decode.blocked_ns > busy / 4 && s->decode.blocked_ns > s->decode.starved_ns) {
        return "consumer";
    }
    const char *name = "decode";
    uint64_t most = s->decode.busy_ns;
    if (s->read.busy_ns > most) {
        name = "read";
        most = s->read.busy_ns;
    }
    return s->augment.busy_ns > most ? "augment" : name;
}

ldr_status ldr_stats_get(const ldr *ld, ldr_stats *out)
{
    if (!ld || !out) return LDR_E_INVALID;
    if (ldri_forked(ld)) return LDR_E_FORKED;
    if (out->size < sizeof out->size || out->size > sizeof *out) return LDR_E_INVALID;
    ldri_visit_begin(ld);
    ldr_stats s = {.size = out->size};
    uint64_t now = ldri_now_ns(), limited_ns = 0;
    for (uint32_t i = 0; i < ld->n_workers; i++) {
        const ldri_worker *w = &ld->workers[i];
        add(&s.read, &w->read);
        add(&s.decode, &w->decode);
        add(&s.augment, &w->augment);
        limited_ns += load(&w->limited_ns);
        s.decode.starved_ns += until(now, &w->starved_since_ns); /* of a sleep that goes on */
        s.decode.blocked_ns += until(now, &w->blocked_since_ns);
    }
    add(&s.copy, &ld->copy);
    uint64_t counts[LDR_N_CAUSES];
    ldri_bad_list_counts((ldri_bad_list *)&ld->bad, counts);
    memcpy(s.skipped, counts, sizeof counts);
    pthread_mutex_lock((pthread_mutex_t *)&ld->lock);
    s.batches = ld->batches;
    s.images = ld->images;
    s.waits = ld->waits;
    s.wait_ns = ld->wait_ns;
    memcpy(s.wait_histogram, ld->wait_histogram, sizeof s.wait_histogram);
    pthread_mutex_unlock((pthread_mutex_t *)&ld->lock);
    s.limit = find_limit(&s, limited_ns);
    s.threads = ld->n_workers;
    s.depth = ld->o.depth;
    s.device = ld->ops->device;
    ld->ops->memory(ld->backend, &s.pinned_bytes, &s.device_bytes, &s.host_bytes);
    s.host_bytes += ldri_source_bytes(ld->source);
    ldri_visit_end(ld);
    memcpy(out, &s, s.size);
    return LDR_OK;
}

void ldri_device_calls(const ldr *ld, void (*each)(void *user, const char *name, uint64_t n),
                       void *user)
{
    if (ld->ops->calls) ld->ops->calls(ld->backend, each, user);
}
