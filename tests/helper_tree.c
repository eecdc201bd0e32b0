#include "tests/helper_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helper_images.h"

static uint8_t *encode(uint32_t w, uint32_t h, uint64_t seed, int kind, size_t *n)
{
    uint8_t *rgb = helper_draw((helper_drawing)(seed % HELPER_N_DRAWINGS), w, h, seed);
    uint8_t *bytes;
    if (kind == 1) {
        helper_png o;
        helper_png_init(&o);
        o.interlaced = seed % 5 == 0;
        bytes = helper_png_encode(rgb, w, h, &o, n);
    } else {
        helper_jpeg o;
        helper_jpeg_init(&o);
        helper_jpeg_sampling(&o, seed % 2 ? "420" : "444");
        o.progressive = kind == 2;
        bytes = helper_jpeg_encode(rgb, w, h, &o, n);
    }
    free(rgb);
    return bytes;
}

char *helper_tree(uint32_t classes, uint32_t each)
{
    char *root = helper_temp_dir();
    for (uint32_t c = 0; c < classes; c++) {
        for (uint32_t i = 0; i < each; i++) {
            uint64_t seed = c * 1000u + i;
            uint32_t w = 40 + (uint32_t)(helper_hash(seed) % 120);
            uint32_t h = 40 + (uint32_t)(helper_hash(seed + 77) % 120);
            int kind = (int)(seed % 3);
            size_t n;
            uint8_t *bytes = encode(w, h, seed, kind, &n);
            char name[64];
            snprintf(name, sizeof name, "c%02u/%03u.%s", c, i, kind == 1 ? "png" : "jpg");
            helper_write_file(root, name, bytes, n);
            free(bytes);
        }
    }
    return root;
}

const char *const helper_bad_kinds[] = {"empty", "one-byte", "cut-30",      "cut-60", "cut-99",
                                        "html",  "png-crc",  "huge-header", "no-size"};
const size_t helper_n_bad_kinds = sizeof helper_bad_kinds / sizeof *helper_bad_kinds;

/* Sets the size in a JPEG's frame header. */
static void set_jpeg_size(uint8_t *bytes, size_t n, uint32_t w, uint32_t h)
{
    for (size_t i = 2; i + 9 < n;) {
        if (bytes[i + 1] == 0xc0 || bytes[i + 1] == 0xc2) {
            bytes[i + 5] = (uint8_t)(h >> 8);
            bytes[i + 6] = (uint8_t)h;
            bytes[i + 7] = (uint8_t)(w >> 8);
            bytes[i + 8] = (uint8_t)w;
            return;
        }
        i += 2 + (size_t)(bytes[i + 2] << 8 | bytes[i + 3]);
    }
    abort();
}

void helper_bad_file(const char *root, const char *name, const char *kind)
{
    static const char html[] = "<!DOCTYPE html>\n<html><body>404 not found</body></html>\n";
    size_t n;
    uint8_t *bytes = encode(64, 48, 5, strcmp(kind, "png-crc") == 0, &n);
    if (!strcmp(kind, "empty")) {
        n = 0;
    } else if (!strcmp(kind, "one-byte")) {
        n = 1;
    } else if (!strcmp(kind, "cut-30")) {
        n = n * 30 / 100;
    } else if (!strcmp(kind, "cut-60")) {
        n = n * 60 / 100;
    } else if (!strcmp(kind, "cut-99")) {
        n = n * 99 / 100;
    } else if (!strcmp(kind, "png-crc")) {
        bytes[29] ^= 0x55; /* signature 8, length and type 8, IHDR 13: its CRC follows */
    } else if (!strcmp(kind, "huge-header")) {
        set_jpeg_size(bytes, n, 65000, 65000);
    } else if (!strcmp(kind, "no-size")) {
        set_jpeg_size(bytes, n, 0, 0);
    } else if (strcmp(kind, "html") != 0) {
        abort();
    }
    if (!strcmp(kind, "html")) {
        helper_write_file(root, name, html, sizeof html - 1);
    } else {
        helper_write_file(root, name, bytes, n);
    }
    free(bytes);
}

uint64_t helper_fnv(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ p[i]) * 1099511628211u;
    return hash;
}

size_t helper_image_bytes(const ldr_batch *b)
{
    size_t element = b->dtype == LDR_F32 ? 4 : b->dtype == LDR_U8 ? 1 : 2;
    return (size_t)3 * b->height * b->width * element;
}

uint64_t helper_batch_digest(const ldr_batch *b)
{
    uint64_t h = helper_fnv(HELPER_FNV_START, b->images, b->count * helper_image_bytes(b));
    h = helper_fnv(h, b->labels, b->count * sizeof *b->labels);
    h = helper_fnv(h, b->samples_host, b->count * sizeof *b->samples_host);
    h = helper_fnv(h, b->ok_host, b->count);
    if (b->mix_labels) h = helper_fnv(h, b->mix_labels, b->count * sizeof *b->mix_labels);
    if (b->mix_lambda) h = helper_fnv(h, b->mix_lambda, b->count * sizeof *b->mix_lambda);
    h = helper_fnv(h, &b->epoch, sizeof b->epoch);
    h = helper_fnv(h, &b->index, sizeof b->index);
    return helper_fnv(h, &b->padded, sizeof b->padded);
}

uint64_t helper_run_digest(const ldr_options *o)
{
    ldr *ld;
    ldr_error err;
    const ldr_batch *b;
    uint64_t digest = HELPER_FNV_START;
    if (ldr_open(&ld, o, &err) < 0) {
        fprintf(stderr, "open: %s\n", err.message);
        abort();
    }
    for (uint64_t epoch = 0; epoch < o->epochs; epoch++) {
        ldr_status s;
        uint64_t batches = 0;
        while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) {
            uint64_t one = helper_batch_digest(b);
            digest = helper_fnv(digest, &one, sizeof one);
            batches++;
            if (ldr_release(ld, b, NULL) != LDR_OK) abort();
        }
        if (s != LDR_END || batches != ldr_length(ld)) {
            ldr_last_error(ld, &err);
            fprintf(stderr, "epoch %llu: %s after %llu batches: %s\n", (unsigned long long)epoch,
                    ldr_status_name(s), (unsigned long long)batches, err.message);
            abort();
        }
    }
    if (ldr_close(&ld) != LDR_OK) abort();
    return digest;
}
