/* pipeline.h - what the threads of one loader share.  Internal to loader/.
 *
 * DESIGN
 *
 * Threads.  N workers (worker.c), one staging thread (staging.c), and the callers' own (loader.c).
 *
 *     staging: plan -> jobs ----- ring `jobs` -----> workers: read, decode, (resample, augment)
 *        ^                                              | the last sample of an arena
 *        +--------------- ring `done` <-----------------+
 *     staging: submit, in plan order -- ring `ready` --> ldr_next
 *     ldr_release ----------------- ring `free_outputs` --> staging
 *
 * Where workers augment and images of a batch are mixed, a batch has two rounds of jobs.  The first
 * ends before the mix; when all its samples have come home, the staging thread queues the batch's
 * second round in the ring `finishes`, which workers empty before they begin another picture.
 *
 * Rings carry pointers into pools made by ldr_open: jobs, hosts, outputs.  A finished sample is not
 * a message: its worker decrements the counter of its arena, and the last one pushes the arena.
 *
 * Who sleeps where.  Workers on work_event (no job) and on the decode budget's event (its turn has
 * not come), the staging thread on hub_event (nothing complete, no room), callers on ready_event
 * (no batch), close on leave_event (a short call is inside).  Nobody sleeps anywhere else, but for
 * the staging thread's wait for a copy inside ops->host_reusable.
 *
 * Locks.  `lock` guards what callers' threads share; bad.lock the list of bad samples; host->lock a
 * batch's first error; decode_budget.lock the turns.  No lock is held while another is taken, while
 * a back end or a callback is called, or while a thread sleeps.
 *
 * How it stops.  `stop` is part of what each thread tries before it sleeps; who sets it then
 * signals every event, and close joins workers and staging thread before anything is freed.  Jobs
 * that were not begun are dropped: they are pointers into a pool. */
#ifndef LDR_PIPELINE_H
#define LDR_PIPELINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

#include "decode/decode.h"
#include "loader/arena.h"
#include "loader/backend.h"
#include "loader/bad_list.h"
#include "loader/budget.h"
#include "loader/log.h"
#include "loader/plan.h"
#include "loader/queue.h"
#include "loader/read.h"
#include "loader/source.h"
#include "loader/thread.h"

#define LDRI_VIEWS      64 /* hand-overs of one output that a stale pointer is told apart from */
#define LDRI_CANDIDATES 16 /* samples tried in the place of a bad one */

typedef struct ldri_host ldri_host;

typedef struct ldri_job { /* one sample of a batch */
    ldri_host *host;
    uint32_t index;
} ldri_job;

struct ldri_host { /* a host arena and the batch that is made in it */
    uint32_t id;   /* the back end's number of it */
    ldri_host_arena memory;
    ldri_job *jobs;    /* [batch] */
    uint64_t *samples; /* [batch] list index of what was loaded in each place */
    uint8_t *ok;       /* [batch] */
    ldri_arena room;

    /* Written by the staging thread while no job of the host is queued. */
    uint64_t epoch, batch; /* which batch */
    uint32_t count, padded;
    uint32_t output; /* bound at issue where the back end augments in workers */
    int finishing;   /* the jobs are those of the second round */
    int complete;    /* staging thread only: its last sample has come home */

    _Alignas(LDRI_CACHE_LINE) _Atomic uint32_t remaining; /* samples not finished */
    int lock_made;
    pthread_mutex_t lock;
    ldr_error error;   /* under lock while jobs are out: of the first failed place */
    uint32_t error_at; /* under lock: that place, or UINT32_MAX */
};

typedef struct ldri_out { /* an output and its hand-overs */
    uint32_t id;
    ldr_batch views[LDRI_VIEWS]; /* used in turn, so that a pointer of an earlier hand-over is
                                    recognised */
    uint32_t view;               /* under ld->lock: the current one */
    int held;                    /* under ld->lock: the caller has it */
    int ends_epoch;              /* written before it is pushed to `ready` */
    int64_t *labels;             /* [batch], host memory */
    uint64_t *samples;           /* [batch] */
    uint8_t *ok;                 /* [batch] */
    int64_t *mix_labels;         /* [batch] if images are mixed, else NULL */
    float *mix_lambda;           /* likewise */
} ldri_out;

typedef struct ldri_counter { /* of one stage and one thread; written by that thread only */
    _Atomic uint64_t items, bytes, busy_ns, starved_ns, blocked_ns;
} ldri_counter;

