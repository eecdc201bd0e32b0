#include "loader/cmd_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader/json.h"

/* In the order of ldri_bench_stage.  What a stage's pixels are: those of the pictures read; those
 * decoded; those of the crops; those of the images. */
static const struct {
    const char *key, *text;
} names[LDRI_BENCH_N_STAGES] = {
    {"read", "read files"},
    {"decode_full", "decode whole"},
    {"bare_full", "  libjpeg-turbo alone"},
    {"decode_crop", "decode crop"},
    {"bare_crop", "  libjpeg-turbo alone"},
    {"decode_png_full", "decode whole, PNG"},
    {"decode_png_crop", "decode crop, PNG"},
    {"resample", "resample crop"},
    {"store", "normalise, store"},
    {"pipeline", "pipeline"},
};

typedef struct summary {          /* of one stage's rounds; NAN where it was not measured */
    double images, pixels, bytes; /* medians */
    double spread;                /* (max - min) / median of images */
} summary;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts v. */
static double median(double *v, uint32_t n)
{
    qsort(v, n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double spread(const double *sorted, uint32_t n, double middle)
{
    return middle > 0 ? (sorted[n - 1] - sorted[0]) / middle : NAN;
}

static summary summarise(const ldri_bench *b, ldri_bench_stage stage)
{
    summary s = {NAN, NAN, NAN, NAN};
    const ldri_bench_rate *rates = b->rates[stage];
    double *v = rates ? calloc(b->n_rounds, sizeof *v) : NULL;
    if (!v) return s;
    for (uint32_t i = 0; i < b->n_rounds; i++) v[i] = rates[i].pixels;
    s.pixels = median(v, b->n_rounds);
    for (uint32_t i = 0; i < b->n_rounds; i++) v[i] = rates[i].bytes;
    s.bytes = median(v, b->n_rounds);
    for (uint32_t i = 0; i < b->n_rounds; i++) v[i] = rates[i].images;
    s.images = median(v, b->n_rounds);
    s.spread = spread(v, b->n_rounds, s.images);
    free(v);
    return s;
}

typedef struct comparison {   /* with libjpeg-turbo alone; NAN where it was not measured */
    double wall, wall_spread; /* of images a second */
    double cpu, cpu_spread;   /* of images a second of CPU time: also where other work disturbs */
} comparison;

/* Medians and spreads of the rounds' own ratios: what slows one round down slows both. */
static comparison compare(const ldri_bench *b, ldri_bench_stage stage, ldri_bench_stage bare)
{
    comparison c = {NAN, NAN, NAN, NAN};
    const ldri_bench_rate *x = b->rates[stage], *y = b->rates[bare];
    double *v = x && y ? calloc(b->n_rounds, sizeof *v) : NULL;
    if (!v) return c;
    for (uint32_t i = 0; i < b->n_rounds; i++) v[i] = x[i].images / y[i].images;
    c.wall = median(v, b->n_rounds);
    c.wall_spread = spread(v, b->n_rounds, c.wall);
    for (uint32_t i = 0; i < b->n_rounds; i++) {
        v[i] = x[i].images_per_cpu_s / y[i].images_per_cpu_s;
    }
    c.cpu = median(v, b->n_rounds);
    c.cpu_spread = spread(v, b->n_rounds, c.cpu);
    free(v);
    return c;
}

/* Images a second if every worker did one stage after the other and nothing else: what the pipeline
 * can reach. */
static double all_stages(const ldri_bench *b, const summary *s)
{
    double png_share = (double)(b->n_items - b->n_jpegs) / (double)b->n_items;
    double time = 1 / s[LDRI_BENCH_READ].images + 1 / s[LDRI_BENCH_RESAMPLE].images;
    if (b->rates[LDRI_BENCH_STORE]) time += 1 / s[LDRI_BENCH_STORE].images;
    if (png_share < 1) time += (1 - png_share) / s[LDRI_BENCH_DECODE_CROP].images;
    if (png_share > 0) time += png_share / s[LDRI_BENCH_PNG_CROP].images;
    return 1 / time;
}

static uint64_t count_damaged(const ldri_bench *b)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < b->n_items; i++) {
        n += atomic_load_explicit(&b->items[i].damaged, memory_order_relaxed) != 0;
    }
    return n;
}

static void print_files(const ldri_bench *b)
{
    char path[128];
    uint64_t n_damaged = count_damaged(b);
    printf("source       %s: %" PRIu64 " samples; measured with %" PRIu64 " files, %.1f MB, of "
           "the first epoch\n",
           ldri_printable_path(path, sizeof path, b->o->source), b->n_samples, b->n_items,
           1e-6 * (double)b->file_bytes);
    if (b->n_tried < b->n_samples) {
        printf("             a part: at most 512 MB, 10,000 files or what is read in 10 s\n");
    }
    if (b->n_bad + b->n_large + n_damaged > 0) {
        printf("left out     %" PRIu64 " bad headers, %" PRIu64 " damaged, %" PRIu64
               " too large to measure\n",
               b->n_bad, n_damaged, b->n_large);
    }
}

static void print_comparison(const char *what, const comparison *c)
{
    printf("decode %-5s %.3f of libjpeg-turbo alone (spread %.1f%%), by CPU time %.3f (%.1f%%)\n",
           what, c->wall, 100 * c->wall_spread, c->cpu, 100 * c->cpu_spread);
}

