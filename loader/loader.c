#include "loader/pipeline.h"

#include <assert.h>
#include <string.h>

/* --- for all parts --------------------------------------------------------------------------- */

void ldri_pipeline_stop(ldr *ld)
{
    atomic_store_explicit(&ld->stop, 1, memory_order_release);
    ldri_event_signal(&ld->work_event, UINT32_MAX);
    ldri_event_signal(&ld->hub_event, UINT32_MAX);
    ldri_event_signal(&ld->ready_event, UINT32_MAX);
    if (ld->decode_budget.lock_made) ldri_event_signal(&ld->decode_budget.event, UINT32_MAX);
}

void ldri_pipeline_abort(ldr *ld)
{
    pthread_mutex_lock(&ld->lock);
    ld->aborted = 1;
    pthread_mutex_unlock(&ld->lock);
    ldri_pipeline_stop(ld);
}

/* The end of a call that was counted in calls_inside, under the lock, which it gives back.  After
 * ldr_retire the last one out frees the loader. */
static void leave_locked(ldr *ld)
{
    ld->calls_inside--;
    int last = ld->retired && ld->held == 0 && ld->calls_inside == 0;
    pthread_mutex_unlock(&ld->lock);
    if (last) {
        ldri_pipeline_await_visitors(ld);
        ldri_pipeline_destroy(ld);
    }
}

void ldri_pipeline_fail(ldr *ld, const ldr_error *error)
{
    pthread_mutex_lock(&ld->lock);
    int first = ld->first_error.status == LDR_OK;
    if (first) ld->first_error = *error;
    pthread_mutex_unlock(&ld->lock);
    /* The caller gets it as a status: a line for those who watch. */
    if (first) ldri_log_line(&ld->log, LDR_LOG_INFO, LDRI_LOG_STAGE, "failed: %s", error->message);
}

void ldri_visit_begin(const ldr *const_ld)
{
    ldr *ld = (ldr *)const_ld; /* what is counted is not what a reader of ld sees */
    pthread_mutex_lock(&ld->lock);
    ld->visitors++;
    pthread_mutex_unlock(&ld->lock);
}

void ldri_visit_end(const ldr *const_ld)
{
    ldr *ld = (ldr *)const_ld;
    pthread_mutex_lock(&ld->lock);
    ld->visitors--;
    /* Under the lock: once it is given back, close may free the event. */
    if (ld->visitors == 0) ldri_event_signal(&ld->leave_event, UINT32_MAX);
    pthread_mutex_unlock(&ld->lock);
}

static int no_visitors(ldr *ld)
{
    pthread_mutex_lock(&ld->lock);
    int none = ld->visitors == 0;
    pthread_mutex_unlock(&ld->lock);
    return none;
}

void ldri_pipeline_await_visitors(ldr *ld)
{
    while (!no_visitors(ld)) {
        uint32_t ticket = ldri_event_announce(&ld->leave_event);
        if (no_visitors(ld)) {
            ldri_event_retract(&ld->leave_event);
            return;
        }
        ldri_event_sleep(&ld->leave_event, ticket, UINT64_MAX);
    }
}

void ldr_abort(ldr *ld)
{
    if (!ld || ldri_forked(ld)) return;
    ldri_visit_begin(ld); /* a consumer that sees the abort may close at once */
    ldr_error error;
    ldri_error_set(&error, LDR_E_ABORTED, 0, LDR_NO_SAMPLE, "the loader was aborted");
    ldri_pipeline_fail(ld, &error);
    ldri_pipeline_abort(ld);
    ldri_visit_end(ld);
}

/* --- next and release ------------------------------------------------------------------------ */

static ldr_status try_next(ldr *ld, ldri_out **out)
{
    if (ld->aborted) return LDR_E_ABORTED;
    if (ld->ends_pending) {
        ld->ends_pending--;
        return LDR_END;
    }
    int finished = ld->finished; /* before the pop: what was pushed before it is found */
    ldri_out *o = ldri_ring_pop(&ld->ready);
    if (!o) {
        if (finished) return ld->outcome;
        return ld->held == ld->n_outputs ? LDR_BUSY : LDR_TIMEOUT;
    }
    o->view = (o->view + 1) % LDRI_VIEWS;
    o->views[o->view].generation = ++ld->generation;
    o->held = 1;
    ld->held++;
    ld->ends_pending += (uint32_t)o->ends_epoch;
    *out = o;
    return LDR_OK;
}

static ldr_status locked_try_next(ldr *ld, ldri_out **out)
{
    pthread_mutex_lock(&ld->lock);
    ldr_status s = try_next(ld, out);
    int all_held = ld->held == ld->n_outputs;
    pthread_mutex_unlock(&ld->lock);
    /* Other callers may be waiting: now there is an end to report, or nothing can come for them. */
    if (s == LDR_OK && all_held) {
        ldri_event_signal(&ld->ready_event, UINT32_MAX);
    } else if (s == LDR_OK && (*out)->ends_epoch) {
        ldri_event_signal(&ld->ready_event, 1);
    }
    return s;
}

static ldr_status wait_next(ldr *ld, int timeout_ms, uint64_t start, ldri_out **out)
{
    ldr_status s = locked_try_next(ld, out);
    uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : start + (uint64_t)timeout_ms * 1000000u;
    uint64_t watchdog = ld->watchdog_ns ? start + ld->watchdog_ns : UINT64_MAX;
    while (s == LDR_TIMEOUT && timeout_ms != 0) {
        uint32_t ticket = ldri_event_announce(&ld->ready_event);
        s = locked_try_next(ld, out);
        if (s != LDR_TIMEOUT) {
            ldri_event_retract(&ld->ready_event);
            break;
        }
        uint64_t alarm = watchdog < deadline ? watchdog : deadline;
        int late = ldri_event_sleep(&ld->ready_event, ticket, alarm);
        s = locked_try_next(ld, out);
        if (late && s == LDR_TIMEOUT && alarm == watchdog) {
            ldri_report_wait(ld, ldri_now_ns() - start);
            watchdog = UINT64_MAX; /* once a wait */
        } else if (late) {
            break;
        }
    }
    return s;
}