typedef enum ldri_doing {
    LDRI_IDLE,
    LDRI_READING,
    LDRI_WAITING, /* for its turn at decode_limit */
    LDRI_DECODING,
    LDRI_AUGMENTING
} ldri_doing;

typedef struct ldri_worker {
    _Alignas(LDRI_CACHE_LINE) struct ldr *ld;
    ldri_thread thread;
    ldri_decoder *decoder;
    ldri_scratch *scratch;
    ldri_buffer file;     /* the encoded bytes */
    ldri_buffer overflow; /* a crop that found no room in its arena */
    ldri_hold hold;       /* of decode_limit, for the picture it is at */
    /* For the watchdog's line: what the worker is at, and since when. */
    _Atomic int doing;
    _Atomic uint64_t sample, since_ns;
    _Atomic uint64_t starved_since_ns, blocked_since_ns; /* asleep for want of a job; 0: is not */
    int cold;                    /* samples for which it still reads ahead */
    int slow_reads;              /* in a row */
    uint64_t waited_ns;          /* for decode_limit, at this picture */
    _Atomic uint64_t limited_ns; /* the same, at all of them */
    _Alignas(LDRI_CACHE_LINE) ldri_counter read, decode, augment;
} ldri_worker;

struct ldr {
    /* Made by ldr_open, read-only afterwards. */
    pid_t pid; /* of the process that may use it */
    ldr_options o;
    char *source_text; /* o.source points here */
    ldri_source *source;
    ldri_plan plan;
    ldri_limits limits;
    const ldri_backend_ops *ops;
    ldri_backend *backend;
    size_t final_bytes; /* of a final RGB8 picture in an arena */
    int mixes;          /* images of a batch are mixed with each other */
    int two_rounds;     /* and workers do it */
    uint32_t n_hosts, n_outputs, n_workers;
    ldri_host *hosts;
    ldri_out *outputs;
    ldri_worker *workers;
    ldri_thread staging;

    ldri_ring jobs, finishes, done, ready, free_outputs;
    ldri_event work_event, hub_event, ready_event, leave_event;
    _Atomic int stop;    /* threads leave */
    _Atomic int no_room; /* staging thread found no free arena or output: idle workers are blocked,
                            not starved */

    ldri_log log;
    uint64_t watchdog_ns; /* a wait of ldr_next that is longer is reported; 0: never */
    ldri_bad_list bad;
    ldri_budget decode_budget;
    size_t keep_bytes; /* a worker's buffer above this is freed after its picture */
    ldri_counter copy; /* staging thread's */

    int lock_made;
    pthread_mutex_t lock;
    /* under lock */
    uint32_t held;         /* outputs the caller has */
    uint32_t calls_inside; /* calls of ldr_next and ldr_release that have not returned */
    uint32_t visitors;     /* calls that never wait: close waits for them to leave */
    uint32_t ends_pending; /* ends of an epoch that ldr_next has still to report */
    int finished; /* nothing more will be pushed to `ready`; `outcome` follows the last batch */
    ldr_status outcome;
    int aborted, retired;
    ldr_error first_error;
    uint64_t generation;
    uint64_t batches, images, waits, wait_ns, wait_histogram[32];
};

void ldri_worker_main(void *worker);
void ldri_staging_main(void *ld);

/* Tells the workers' and the staging thread's loops to end; does not wait for them. */
void ldri_pipeline_stop(struct ldr *ld);

void ldri_pipeline_destroy(struct ldr *ld); /* frees any prefix of it; the threads are stopped */

/* Log lines: what listing found and passed over; memory made; a wait that has lasted too long, and
 * what waits for what. */
void ldri_report_source(const struct ldr *ld, uint64_t took_ns);
void ldri_report_memory(const struct ldr *ld);
void ldri_report_wait(const struct ldr *ld, uint64_t waited_ns);

/* Records a failure of the whole loader, if it is the first. */
void ldri_pipeline_fail(struct ldr *ld, const ldr_error *error);

/* Around a call that never waits and may be made beside ldr_close: keeps the loader from being
 * freed. */
void ldri_visit_begin(const struct ldr *ld);
void ldri_visit_end(const struct ldr *ld);
void ldri_pipeline_await_visitors(struct ldr *ld);

/* Ends blocked and later calls of ldr_next, and the threads' loops. */
void ldri_pipeline_abort(struct ldr *ld);

static inline int ldri_forked(const struct ldr *ld)
{
    return getpid() != ld->pid;
}

static inline void ldri_counter_add(_Atomic uint64_t *c, uint64_t n)
{
    /* One writer: a plain addition that readers on other threads may watch. */
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif
