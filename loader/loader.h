/* loader.h - public interface of ldr, the image loader.
 *
 * This file is the contract; what is not written here is not promised.  It needs no CUDA header: a
 * stream is the runtime's own pointer type, declared forward, so one build of a program serves
 * machines with and without a GPU.  It compiles as C99, C11 and C++.
 *
 *     ldr_options o;
 *     ldr_options_init(&o);
 *     ldr_options_train(&o, 224);
 *     o.source = "photos/train";
 *     o.batch = 256;
 *     ldr *ld;
 *     ldr_error err;
 *     if (ldr_open(&ld, &o, &err) < 0) { fprintf(stderr, "%s\n", err.message); return 1; }
 *     const ldr_batch *b;
 *     ldr_status s;
 *     while ((s = ldr_next(ld, stream, -1, &b)) == LDR_OK) {
 *         train_step(b->images, b->labels, stream);  // enqueue on `stream`
 *         ldr_release(ld, b, stream);                // reused once all that is enqueued has run
 *     }                      // LDR_END: one epoch is over; calling on starts the next
 *     if (s < 0) { ldr_last_error(ld, &err); fprintf(stderr, "%s\n", err.message); }
 *     ldr_close(&ld);
 *
 * The bytes of a batch are a function of the options, the source's list of files, the seed, the
 * epoch and the batch's index, and of nothing else: not of threads, depth, memory limits, timing or
 * device.
 *
 * THREADS.  Every function may be called from any thread unless it says otherwise.  ldr_next and
 * ldr_release may be called from several threads at once.  ldr_close and ldr_retire must be the
 * last call on a handle; a call of ldr_abort, ldr_stats_get, ldr_bad_samples or ldr_last_error that
 * another thread has begun before is waited for.  A handle does not survive fork(): in the child
 * every function that takes one answers LDR_E_FORKED (or 0 or NULL), and ldr_close only forgets it.
 */
#ifndef LDR_LOADER_H
#define LDR_LOADER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LDR_VERSION_MAJOR 0
#define LDR_VERSION_MINOR 1
#define LDR_VERSION_PATCH 0

typedef struct ldr ldr; /* one loader: threads, memory, a position in the data */

struct CUstream_st;
typedef struct CUstream_st
    *ldr_stream; /* = cudaStream_t; ignored by the CPU back end, where NULL will do */

/* Negative: failed.  Zero: done.  Positive: an ordinary outcome.  Test with `< 0` first. */
typedef enum ldr_status {
    LDR_OK = 0,
    LDR_END = 1,     /* an epoch is over */
    LDR_TIMEOUT = 2, /* nothing came within the time given */
    LDR_BUSY = 3,    /* refused for now: batches are held, or another call is inside */
    LDR_E_INVALID = -1,
    LDR_E_NOMEM = -2,
    LDR_E_IO = -3,
    LDR_E_FORMAT = -4,
    LDR_E_LIMIT = -5,
    LDR_E_UNSUPPORTED = -6,
    LDR_E_CUDA = -7,
    LDR_E_CALLBACK = -8,
    LDR_E_STATE = -9,
    LDR_E_ABORTED = -10,
    LDR_E_FORKED = -11,
    LDR_E_INTERNAL = -12
} ldr_status;

#define LDR_NO_SAMPLE UINT64_MAX

typedef struct ldr_error { /* filled by the library; its layout is fixed */
    ldr_status status;
    int detail;        /* errno, CUDA code or callback result; else 0 */
    uint64_t sample;   /* list index it concerns, or LDR_NO_SAMPLE */
    char message[512]; /* one line: what, which file (shortened from the left), what to do */
} ldr_error;

