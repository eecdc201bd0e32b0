/* cmd_bench.h - what the files of `ldr bench` share.
 *
 * A stage is a function that does one item; the driver runs it on all workers for a while and tells
 * the rate.  Rounds of all stages alternate, so that what disturbs the machine disturbs them all;
 * medians are told.  Everything a stage needs is made before the first round, but for what the
 * stage itself is (reading reads).
 *
 * The stages run on threads like the loader's workers: as many, as nice, one decoder and one
 * scratch each.  Decoded pixels go round a buffer that is larger than the caches near a core, as
 * they do in the loader, whose arenas are; a decoder that writes to one small buffer is faster than
 * any that is of use. */
#ifndef LDR_CMD_BENCH_H
#define LDR_CMD_BENCH_H

#include <stdatomic.h>

#include "decode/decode.h"
#include "loader/backend.h"
#include "loader/cli.h"
#include "loader/params.h"
#include "loader/read.h"
#include "loader/source.h"
#include "loader/thread.h"

typedef struct ldri_bench_item { /* a file held in memory */
    uint64_t sample;
    uint8_t *bytes;
    size_t n_bytes;
    uint32_t width, height;
    ldri_box region;      /* what the plan's first epoch needs of it */
    ldri_descriptor crop; /* without offset, pitch and kind */
    _Atomic int damaged;  /* a stage could not decode it: all leave it out from then on */
} ldri_bench_item;

typedef struct ldri_bench_count { /* done by one worker in one round */
    uint64_t items, pixels, bytes;
} ldri_bench_count;

typedef struct ldri_bench_rate {  /* of one round */
    double images, pixels, bytes; /* a second */
    double images_per_cpu_s;      /* a second that a worker had a CPU, whatever else ran */
} ldri_bench_rate;

struct ldri_bench;

typedef struct ldri_bench_worker {
    struct ldri_bench *bench;
    uint32_t id;
    ldri_thread thread;
    ldri_decoder *decoder;
    ldri_bare_jpeg *bare;
    ldri_scratch *scratch;
    ldri_buffer file;
    uint8_t *cold; /* pixels go round in it */
    size_t cold_bytes, cold_at;
    uint64_t turn; /* of its own places */
    /* of the round that runs; read after the thread is joined */
    ldri_bench_count count;
    double seconds, cpu_seconds;
} ldri_bench_worker;

/* Does item k of an endless sequence and adds it to w->count. */
typedef void ldri_bench_step(ldri_bench_worker *w, uint64_t k);

typedef enum ldri_bench_stage {
    LDRI_BENCH_READ,
    LDRI_BENCH_DECODE_FULL,
    LDRI_BENCH_BARE_FULL,
    LDRI_BENCH_DECODE_CROP,
    LDRI_BENCH_BARE_CROP,
    LDRI_BENCH_PNG_FULL,
    LDRI_BENCH_PNG_CROP,
    LDRI_BENCH_RESAMPLE,
    LDRI_BENCH_STORE,
    LDRI_BENCH_PIPELINE,
    LDRI_BENCH_N_STAGES
} ldri_bench_stage;

typedef struct ldri_bench {
    const ldr_options *o;
    ldri_limits limits;
    ldri_source *source;
    uint32_t n_workers, n_rounds;
    double seconds; /* of a round */

    /* cmd_bench_items.c */
    ldri_bench_item *items;      /* JPEG files, then PNG files */
    uint64_t n_items, n_jpegs;   /* of all; of those at the front */
    uint64_t n_tried, n_samples; /* files looked at; in the list */
    uint64_t n_bad, n_large;     /* left out: their header is bad; a picture beyond the memory */
    uint64_t file_bytes;
    size_t cold_bytes; /* of a worker's buffer */

    /* cmd_bench_stages.c */
    const ldri_backend_ops *ops;
    ldri_backend *backend;
    ldri_host_arena crops, finals; /* places: a crop, and the same resampled */
    uint32_t n_places;             /* a multiple of n_workers: worker w has w, w + n_workers, ... */
    ldri_bench_worker *workers;

    /* of the round that runs */
    ldri_bench_step *step;
    uint64_t start_ns, deadline_ns;
    _Atomic uint64_t next;

    ldri_bench_rate *rates[LDRI_BENCH_N_STAGES]; /* [n_rounds]; NULL: not measured */
    double handover_us;                          /* NAN: not measured */
    const char *limit;                           /* of the pipeline; static string */
} ldri_bench;

/* cmd_bench_items.c: reads files of the plan's first epoch into memory, headers checked, up to a
 * cap of bytes, files and time.  On failure what there is stays for ldri_bench_free_items. */
ldr_status ldri_bench_load_items(ldri_bench *b, ldr_error *err);
void ldri_bench_free_items(ldri_bench *b);

/* cmd_bench_stages.c: workers, a back end, and crops and images for those stages that begin with
 * them.  After the items. */
ldr_status ldri_bench_make_stages(ldri_bench *b, ldr_error *err);
void ldri_bench_free_stages(ldri_bench *b);
/* The stage's work, or NULL where this source or back end has none (and for the pipeline). */
ldri_bench_step *ldri_bench_step_of(const ldri_bench *b, ldri_bench_stage stage);

/* cmd_bench_driver.c: `step` on all workers for so long, from item `first` on.  LDR_E_NOMEM: a
 * thread could not be started. */
ldr_status ldri_bench_drive(ldri_bench *b, ldri_bench_step *step, uint64_t first, double seconds,
                            ldri_bench_rate *out, ldr_error *err);

/* cmd_bench_pipeline.c: the whole loader, and ldr_next + ldr_release with a batch ready.  *status:
 * the command's, 0 to go on; what failed has been said. */
void ldri_bench_pipeline(ldri_bench *b, int *status);
void ldri_bench_handover(ldri_bench *b, int *status);

/* cmd_bench_report.c */
void ldri_bench_print_table(const ldri_bench *b);
void ldri_bench_print_json(const ldri_bench *b);

#endif
