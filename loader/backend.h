/* backend.h - what the core asks of a back end.  Implemented in gpu/; the core never includes a
 * file of gpu/.
 *
 * A back end owns the three memories of a batch in flight: `n_hosts` host arenas, device memory of
 * its own, `n_outputs` outputs. All are made by open and none afterwards.  The core decides who
 * uses which when; the back end makes sure that data is ordered.
 *
 * A host arena is one block, copied as [0, used):
 *     [ descriptors ][ labels ][ mix_labels, mix_lambda if it mixes ][ pixels ... ]      each
 * part 64-byte aligned The core fills descriptors and labels; workers fill pixels at
 * descriptor.offset from `pixels`.
 *
 * Two ways to augment, told apart by `augments_in_workers`:
 *   set (CPU): an output is bound to the arena before its samples are decoded; the worker that
 * decoded sample i calls augment_sample(i) right afterwards, while the pixels are in its cache;
 * submit only completes the batch. not set (a GPU): submit enqueues copies and kernels on the back
 * end's streams.
 *
 * THREADS.  open, close: the thread that opens or closes.  submit, after, host_reusable: the
 * staging thread.  resample_sample, augment_sample, finish_sample: workers, at once, each with its
 * own scratch.  acquire, release: callers' threads, at once, on different outputs. */
#ifndef LDR_BACKEND_H
#define LDR_BACKEND_H

#include "loader/descriptor.h"
#include "loader/status.h"

typedef struct ldri_backend ldri_backend; /* a back end's own */
typedef struct ldri_scratch ldri_scratch; /* one worker's memory for intermediate rows and tables */

typedef struct ldri_backend_config {
    uint32_t batch, width, height;
    ldr_dtype dtype;
    ldr_layout layout;
    float mean[3], std[3];
    uint64_t seed; /* of erasing noise */
    ldr_erase erase_mode;
    int mixes; /* pictures of a batch are mixed with each other (mixup, cutmix) */
    int device_id;
    size_t device_limit; /* bytes of device memory, 0: none */
    uint32_t n_hosts, n_outputs;
    size_t arena_bytes; /* of the pixels part of a host arena; a multiple of 64 */
    void (*warn)(void *user, const char *line); /* NULL: nobody listens.  Called by open only */
    void *warn_user;
} ldri_backend_config;

typedef struct ldri_host_arena { /* where a host arena's parts are */
    ldri_descriptor *descriptors;
    int64_t *labels;
    int64_t *mix_labels; /* NULL unless the configuration mixes */
    float *mix_lambda;
    uint8_t *pixels;
} ldri_host_arena;

typedef struct ldri_output { /* where an output's parts are, as the caller will see them */
    void *images;
    const int64_t *labels; /* NULL: the same as the core's host copy (host back ends) */
    const int64_t *mix_labels;
    const float *mix_lambda;
} ldri_output;

typedef ldr_status (*ldri_after_fn)(void *arg, ldr_stream stream);

typedef struct ldri_backend_ops {
    const char *name; /* "cpu" */
    ldr_device device;
    int augments_in_workers;

    /* On failure *err says why and nothing is left behind. */
    ldr_status (*open)(ldri_backend **out, const ldri_backend_config *config, ldr_error *err);
    void (*close)(ldri_backend *be); /* waits for outputs still in use on a device */

    void (*host_arena)(ldri_backend *be, uint32_t host, ldri_host_arena *out);
    void (*output)(ldri_backend *be, uint32_t output, ldri_output *out);
    void (*memory)(const ldri_backend *be, uint64_t *pinned_bytes, uint64_t *device_bytes,
                   uint64_t *host_bytes);

    /* How often each function of the device's library was called: each(user, function, count) for
     * those that were.  Any thread.  NULL: there are none. */
    void (*calls)(const ldri_backend *be, void (*each)(void *user, const char *name, uint64_t n),
                  void *user);

    /* Memory for one worker, sized for common pictures; it grows when a larger one comes.  NULL:
     * out of memory. */
    ldri_scratch *(*scratch_open)(ldri_backend *be);
    void (*scratch_close)(ldri_scratch *scratch);

    /* Crop -> width x height RGB8 at out (row pitch ldri_pitch(width), black border included),
     * without flips.  crop: the stored part, described by d->x, d->y, d->filter; its rows are
     * d->pitch apart.  The same bytes as a kernel makes. */
    ldr_status (*resample_sample)(ldri_backend *be, ldri_scratch *scratch, const ldri_descriptor *d,
                                  const uint8_t *crop, uint8_t *out);

    /* Only where augments_in_workers: sample i of host arena -> place i of output, through the
     * whole chain. */
    ldr_status (*augment_sample)(ldri_backend *be, ldri_scratch *scratch, uint32_t host, uint32_t i,
                                 uint32_t output);

    /* Only where augments_in_workers, and only if the configuration mixes: augment_sample then
     * stops before the mix, and when it is done for all samples of the batch, this takes each
     * through the rest: mix, normalise, erase, store. */
    ldr_status (*finish_sample)(ldri_backend *be, ldri_scratch *scratch, uint32_t host, uint32_t i,
                                uint32_t output);

    /* All count samples of the arena are complete, its pixels end at used_bytes.  Makes the output
     * ready; the host arena may be written again once host_reusable says so. */
    ldr_status (*submit)(ldri_backend *be, uint32_t host, uint32_t output, uint32_t count,
                         size_t used_bytes, ldr_error *err);

    /* After submit, before the output is handed over: call(arg, stream) may enqueue work that
     * writes the output's images (NULL: it writes them at once), which then belongs to what makes
     * the output ready.  Returns what call returned; its own failures set *err and return
     * LDR_E_CUDA. */
    ldr_status (*after)(ldri_backend *be, uint32_t output, ldri_after_fn call, void *arg,
                        ldr_error *err);

    /* 1: the arena's last submit no longer reads it.  wait: block until it is so (the staging
     * thread has nothing else to do). */
    int (*host_reusable)(ldri_backend *be, uint32_t host, int wait);

    /* bytes of the output's images, which is acquired, to host memory; waits for them.  NULL where
     * images are host memory.  For the command and for tests. */
    ldr_status (*download)(ldri_backend *be, uint32_t output, void *to, size_t bytes,
                           ldr_error *err);

    /* Orders the consumer's stream behind the output, and the output's next writer behind the
     * consumer's stream. */
    ldr_status (*acquire)(ldri_backend *be, uint32_t output, ldr_stream consumer, ldr_error *err);
    ldr_status (*release)(ldri_backend *be, uint32_t output, ldr_stream last_use, ldr_error *err);
} ldri_backend_ops;

/* The back end for a device; AUTO: the best one that works here.  NULL and *err if there is none.
 * Defined in gpu/backends.c. */
const ldri_backend_ops *ldri_backend_find(ldr_device device, ldr_error *err);

/* Quantiles of N(0,1) for ldri_normal (rng.h).  Defined in gpu/: they are the back ends' too. */
extern const float ldri_normal_quantiles[LDRI_NORMAL_STEPS + 1];

/* The vector instructions that work on the CPU uses, LDR_SIMD heeded; *best: those it could use
 * here.  Static strings. */
const char *ldri_backend_simd(const char **best);

#endif