typedef enum ldr_device {
    LDR_DEVICE_AUTO,
    LDR_DEVICE_CPU,
    LDR_DEVICE_CUDA
} ldr_device; /* AUTO: the best there is */
typedef enum ldr_dtype { LDR_F32, LDR_F16, LDR_BF16, LDR_U8 } ldr_dtype;
typedef enum ldr_layout { LDR_NCHW, LDR_NHWC } ldr_layout;
typedef enum ldr_view {
    LDR_VIEW_EVAL,  /* shorter side to floor(size / crop_pct), then centre crop */
    LDR_VIEW_TRAIN, /* random resized crop */
    LDR_VIEW_SQUASH /* both sides to floor(size / crop_pct), then centre crop */
} ldr_view;
typedef enum ldr_filter {
    LDR_BILINEAR,
    LDR_BICUBIC,
    LDR_NEAREST,
    LDR_RANDOM_FILTER /* bilinear or bicubic, drawn per sample */
} ldr_filter;
typedef enum ldr_erase {
    LDR_ERASE_CONST, /* 0 after normalise: the mean */
    LDR_ERASE_RAND,  /* one N(0,1) per box and channel */
    LDR_ERASE_PIXEL  /* N(0,1) per value */
} ldr_erase;
typedef enum ldr_on_bad {
    LDR_BAD_REPLACE, /* a deterministic other sample takes its place, with its own label */
    LDR_BAD_STOP,    /* the batch fails with the sample's error and ends the loader */
    LDR_BAD_MARK     /* a black picture goes through the chain, label kept, ok_host 0 */
} ldr_on_bad;
typedef enum ldr_order {
    LDR_ORDER_BYTES,  /* by the bytes of the relative path */
    LDR_ORDER_NATURAL /* runs of digits compare as numbers, letters without case, as timm sorts */
} ldr_order;

/* Why a sample is bad.  These are the bytes' fault; a failure of resources (memory, descriptors,
 * CUDA) never is. */
typedef enum ldr_cause {
    LDR_CAUSE_NONE,
    LDR_CAUSE_MISSING,     /* not there, a broken link */
    LDR_CAUSE_UNREADABLE,  /* no permission, a read error, not a regular file */
    LDR_CAUSE_EMPTY,       /* zero bytes */
    LDR_CAUSE_FORMAT,      /* neither JPEG nor PNG */
    LDR_CAUSE_UNSUPPORTED, /* a kind of JPEG or PNG that is not decoded */
    LDR_CAUSE_DAMAGED,     /* cut off or corrupt within the rows that are needed */
    LDR_CAUSE_LIMIT,       /* above max_pixels, max_scans, max_file or decode_limit */
    LDR_N_CAUSES
} ldr_cause;

typedef enum ldr_log_level {
    LDR_LOG_ERROR,
    LDR_LOG_WARN,
    LDR_LOG_INFO,
    LDR_LOG_DEBUG
} ldr_log_level;

/* Where log lines go: one printable line, without a newline.  Called from any thread of the library
 * and from callers' own, several at once; must not call the library. */
typedef void (*ldr_log_fn)(void *user, int level, const char *line);

/* Custom storage: gives the encoded bytes of a sample.  buf has room for *len bytes.  Called from
 * the workers, several at once.  It must not call ldr_next, ldr_close or ldr_retire of its own
 * loader, and ldr_close waits for one that is running: keep it bounded.
 *   LDR_OK       the bytes are in buf, *len is how many
 *   LDR_E_LIMIT  buf is too small: *len is how many there are; it is called again
 *   LDR_E_IO     this sample cannot be had: a bad sample, handled by on_bad
 *   other        the batch fails with LDR_E_CALLBACK and this number as the detail */
typedef int (*ldr_fetch_fn)(void *user, uint64_t sample, const char *name, void *buf, size_t *len);

/* Custom augmentation: called once for each batch, in plan order, on the library's staging thread,
 * after the built-in operators and before the batch is handed over.  It may write batch->images and
 * must leave everything else alone.  On a GPU it enqueues its work on `stream` and does not wait;
 * the images are complete there for what comes later on the stream.  On the CPU back end the stream
 * is NULL, the images are host memory, and the work is done when it returns.
 *     seed    drawn for this batch: what the content may depend on beside the batch itself
 * Anything but 0: the batch fails with LDR_E_CALLBACK and this number as the detail. */
struct ldr_batch;
typedef int (*ldr_batch_fn)(void *user, const struct ldr_batch *batch, uint64_t seed,
                            ldr_stream stream);

