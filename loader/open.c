/* open.c - making a loader, and taking it apart. */
#include "loader/pipeline.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/cpus.h"
#include "loader/options.h"
#include "loader/params_mix.h"

#define WORKER_NICE          5 /* the caller's thread, which feeds the GPU, wins its core */
#define DEFAULT_ARENA_FINALS 3 /* final pictures' room per sample, without a pinned_limit */
#define ALIGNMENT            64u
#define MIN_KEEP_BYTES       ((size_t)256 << 10) /* an ordinary photograph's */
#define MAX_KEEP_BYTES       ((size_t)32 << 20)

static size_t host_overhead(const ldr_options *o) /* of what is not pixels, bytes */
{
    size_t descriptors = o->batch * sizeof(ldri_descriptor) + ALIGNMENT;
    size_t labels = o->batch * sizeof(int64_t) + ALIGNMENT;
    size_t lambdas = o->batch * sizeof(float) + ALIGNMENT;
    return descriptors + labels + (ldri_mixes(o) ? labels + lambdas : 0);
}

/* Bytes for pixels in one host arena. */
static ldr_status arena_bytes(const ldr_options *o, size_t final_bytes, uint32_t n_hosts,
                              size_t *out, ldr_error *err)
{
    size_t least = o->batch * final_bytes + LDRI_ARENA_SKEW;
    least = (least + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (least > LDRI_ARENA_MAX_BYTES / DEFAULT_ARENA_FINALS) {
        return ldri_error_set(
            err, LDR_E_LIMIT, 0, LDR_NO_SAMPLE,
            "a batch of %u images of %u x %u pixels is above 42 GiB: lower batch, "
            "width or height",
            o->batch, o->width, o->height);
    }
    if (!o->pinned_limit) {
        *out = least * DEFAULT_ARENA_FINALS;
        return LDR_OK;
    }
    size_t each = o->pinned_limit / n_hosts, overhead = host_overhead(o);
    if (each < least + overhead) {
        return ldri_error_set(
            err, LDR_E_LIMIT, 0, LDR_NO_SAMPLE,
            "pinned_limit is %zu bytes, but depth %u x batch %u of %u x %u pixels takes "
            "%zu: raise it, or lower depth or batch",
            o->pinned_limit, o->depth, o->batch, o->width, o->height, (least + overhead) * n_hosts);
    }
    *out = (each - overhead) / ALIGNMENT * ALIGNMENT;
    return LDR_OK;
}

static void warn(void *ld, const char *line)
{
    ldri_log_line(&((const ldr *)ld)->log, LDR_LOG_WARN, LDRI_LOG_MEMORY, "%s", line);
}

static ldr_status make_backend(ldr *ld, ldr_error *err)
{
    const ldr_options *o = &ld->o;
    ld->ops = ldri_backend_find(o->device, err);
    if (!ld->ops) return err ? err->status : LDR_E_UNSUPPORTED;
    ld->final_bytes = (size_t)ldri_pitch(o->width) * o->height;
    ldri_backend_config c = {
        .batch = o->batch,
        .width = o->width,
        .height = o->height,
        .dtype = o->dtype,
        .layout = o->layout,
        .seed = o->seed,
        .erase_mode = o->erase_mode,
        .mixes = ldri_mixes(o),
        .device_id = o->device_id,
        .device_limit = o->device_limit,
        .warn = warn,
        .warn_user = ld,
        .n_hosts = ld->n_hosts,
        .n_outputs = ld->n_outputs,
    };
    ld->mixes = c.mixes;
    ld->two_rounds = c.mixes && ld->ops->augments_in_workers;
    memcpy(c.mean, o->mean, sizeof c.mean);
    memcpy(c.std, o->std, sizeof c.std);
    ldr_status s = arena_bytes(o, ld->final_bytes, ld->n_hosts, &c.arena_bytes, err);
    if (s < 0) return s;
    s = ld->ops->open(&ld->backend, &c, err);
    if (s < 0) return s;
    for (uint32_t i = 0; i < ld->n_hosts; i++) {
        ldri_arena_init(&ld->hosts[i].room, c.arena_bytes, ld->final_bytes);
        ld->ops->host_arena(ld->backend, i, &ld->hosts[i].memory);
    }
    return LDR_OK;
}

static ldr_status make_pools(ldr *ld)
{
    uint32_t batch = ld->o.batch;
    ld->hosts = aligned_alloc(LDRI_CACHE_LINE, ld->n_hosts * sizeof *ld->hosts);
    ld->outputs = calloc(ld->n_outputs, sizeof *ld->outputs);
    ld->workers = aligned_alloc(LDRI_CACHE_LINE, ld->n_workers * sizeof *ld->workers);
    if (ld->hosts) memset(ld->hosts, 0, ld->n_hosts * sizeof *ld->hosts);
    if (ld->workers) memset(ld->workers, 0, ld->n_workers * sizeof *ld->workers);
    if (!ld->hosts || !ld->outputs || !ld->workers) return LDR_E_NOMEM;
    for (uint32_t i = 0; i < ld->n_hosts; i++) {
        ldri_host *h = &ld->hosts[i];
        h->id = i;
        h->jobs = calloc(batch, sizeof *h->jobs);
        h->samples = calloc(batch, sizeof *h->samples);
        h->ok = calloc(batch, 1);
        if (!h->jobs || !h->samples || !h->ok) return LDR_E_NOMEM;
        for (uint32_t j = 0; j < batch; j++) h->jobs[j] = (ldri_job){h, j};
        if (pthread_mutex_init(&h->lock, NULL) != 0) return LDR_E_NOMEM;
        h->lock_made = 1;
    }
    for (uint32_t i = 0; i < ld->n_outputs; i++) {
        ldri_out *out = &ld->outputs[i];
        out->id = i;
        out->labels = calloc(batch, sizeof *out->labels);
        out->samples = calloc(batch, sizeof *out->samples);
        out->ok = calloc(batch, 1);
        if (!out->labels || !out->samples || !out->ok) return LDR_E_NOMEM;
        if (!ldri_mixes(&ld->o)) continue;
        out->mix_labels = calloc(batch, sizeof *out->mix_labels);
        out->mix_lambda = calloc(batch, sizeof *out->mix_lambda);
        if (!out->mix_labels || !out->mix_lambda) return LDR_E_NOMEM;
    }
    return LDR_OK;
}

static ldr_status make_queues(ldr *ld)
{
    size_t n_jobs = (size_t)ld->n_hosts * ld->o.batch;
    if (ldri_ring_init(&ld->jobs, n_jobs) < 0 ||
        ldri_ring_init(&ld->finishes, ld->two_rounds ? n_jobs : 1) < 0 ||
        ldri_ring_init(&ld->done, ld->n_hosts) < 0 ||
        ldri_ring_init(&ld->ready, ld->n_outputs) < 0 ||
        ldri_ring_init(&ld->free_outputs, ld->n_outputs) < 0 || ldri_bad_list_init(&ld->bad) < 0) {
        return LDR_E_NOMEM;
    }
    ldri_event_init(&ld->work_event);
    ldri_event_init(&ld->hub_event);
    ldri_event_init(&ld->ready_event);
    ldri_event_init(&ld->leave_event);
    for (uint32_t i = 0; i < ld->n_outputs; i++) ldri_ring_push(&ld->free_outputs, &ld->outputs[i]);
    return LDR_OK;
}

/* What workers keep between pictures, all together, is at most an eighth of decode_limit. */
static size_t keep_bytes(const ldr *ld)
{
    size_t keep = ld->o.decode_limit / ld->n_workers / 16; /* two buffers each */
    if (keep < MIN_KEEP_BYTES) return MIN_KEEP_BYTES;
    return keep < MAX_KEEP_BYTES ? keep : MAX_KEEP_BYTES;
}

static ldr_status make_workers(ldr *ld)
{
    if (ldri_budget_init(&ld->decode_budget, ld->o.decode_limit, &ld->stop) < 0) return LDR_E_NOMEM;
    ld->keep_bytes = keep_bytes(ld);
    for (uint32_t i = 0; i < ld->n_workers; i++) {
        ldri_worker *w = &ld->workers[i];
        w->ld = ld;
        if (ldri_decoder_open(&w->decoder, &ld->limits) < 0) return LDR_E_NOMEM;
        w->scratch = ld->ops->scratch_open(ld->backend);
        if (!w->scratch) return LDR_E_NOMEM;
        if (ldri_buffer_reserve(&w->file, (size_t)1 << 20) < 0) return LDR_E_NOMEM;
        w->hold.budget = &ld->decode_budget;
    }
    return LDR_OK;
}

static ldr_status start_threads(ldr *ld, ldr_error *err)
{
    ldr_status s = ldri_thread_start(&ld->staging, "ldr-staging", ldri_staging_main, ld, 0);
    for (uint32_t i = 0; s >= 0 && i < ld->n_workers; i++) {
        char name[16];
        snprintf(name, sizeof name, "ldr-w%u", i);
        ldri_worker *w = &ld->workers[i];
        s = ldri_thread_start(&w->thread, name, ldri_worker_main, w, WORKER_NICE);
    }
    if (s < 0) {
        ldri_error_set(err, s, errno, LDR_NO_SAMPLE,
                       "cannot start %u threads: lower threads, or raise the limit on processes "
                       "(ulimit -u)",
                       ld->n_workers + 1);
    }
    return s;
}

static void stop_threads(ldr *ld)
{
    ldri_pipeline_stop(ld);
    for (uint32_t i = 0; ld->workers && i < ld->n_workers; i++) {
        ldri_thread_join(&ld->workers[i].thread);
    }
    ldri_thread_join(&ld->staging);
}

/* Frees any prefix of what ldr_open makes; the threads are stopped. */
void ldri_pipeline_destroy(ldr *ld)
{
    for (uint32_t i = 0; ld->workers && i < ld->n_workers; i++) {
        ldri_worker *w = &ld->workers[i];
        ldri_decoder_close(&w->decoder);
        if (w->scratch) ld->ops->scratch_close(w->scratch);
        ldri_buffer_free(&w->file);
        ldri_buffer_free(&w->overflow);
    }
    if (ld->backend) ld->ops->close(ld->backend);
    for (uint32_t i = 0; ld->hosts && i < ld->n_hosts; i++) {
        ldri_host *h = &ld->hosts[i];
        free(h->jobs);
        free(h->samples);
        free(h->ok);
        if (h->lock_made) pthread_mutex_destroy(&h->lock);
    }
    for (uint32_t i = 0; ld->outputs && i < ld->n_outputs; i++) {
        free(ld->outputs[i].labels);
        free(ld->outputs[i].samples);
        free(ld->outputs[i].ok);
        free(ld->outputs[i].mix_labels);
        free(ld->outputs[i].mix_lambda);
    }
    ldri_ring_destroy(&ld->jobs);
    ldri_ring_destroy(&ld->finishes);
    ldri_ring_destroy(&ld->done);
    ldri_ring_destroy(&ld->ready);
    ldri_ring_destroy(&ld->free_outputs);
    ldri_bad_list_destroy(&ld->bad);
    ldri_budget_destroy(&ld->decode_budget);
    if (ld->lock_made) pthread_mutex_destroy(&ld->lock);
    ldri_source_close(&ld->source);
    free(ld->hosts);
    free(ld->outputs);
    free(ld->workers);
    free(ld->source_text);
    free(ld);
}

/* LDR_WATCHDOG: seconds, 0: never; without it 10. */
static uint64_t watchdog_ns(const char *text)
{
    char *end;
    double seconds = text ? strtod(text, &end) : 10;
    if (text && (end == text || *end || !(seconds >= 0 && seconds < 1e9))) seconds = 10;
    return (uint64_t)(seconds * 1e9);
}

/* What listing passed over in silence may be what somebody misses. */
static ldr_status build(ldr *ld, ldr_error *err)
{
    ldr_status s = LDR_E_NOMEM;
    if (!(ld->source_text = strdup(ld->o.source))) goto no_memory;
    ld->o.source = ld->source_text;
    if (pthread_mutex_init(&ld->lock, NULL) != 0) goto no_memory;
    ld->lock_made = 1;
    ldri_log_init(&ld->log, ld->o.log, ld->o.log_user, getenv("LDR_DEBUG"));
    ld->watchdog_ns = watchdog_ns(getenv("LDR_WATCHDOG"));
    ld->limits = (ldri_limits){ld->o.max_pixels, ld->o.max_scans, ld->o.max_file};
    ld->n_hosts = ld->n_outputs = ld->o.depth;
    ld->n_workers = ld->o.threads ? ld->o.threads : ldri_cpus_allowed();
    uint64_t start = ldri_now_ns();
    if ((s = ldri_source_open(&ld->source, &ld->o, err)) < 0) return s;
    ldri_report_source(ld, ldri_now_ns() - start);
    if ((s = ldri_plan_init(&ld->plan, &ld->o, ldri_source_count(ld->source), err)) < 0) return s;
    if ((s = make_pools(ld)) < 0) goto no_memory;
    if ((s = make_backend(ld, err)) < 0) return s;
    if ((s = make_queues(ld)) < 0 || (s = make_workers(ld)) < 0) goto no_memory;
    ldri_report_memory(ld);
    return start_threads(ld, err);

no_memory:
    return ldri_error_set(err, LDR_E_NOMEM, ENOMEM, LDR_NO_SAMPLE,
                          "out of memory: lower batch, depth or threads");
}

ldr_status ldr_open(ldr **out, const ldr_options *o, ldr_error *err)
{
    ldr_error local;
    if (!err) err = &local;
    if (!out || !o) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "ldr_open: a place for the handle and the options are needed");
    }
    ldr_options resolved;
    ldr_status s = ldri_options_resolve(o, &resolved, err);
    if (s < 0) return s;
    ldr *ld = aligned_alloc(LDRI_CACHE_LINE, sizeof *ld);
    if (!ld) return ldri_error_set(err, LDR_E_NOMEM, ENOMEM, LDR_NO_SAMPLE, "out of memory");
    memset(ld, 0, sizeof *ld);
    ld->pid = getpid();
    ld->o = resolved;
    ld->first_error.sample = LDR_NO_SAMPLE;
    s = build(ld, err);
    if (s < 0) {
        stop_threads(ld);
        ldri_pipeline_destroy(ld);
        return s;
    }
    *out = ld; /* last: nothing can fail now */
    return LDR_OK;
}

ldr_status ldr_close(ldr **handle)
{
    if (!handle || !*handle) return LDR_OK;
    ldr *ld = *handle;
    if (ldri_forked(ld)) {
        /* The threads are the parent's, and a lock may have been held when it forked: touch
         * nothing. */
        *handle = NULL;
        return LDR_E_FORKED;
    }
    pthread_mutex_lock(&ld->lock);
    int busy = ld->held > 0 || ld->calls_inside > 0;
    pthread_mutex_unlock(&ld->lock);
    if (busy) return LDR_BUSY;
    ldri_pipeline_await_visitors(ld);
    stop_threads(ld);
    ldri_pipeline_destroy(ld);
    *handle = NULL;
    return LDR_OK;
}

void ldr_retire(ldr *ld)
{
    if (!ld || ldri_forked(ld)) return;
    ldri_pipeline_abort(ld); /* a call that waits in another thread ends too */
    stop_threads(ld);
    pthread_mutex_lock(&ld->lock);
    ld->retired = 1;
    int last = ld->held == 0 && ld->calls_inside == 0;
    pthread_mutex_unlock(&ld->lock);
    if (!last) return;
    ldri_pipeline_await_visitors(ld);
    ldri_pipeline_destroy(ld);
}