static void count_wait(ldr *ld, const ldri_out *out, uint64_t ns) /* under the lock */
{
    ld->batches++;
    ld->images += out->views[out->view].count;
    ld->waits++;
    ld->wait_ns += ns;
    uint64_t us = ns / 1000;
    uint32_t bucket = us ? 64 - (uint32_t)__builtin_clzll(us) : 0;
    ld->wait_histogram[bucket < 31 ? bucket : 31]++;
}

ldr_status ldr_next(ldr *ld, ldr_stream consumer, int timeout_ms, const ldr_batch **out)
{
    if (!ld || !out) return LDR_E_INVALID;
    if (ldri_forked(ld)) return LDR_E_FORKED;
    uint64_t start = ldri_now_ns();
    pthread_mutex_lock(&ld->lock);
    ld->calls_inside++;
    pthread_mutex_unlock(&ld->lock);

    ldri_out *o = NULL;
    ldr_status s = wait_next(ld, timeout_ms, start, &o);
    if (s == LDR_OK) {
        ldr_error error;
        s = ld->ops->acquire(ld->backend, o->id, consumer, &error);
        if (s < 0) ldri_pipeline_fail(ld, &error);
    }

    pthread_mutex_lock(&ld->lock);
    if (s == LDR_OK) {
        count_wait(ld, o, ldri_now_ns() - start);
        *out = &o->views[o->view];
    } else if (o) { /* not handed over after all; the loader has failed */
        o->held = 0;
        ld->held--;
        ld->finished = 1;
        ld->outcome = s;
    }
    leave_locked(ld);
    return s;
}

/* The output that b is the current hand-over of, or NULL. */
static ldri_out *held_output(ldr *ld, const ldr_batch *b) /* under the lock */
{
    for (uint32_t i = 0; i < ld->n_outputs; i++) {
        ldri_out *out = &ld->outputs[i];
        if (b == &out->views[out->view]) return out->held ? out : NULL;
    }
    return NULL;
}

ldr_status ldr_release(ldr *ld, const ldr_batch *b, ldr_stream last_use)
{
    if (!ld || !b) return LDR_E_INVALID;
    if (ldri_forked(ld)) return LDR_E_FORKED;
    pthread_mutex_lock(&ld->lock);
    ldri_out *out = held_output(ld, b);
    if (!out) {
        pthread_mutex_unlock(&ld->lock);
        return LDR_E_STATE;
    }
    out->held = 0; /* a second release sees it from here on */
    ld->calls_inside++;
    pthread_mutex_unlock(&ld->lock);

    ldr_error error;
    ldr_status s = ld->ops->release(ld->backend, out->id, last_use, &error);
    if (s < 0) ldri_pipeline_fail(ld, &error);

    pthread_mutex_lock(&ld->lock);
    ld->held--;
    pthread_mutex_unlock(&ld->lock);
    ldri_ring_push(&ld->free_outputs, out);
    ldri_event_signal(&ld->hub_event, 1);
    /* Another thread's ldr_next that would have said LDR_BUSY was right when it looked; nobody
     * waits for this. */

    pthread_mutex_lock(&ld->lock);
    leave_locked(ld);
    return s;
}

/* --- what is in it --------------------------------------------------------------------------- */

const ldri_source *ldri_source_of(const ldr *ld)
{
    return ld->source;
}

uint64_t ldr_length(const ldr *ld)
{
    return ld && !ldri_forked(ld) ? ld->plan.n_batches : 0;
}

uint64_t ldr_sample_count(const ldr *ld)
{
    return ld && !ldri_forked(ld) ? ldri_source_count(ld->source) : 0;
}

uint32_t ldr_class_count(const ldr *ld)
{
    return ld && !ldri_forked(ld) ? ldri_source_class_count(ld->source) : 0;
}

const char *ldr_class_name(const ldr *ld, uint32_t class_id)
{
    return class_id < ldr_class_count(ld) ? ldri_source_class_name(ld->source, class_id) : NULL;
}

const char *ldr_sample_name(const ldr *ld, uint64_t sample)
{
    return sample < ldr_sample_count(ld) ? ldri_source_name(ld->source, sample) : NULL;
}

int64_t ldr_sample_label(const ldr *ld, uint64_t sample)
{
    return sample < ldr_sample_count(ld) ? (int64_t)ldri_source_class(ld->source, sample) : -1;
}

size_t ldr_bad_samples(const ldr *ld, ldr_bad *out, size_t capacity)
{
    if (!ld || ldri_forked(ld)) return 0;
    ldri_visit_begin(ld);
    size_t n =
        ldri_bad_list_copy((ldri_bad_list *)&ld->bad, out, capacity); /* only its lock changes */
    ldri_visit_end(ld);
    return n;
}

void ldr_last_error(const ldr *ld, ldr_error *out)
{
    if (!out) return;
    *out = (ldr_error){.status = LDR_OK, .sample = LDR_NO_SAMPLE};
    if (!ld) return;
    if (ldri_forked(ld)) {
        ldri_error_set(out, LDR_E_FORKED, 0, LDR_NO_SAMPLE,
                       "this loader belongs to the parent process: open one after fork");
        return;
    }
    pthread_mutex_lock((pthread_mutex_t *)&ld->lock); /* all under it: no visit is needed */
    *out = ld->first_error;
    pthread_mutex_unlock((pthread_mutex_t *)&ld->lock);
}