/* Flat on purpose: it grows at its end, and each field is a command-line option of the same name.
 * Plain values: ldr_options_init sets the defaults named here, a zero is a zero.  Strings are
 * copied by ldr_open. */
typedef struct ldr_options {
    size_t size; /* sizeof(ldr_options) of the caller; set by ldr_options_init */
    /* what is loaded */
    const char *source;    /* directory: class folders, or pictures only (one class); or a list
                            * file: lines path<TAB>label, relative paths from its own folder */
    ldr_order class_order; /* bytes */
    uint32_t follow_links; /* 0.  1: follow links to directories below a class too, each directory
                              once */
    ldr_fetch_fn fetch; /* NULL: names are files.  Else they are only names, from a list file or a
                           directory */
    void *fetch_user;
    /* a batch and an epoch */
    uint32_t batch;         /* 64 images */
    uint32_t width, height; /* 224 pixels */
    ldr_dtype dtype;        /* f32 */
    ldr_layout layout;      /* nchw */
    uint64_t seed;          /* 0 */
    uint64_t first_epoch;   /* 0 */
    uint64_t epochs;        /* 1; 0: endless */
    uint32_t shuffle;       /* 1 */
    uint32_t keep_last;     /* 1; 0: every batch is full, the tail of an epoch is dropped */
    int32_t rank, world;    /* 0 of 1 */
    /* what is done to an image; presets: ldr_options_train, ldr_options_eval */
    ldr_view view;         /* eval */
    ldr_filter filter;     /* bicubic; nearest is without antialiasing */
    float scale[2];        /* 0.08, 1: area of a random crop as a share of the picture's */
    float ratio[2];        /* 3/4, 4/3: its width / height */
    double crop_pct;       /* 0.875: evaluation crop's share of a side */
    float hflip, vflip;    /* 0, 0: probabilities */
    float mean[3], std[3]; /* ImageNet's, of values in 0..1; floating dtypes only */
    /* with what */
    ldr_device device;   /* auto */
    uint32_t threads;    /* 0: as many as CPUs this process may use (affinity, cgroup quota) */
    uint32_t depth;      /* 4 batches in flight, those held by the caller among them */
    size_t pinned_limit; /* 0: none.  Bytes of host arenas, all together.  Smaller arenas hold fewer
                          * crops unresampled, same result; LDR_E_LIMIT only if depth x batch x
                          * final size does not fit.  Ordinary memory on the CPU back end */
    size_t decode_limit; /* 1 GiB.  Bytes that all workers together may take for the pictures they
                          * are at: files, decoders' working memory, crops.  A picture that needs
                          * more than is free waits for its turn, one that needs more than all of it
                          * is a bad sample */
    /* limits and failures */
    uint64_t max_pixels; /* 100,000,000 a picture */
    uint32_t max_scans;  /* 500 scans of a progressive JPEG */
    size_t max_file;     /* 1 GiB */
    ldr_on_bad on_bad;   /* replace */
    ldr_log_fn log;      /* NULL: standard error.  Gets warnings, and what LDR_DEBUG asks for */
    void *log_user;
    /* Colour, on bytes, after crop and flips; 0: off.  The four come in an order drawn per image.
     */
    float brightness, contrast, saturation; /* v: factor in max(0, 1 - v) .. 1 + v; 0 to 100 */
    float hue;                              /* v: shift in -v .. v turns; 0 to 0.5 */
    float jitter_prob;                      /* 1: share of images that the four are applied to */
    float grayscale_prob;                   /* 0; after the four */
    /* Mixing two images of a batch, on bytes, before normalise: image i with image count - 1 - i;
     * the middle one of an odd count with itself.  The batch tells the other image's label and the
     * weight of the own one. */
    float mixup_alpha, cutmix_alpha; /* 0: off.  Weight ~ Beta(alpha, alpha); 0 to 100 */
    float mix_prob;                  /* 1: probability that a batch (a pair) is mixed */
    float mix_switch_prob;           /* 0.5: of cutmix, where both are on */
    uint32_t mix_pair;               /* 0: one draw a batch; 1: one a pair of images */
    /* Random erasing, after normalise */
    float erase_prob;     /* 0: share of images */
    float erase_area[2];  /* 0.02, 1/3: of all boxes of an image, as a share of it */
    float erase_aspect;   /* 0.3: height / width of a box is in erase_aspect .. 1 / erase_aspect */
    ldr_erase erase_mode; /* const */
    uint32_t erase_count[2]; /* 1, 1: boxes in an erased image, at most 8 */
    ldr_batch_fn after;      /* NULL */
    void *after_user;
    int32_t device_id;   /* 0: which GPU */
    size_t device_limit; /* 0: none.  Bytes of device memory */
} ldr_options;