void ldri_bench_print_table(const ldri_bench *b)
{
    summary s[LDRI_BENCH_N_STAGES];
    char versions[128];
    const char *best, *simd = ldri_backend_simd(&best);
    for (int i = 0; i < LDRI_BENCH_N_STAGES; i++) s[i] = summarise(b, (ldri_bench_stage)i);
    ldri_decode_versions(versions, sizeof versions);

    print_files(b);
    printf("with         %s, %s; %" PRIu32 " thread%s, %" PRIu32 " rounds of %g s each\n\n",
           versions, simd, b->n_workers, b->n_workers == 1 ? "" : "s", b->n_rounds, b->seconds);
    printf("stage                   images/s  Mpixel/s      MB/s  spread\n");
    for (int i = 0; i < LDRI_BENCH_N_STAGES; i++) {
        if (!b->rates[i]) continue;
        if (i == LDRI_BENCH_PIPELINE) {
            printf("%-22s %9.0f\n", "these one by one", all_stages(b, s));
        }
        printf("%-22s %9.0f %9.1f %9.1f %6.1f%%", names[i].text, s[i].images, 1e-6 * s[i].pixels,
               1e-6 * s[i].bytes, 100 * s[i].spread);
        if (i == LDRI_BENCH_PIPELINE) {
            printf("  %.3f of the stages one by one", s[i].images / all_stages(b, s));
        }
        putchar('\n');
    }
    putchar('\n');
    if (b->n_jpegs > 0) {
        comparison full = compare(b, LDRI_BENCH_DECODE_FULL, LDRI_BENCH_BARE_FULL);
        comparison crop = compare(b, LDRI_BENCH_DECODE_CROP, LDRI_BENCH_BARE_CROP);
        print_comparison("whole", &full);
        print_comparison("crop", &crop);
    }
    printf("hand-over    %.2f us: ldr_next and ldr_release with a batch ready\n", b->handover_us);
    printf("limit        %s\n", b->limit ? b->limit : "");
}

static void write_comparison(ldri_json *j, const char *key, const comparison *c)
{
    static const char *const suffixes[] = {"", "_spread", "_cpu", "_cpu_spread"};
    const double values[] = {c->wall, c->wall_spread, c->cpu, c->cpu_spread};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", key, suffixes[i]);
        ldri_json_real(j, name, values[i]);
    }
}

static void write_stage(ldri_json *j, const char *key, const summary *s)
{
    ldri_json_open(j, key, '{');
    ldri_json_real(j, "images_per_s", s->images);
    ldri_json_real(j, "mpixel_per_s", 1e-6 * s->pixels);
    ldri_json_real(j, "mb_per_s", 1e-6 * s->bytes);
    ldri_json_real(j, "spread", s->spread);
    ldri_json_close(j);
}

void ldri_bench_print_json(const ldri_bench *b)
{
    ldri_json j = {.file = stdout};
    summary s[LDRI_BENCH_N_STAGES];
    char versions[128];
    const char *best, *simd = ldri_backend_simd(&best);
    for (int i = 0; i < LDRI_BENCH_N_STAGES; i++) s[i] = summarise(b, (ldri_bench_stage)i);
    comparison full = compare(b, LDRI_BENCH_DECODE_FULL, LDRI_BENCH_BARE_FULL);
    comparison crop = compare(b, LDRI_BENCH_DECODE_CROP, LDRI_BENCH_BARE_CROP);
    ldri_decode_versions(versions, sizeof versions);

    ldri_json_open(&j, NULL, '{');
    ldri_json_string(&j, "source", b->o->source);
    ldri_json_uint(&j, "samples", b->n_samples);
    ldri_json_uint(&j, "files", b->n_items);
    ldri_json_uint(&j, "png_files", b->n_items - b->n_jpegs);
    ldri_json_uint(&j, "file_bytes", b->file_bytes);
    ldri_json_bool(&j, "subset", b->n_tried < b->n_samples);
    ldri_json_uint(&j, "bad", b->n_bad + count_damaged(b));
    ldri_json_uint(&j, "too_large", b->n_large);
    ldri_json_uint(&j, "threads", b->n_workers);
    ldri_json_uint(&j, "rounds", b->n_rounds);
    ldri_json_real(&j, "seconds", b->seconds);
    ldri_json_string(&j, "device", b->ops->name);
    ldri_json_string(&j, "simd", simd);
    ldri_json_string(&j, "decoders", versions);
    ldri_json_open(&j, "bench", '{');
    for (int i = 0; i < LDRI_BENCH_N_STAGES; i++) write_stage(&j, names[i].key, &s[i]);
    ldri_json_close(&j);
    ldri_json_open(&j, "ratios", '{');
    write_comparison(&j, "decode_full", &full);
    write_comparison(&j, "decode_crop", &crop);
    ldri_json_real(&j, "pipeline", s[LDRI_BENCH_PIPELINE].images / all_stages(b, s));
    ldri_json_close(&j);
    ldri_json_real(&j, "handover_us", b->handover_us);
    ldri_json_string(&j, "limit", b->limit ? b->limit : "");
    ldri_json_close(&j);
}
