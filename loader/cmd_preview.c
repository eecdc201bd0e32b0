/* The first batch as the model will see it, on one sheet: a tile for each image, after augmentation
 * and before normalisation, with its class under it. */
#include "loader/cmd.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode/decode.h"
#include "loader/host_images.h"
#include "loader/json.h"
#include "loader/params_mix.h"
#include "loader/status.h"

#define MAX_TILES 64

static const uint8_t paper[3] = {24, 26, 30}, ink[3] = {222, 224, 228}, alarm[3] = {232, 84, 72};

typedef struct sheet {
    ldri_cmd_canvas canvas;
    uint32_t columns, rows;
    uint32_t tile_width, tile_height; /* of an image */
    uint32_t gap, caption;            /* between tiles; height of the text under one */
    uint32_t scale;                   /* of the font */
} sheet;

/* The number of columns that makes the sheet about 4:3, with few places left empty.  aspect: of a
 * tile with its surroundings. */
static uint32_t best_columns(uint32_t n, double aspect)
{
    uint32_t best = 1;
    double least = INFINITY;
    for (uint32_t columns = 1; columns <= n; columns++) {
        uint32_t rows = (n + columns - 1) / columns;
        double empty = (double)(rows * columns - n) / n;
        double cost = fabs(log(aspect * columns / rows * 3 / 4)) + 6 * empty;
        if (cost < least) {
            least = cost;
            best = columns;
        }
    }
    return best;
}

static ldr_status sheet_open(sheet *s, uint32_t n, uint32_t width, uint32_t height)
{
    memset(s, 0, sizeof *s);
    s->tile_width = width;
    s->tile_height = height;
    s->scale = width < 120 ? 1 : width < 480 ? 2 : 3;
    s->gap = 4 * s->scale;
    s->caption = (LDRI_FONT_HEIGHT + 3) * s->scale;
    uint64_t step_x = (uint64_t)width + s->gap, step_y = (uint64_t)height + s->gap + s->caption;
    s->columns = best_columns(n, (double)step_x / (double)step_y);
    s->rows = (n + s->columns - 1) / s->columns;

    uint64_t w = s->columns * step_x + s->gap, h = s->rows * step_y + s->gap, bytes;
    if (w > UINT32_MAX / 3 || h > UINT32_MAX || __builtin_mul_overflow(3 * w, h, &bytes) ||
        bytes > SIZE_MAX) {
        return LDR_E_LIMIT;
    }
    s->canvas.pixels = malloc((size_t)bytes);
    if (!s->canvas.pixels) return LDR_E_NOMEM;
    s->canvas.width = (uint32_t)w;
    s->canvas.height = (uint32_t)h;
    s->canvas.pitch = 3 * (size_t)w;
    for (uint64_t i = 0; i < bytes; i += 3) memcpy(s->canvas.pixels + i, paper, 3);
    return LDR_OK;
}

static void draw_tile(sheet *s, uint32_t i, const uint8_t *rgb, const char *text, int ok)
{
    uint32_t left = s->gap + i % s->columns * (s->tile_width + s->gap);
    uint32_t top = s->gap + i / s->columns * (s->tile_height + s->gap + s->caption);
    for (uint32_t y = 0; y < s->tile_height; y++) {
        memcpy(s->canvas.pixels + (top + y) * s->canvas.pitch + 3 * (size_t)left,
               rgb + (size_t)y * 3 * s->tile_width, 3 * (size_t)s->tile_width);
    }
    ldri_cmd_draw_text(&s->canvas, left, top + s->tile_height + 3 * s->scale, s->tile_width,
                       s->scale, ok ? ink : alarm, text);
}

static const char *class_name(const ldr *ld, int64_t label)
{
    const char *name = ldr_class_name(ld, (uint32_t)label);
    return name ? name : "?";
}

/* "cat", "bad: cat", or "cat 0.7 dog 0.3" */
static void caption(const ldr *ld, const ldr_batch *b, uint32_t i, char *text, size_t capacity)
{
    const char *bad = b->ok_host[i] ? "" : "bad: ";
    const char *own = class_name(ld, b->labels_host[i]);
    if (!b->mix_lambda_host || b->mix_lambda_host[i] >= 1.0f) {
        snprintf(text, capacity, "%s%s", bad, own);
        return;
    }
    double weight = (double)b->mix_lambda_host[i];
    snprintf(text, capacity, "%s%s %.2f %s %.2f", bad, own, weight,
             class_name(ld, b->mix_labels_host[i]), 1.0 - weight);
}