typedef struct ldr_batch { /* owned by the library; readable from ldr_next to ldr_release */
    size_t size;
    void *images; /* [count, 3, height, width] or [count, height, width, 3]; device memory, host
                   * memory on the CPU back end; 64-byte aligned */
    const int64_t *labels;      /* [count] class of each image, the same kind of memory as images */
    const int64_t *labels_host; /* [count] the same, always host memory */
    const uint64_t *samples_host; /* [count] list index of each image */
    const uint8_t *ok_host;       /* [count] 0 where LDR_BAD_MARK left a black picture, else 1 */
    uint32_t count;               /* images in this batch */
    uint32_t padded; /* images at the end that repeat others so that ranks are equal; leave them out
                        of metrics */
    uint32_t height, width;
    ldr_dtype dtype;
    ldr_layout layout;
    uint64_t epoch, index; /* index: of the batch in its epoch, of this rank */
    uint64_t generation;   /* tells this hand-over from earlier ones in the same memory */
    /* With mixup or cutmix, else NULL: the label of the image that each is mixed with, and the
     * weight of its own label (1 where nothing was mixed).  [count], the same kind of memory as
     * images; _host: always host memory. */
    const int64_t *mix_labels;
    const float *mix_lambda;
    const int64_t *mix_labels_host;
    const float *mix_lambda_host;
} ldr_batch;

typedef struct ldr_bad {    /* one bad sample; filled by ldr_bad_samples; its layout is fixed */
    uint64_t sample, epoch; /* list index; epoch in which it was met first */
    ldr_cause cause;
    ldr_status status;
    char message[240]; /* what was wrong, without the path */
} ldr_bad;

typedef struct ldr_stage_stats {
    uint64_t items,
        bytes; /* bytes: read: of files; decode, synth, augment: of pixels made; copy: moved */
    uint64_t busy_ns;    /* summed over threads */
    uint64_t starved_ns; /* waited for the stage before */
    uint64_t blocked_ns; /* waited for room behind */
} ldr_stage_stats;

typedef struct ldr_stats {
    size_t size; /* sizeof(ldr_stats) of the caller; set it before the call */
    ldr_stage_stats read, decode, synth, copy, augment;
    uint64_t batches, images;    /* handed over */
    uint64_t waits, wait_ns;     /* calls of ldr_next that gave a batch, and the time they took */
    uint64_t wait_histogram[32]; /* [k]: waits below 2^k microseconds, not below 2^(k-1); the last:
                                    all longer ones */
    uint64_t skipped[16];        /* bad samples by ldr_cause, each meeting counted */
    const char
        *limit; /* what holds the loader back: "consumer", "decode_limit", or a stage; static string */
    uint32_t threads, depth;
    ldr_device device;                   /* the one in use, never AUTO */
    uint64_t pinned_bytes, device_bytes; /* host arenas; device memory */
    uint64_t host_bytes; /* outputs and other memory made by ldr_open in ordinary host memory */
} ldr_stats;

/* Fills *o with the defaults above.  `size` is the caller's sizeof(ldr_options): use the macro. */
void ldr_options_init_sized(ldr_options *o, size_t size);
#define ldr_options_init(o) ldr_options_init_sized((o), sizeof(ldr_options))

/* Presets; they set only what is named.  train: view train, bilinear, hflip 0.5.  eval: view eval,
 * bicubic, no flips, shuffle 0, keep_last 1.  image_size: width and height, in pixels. */
void ldr_options_train(ldr_options *o, uint32_t image_size);
void ldr_options_eval(ldr_options *o, uint32_t image_size);

