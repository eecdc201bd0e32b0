#include "loader/cmd_bench.h"

#include <stdlib.h>
#include <string.h>

#include "loader/plan.h"
#include "loader/queue.h"

/* Caps, so that a large source costs neither the machine's memory nor the user's time. */
#define MAX_FILE_BYTES ((uint64_t)512 << 20)
#define MAX_FILES      10000u
#define MAX_READ_NS    (10 * UINT64_C(1000000000))

/* Buffers for pixels, of all workers together and of one. */
#define COLD_BYTES       ((size_t)128 << 20)
#define COLD_LEAST_BYTES ((size_t)8 << 20)
#define COLD_MAX_BYTES   ((size_t)2 << 30)
#define COLD_LIMIT_LEAST ((size_t)64 << 20) /* what a picture may always take */

typedef struct reader {
    ldri_decoder *decoder;
    ldri_buffer file;
    size_t largest; /* pixels' bytes that one worker has room for */
} reader;

/* Reads one file and its header into *item.  1: it is good; 0: it is left out, and counted. */
static int load_item(ldri_bench *b, reader *r, uint64_t sample, ldri_bench_item *item,
                     ldri_format *format)
{
    ldri_failure why;
    ldri_image_info info;
    ldri_params params;
    if (ldri_read_file(ldri_source_root_fd(b->source), ldri_source_name(b->source, sample),
                       &b->limits, NULL, &r->file, &why) < 0 ||
        ldri_decode_begin(r->decoder, r->file.bytes, r->file.n, &info, &why) < 0) {
        b->n_bad++;
        return 0;
    }
    ldri_decode_end(r->decoder);
    size_t need = ldri_bare_jpeg_bytes(info.width, info.height);
    if (need > r->largest) {
        b->n_large++;
        return 0;
    }
    if (need > b->cold_bytes) b->cold_bytes = need;
    *item = (ldri_bench_item){.sample = sample,
                              .bytes = malloc(r->file.n),
                              .n_bytes = r->file.n,
                              .width = info.width,
                              .height = info.height};
    if (!item->bytes) {
        b->n_large++;
        return 0;
    }
    memcpy(item->bytes, r->file.bytes, r->file.n);
    ldri_params_draw(b->o, b->o->first_epoch, sample, 0, &params);
    ldri_params_describe(b->o, &params, info.width, info.height, &item->crop, &item->region);
    *format = info.format;
    return 1;
}

/* The first epoch in the order of the plan, until a cap is reached.  JPEG files are put in front.
 */
static void load_epoch(ldri_bench *b, reader *r, const ldri_plan *plan)
{
    uint64_t start = ldri_now_ns();
    for (uint64_t batch = 0; batch < plan->n_batches; batch++) {
        uint32_t n = ldri_plan_batch_count(plan, batch) - ldri_plan_batch_padded(plan, batch);
        for (uint32_t i = 0; i < n; i++) {
            ldri_pick pick;
            ldri_bench_item item;
            ldri_format format;
            if (b->n_items == MAX_FILES || b->file_bytes >= MAX_FILE_BYTES) return;
            if (ldri_now_ns() - start > MAX_READ_NS) return;
            ldri_plan_pick(plan, b->o->first_epoch, batch, i, &pick);
            b->n_tried++;
            if (!load_item(b, r, pick.sample, &item, &format)) continue;
            b->items[b->n_items] = item;
            if (format == LDRI_FORMAT_JPEG) {
                b->items[b->n_items] = b->items[b->n_jpegs];
                b->items[b->n_jpegs++] = item;
            }
            b->n_items++;
            b->file_bytes += item.n_bytes;
        }
    }
}

ldr_status ldri_bench_load_items(ldri_bench *b, ldr_error *err)
{
    ldri_plan plan;
    reader r = {.largest = COLD_MAX_BYTES / b->n_workers};
    if (r.largest < COLD_LIMIT_LEAST) r.largest = COLD_LIMIT_LEAST;
    b->cold_bytes = COLD_BYTES / b->n_workers;
    if (b->cold_bytes < COLD_LEAST_BYTES) b->cold_bytes = COLD_LEAST_BYTES;
    b->n_samples = ldri_source_count(b->source);
    ldr_status s = ldri_plan_init(&plan, b->o, b->n_samples, err);
    if (s < 0) return s;
    b->items = calloc(MAX_FILES, sizeof *b->items);
    if (!b->items || ldri_decoder_open(&r.decoder, &b->limits) < 0) {
        return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE, "out of memory");
    }
    load_epoch(b, &r, &plan);
    ldri_buffer_free(&r.file);
    ldri_decoder_close(&r.decoder);
    if (b->n_items == 0) {
        char path[256];
        return ldri_error_set(
            err, LDR_E_IO, 0, LDR_NO_SAMPLE,
            "none of %llu files of %s can be measured: `ldr doctor` looks at them",
            (unsigned long long)b->n_tried, ldri_printable_path(path, sizeof path, b->o->source));
    }
    return LDR_OK;
}

void ldri_bench_free_items(ldri_bench *b)
{
    for (uint64_t i = 0; i < b->n_items; i++) free(b->items[i].bytes);
    free(b->items);
    b->items = NULL;
    b->n_items = b->n_jpegs = 0;
}