static ldr_status draw_batch(const ldr *ld, const ldr_batch *b, const uint8_t *images, sheet *s)
{
    uint32_t n = b->count < MAX_TILES ? b->count : MAX_TILES;
    ldr_status status = sheet_open(s, n, b->width, b->height);
    if (status < 0) return status;
    for (uint32_t i = 0; i < n; i++) {
        char text[300];
        caption(ld, b, i, text, sizeof text);
        draw_tile(s, i, images + i * ldri_image_bytes(b), text, b->ok_host[i]);
    }
    return LDR_OK;
}

static ldr_status write_sheet(const char *path, const sheet *s, ldr_error *err)
{
    ldri_cmd_file f;
    ldri_failure why;
    ldr_status status = ldri_cmd_file_open(&f, path, err);
    if (status < 0) return status;
    status = ldri_png_write(f.stream, s->canvas.pixels, s->canvas.width, s->canvas.height,
                            s->canvas.pitch, &why);
    if (status < 0) {
        char printable[256];
        ldri_cmd_file_discard(&f);
        return ldri_error_set(err, status, why.detail, LDR_NO_SAMPLE, "cannot write %s: %s",
                              ldri_printable_path(printable, sizeof printable, path), why.text);
    }
    return ldri_cmd_file_commit(&f, path, err);
}

static void report(const ldri_cli *cli, const sheet *s, uint32_t n)
{
    char path[256];
    if (cli->json) {
        ldri_json j = {.file = stdout};
        ldri_json_open(&j, NULL, '{');
        ldri_json_string(&j, "path", cli->output);
        ldri_json_uint(&j, "images", n);
        ldri_json_uint(&j, "width", s->canvas.width);
        ldri_json_uint(&j, "height", s->canvas.height);
        ldri_json_close(&j);
        return;
    }
    printf("%s: %" PRIu32 " images, %" PRIu32 "x%" PRIu32 "\n",
           ldri_printable_path(path, sizeof path, cli->output), n, s->canvas.width,
           s->canvas.height);
}

int ldri_cmd_preview(const ldri_cli *cli)
{
    ldr *ld;
    ldr_error err = {.status = LDR_OK};
    ldr_options o = cli->options;
    o.source = cli->args[0];
    o.dtype = LDR_U8; /* the values before mean and std */
    o.layout = LDR_NHWC;
    o.epochs = 1;
    o.depth = 1;
    /* The order does not depend on the batch; which images are mixed does. */
    if (o.batch > MAX_TILES && !ldri_mixes(&o)) o.batch = MAX_TILES;
    if (!ldri_cmd_has_suffix(cli->output, ".png")) {
        char path[256];
        ldri_cmd_say("%s: the name must end in .png",
                     ldri_printable_path(path, sizeof path, cli->output));
        return 2;
    }
    if (ldri_cmd_open(&ld, &o, &err) < 0) return ldri_cmd_failed(&err);

    sheet s = {0};
    const ldr_batch *b;
    uint32_t n = 0;
    int status = 0;
    const void *images;
    ldri_host_images copy = {0};
    ldr_status got = ldr_next(ld, NULL, -1, &b);
    if (got == LDR_OK && (got = ldri_host_images_get(ld, b, &copy, &images)) < 0) {
        ldr_release(ld, b, NULL);
    } else if (got == LDR_OK) {
        ldr_status drawn = draw_batch(ld, b, images, &s);
        n = b->count < MAX_TILES ? b->count : MAX_TILES;
        got = ldr_release(ld, b, NULL);
        if (drawn < 0) {
            ldri_error_set(&err, drawn, 0, LDR_NO_SAMPLE,
                           "no memory for a sheet of %" PRIu32 " images of %" PRIu32 "x%" PRIu32
                           ": use a smaller --batch",
                           n, o.width, o.height);
            status = ldri_cmd_failed(&err);
        }
    }
    ldri_cmd_list_bad(stderr, "ldr: bad: ", ld, MAX_TILES);
    if (status == 0) status = ldri_cmd_outcome(ld, got);
    ldri_cmd_close(&ld);
    if (status == 0 && write_sheet(cli->output, &s, &err) < 0) status = ldri_cmd_failed(&err);
    if (status == 0) report(cli, &s, n);
    if (!ldri_cmd_stdout_works(1) && status == 0) status = 1;
    ldri_host_images_free(&copy);
    free(s.canvas.pixels);
    return status;
}