/* Lists the source, makes all memory and threads, and starts to load.  Blocks while it lists.  On
 * success *out is the caller's, to be closed with ldr_close.  On failure *out is untouched, nothing
 * is left behind, and *err (may be NULL) tells why: LDR_E_INVALID an option is out of range,
 * LDR_E_IO the source cannot be read or holds no image, LDR_E_LIMIT memory limits are too small,
 * LDR_E_NOMEM. */
ldr_status ldr_open(ldr **out, const ldr_options *o, ldr_error *err);

/* The next batch, in plan order.  Waits up to timeout_ms (-1: as long as it takes, 0: not at all)
 * for one to be ready; never for the GPU: `consumer` is made to wait on the device, the host
 * returns.  Does not allocate.
 *   LDR_OK       *out is the caller's until ldr_release
 *   LDR_END      the epoch is over; the next call starts the next one; after the last epoch every
 *                call says so
 *   LDR_TIMEOUT  nothing came in time
 *   LDR_BUSY     every batch is held by the caller: release one, or raise depth
 *   LDR_E_...    the loader has failed: this and each later call says the same; ldr_last_error has
 *                the text.  Batches before the failed one in plan order are delivered first.
 *                LDR_E_ABORTED after ldr_abort. */
ldr_status ldr_next(ldr *ld, ldr_stream consumer, int timeout_ms, const ldr_batch **out);

/* Gives a batch back.  Its memory is written again after everything enqueued so far on `last_use`
 * has run (CPU back end: at once).  Never waits, never allocates.  Any order, any thread.
 * LDR_E_STATE if it was given back already; a stale pointer is told apart from the 63 hand-overs
 * that follow in the same memory. */
ldr_status ldr_release(ldr *ld, const ldr_batch *b, ldr_stream last_use);

/* Ends blocked and later calls of ldr_next with LDR_E_ABORTED.  Returns at once; may be called at
 * any time before close, also from a signal handling thread (not from a signal handler). */
void ldr_abort(ldr *ld);

/* Stops the threads, waits for the consumer's last uses, frees everything and sets *ld to NULL.
 * LDR_BUSY, with nothing changed, while a batch is held or another call is inside.  NULL or *ld ==
 * NULL: LDR_OK. */
ldr_status ldr_close(ldr **ld);

/* For garbage-collected callers: stops the threads now; after it only ldr_release may be called,
 * and the last release frees the loader (at once if nothing is held).  A second release of a batch
 * is no longer detected.  NULL: nothing happens. */
void ldr_retire(ldr *ld);

uint64_t
ldr_length(const ldr *ld); /* batches in an epoch of this rank: the same for every rank and epoch */
uint64_t ldr_sample_count(const ldr *ld); /* samples in the list */
uint32_t ldr_class_count(const ldr *ld);
const char *ldr_class_name(const ldr *ld,
                           uint32_t class_id); /* NULL past the end; lives as long as ld */
const char *ldr_sample_name(const ldr *ld,
                            uint64_t sample); /* path relative to the source; likewise */
int64_t ldr_sample_label(const ldr *ld, uint64_t sample); /* its class; -1 past the end */

/* A snapshot; cheap; does not stop anything.  LDR_E_INVALID if out->size is unknown. */
ldr_status ldr_stats_get(const ldr *ld, ldr_stats *out);

/* Copies up to `capacity` records of bad samples, one per sample, ordered by list index, and
 * returns how many are recorded.  At most the first 1,000 met are kept; ldr_stats.skipped counts
 * all. */
size_t ldr_bad_samples(const ldr *ld, ldr_bad *out, size_t capacity);

/* The first failure of this loader; status LDR_OK and an empty message if there was none. */
void ldr_last_error(const ldr *ld, ldr_error *out);

const char *ldr_status_name(ldr_status s); /* "LDR_E_IO" ...; static */
const char *ldr_cause_name(ldr_cause c);   /* "damaged" ...; static */
uint32_t ldr_version(void);                /* major << 16 | minor << 8 | patch of the library */

#ifdef __cplusplus
}
#endif
#endif
