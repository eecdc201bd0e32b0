/* bare_jpeg.c - libjpeg-turbo and nothing else, for `ldr bench`: the ceiling that decoding is held
 * against.
 *
 * The shortest correct way through the library: header, start, rows to memory.  Warnings are
 * ignored, there are no limits, no messages and no exact edges: a part is what jpeg_crop_scanline
 * and jpeg_skip_scanlines give.  Nothing is loaded through this file. */
#include "decode/decode.h"

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

/* The library fills no more rows a call than it has of the present row of MCUs. */
enum { ROWS_AT_ONCE = 16 };

/* jpeg_crop_scanline widens a part to whole columns of MCUs, of 32 pixels at most. */
enum { WIDER = 64, LARGEST_PIXEL = 4 };

struct ldri_bare_jpeg {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
};

static void on_fatal_error(j_common_ptr cinfo) __attribute__((noreturn));

static void on_fatal_error(j_common_ptr cinfo)
{
    ldri_bare_jpeg *b = cinfo->client_data;
    longjmp(b->escape, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
}

ldr_status ldri_bare_jpeg_open(ldri_bare_jpeg **out)
{
    ldri_bare_jpeg *b = calloc(1, sizeof *b);
    if (!b) return LDR_E_NOMEM;
    b->cinfo.err = jpeg_std_error(&b->errors);
    b->errors.error_exit = on_fatal_error;
    b->errors.emit_message = on_message;
    b->cinfo.client_data = b;
    if (setjmp(b->escape) != 0) {
        ldri_bare_jpeg_close(&b);
        return LDR_E_NOMEM;
    }
    jpeg_create_decompress(&b->cinfo);
    *out = b;
    return LDR_OK;
}

void ldri_bare_jpeg_close(ldri_bare_jpeg **b)
{
    if (!b || !*b) return;
    jpeg_destroy_decompress(&(*b)->cinfo);
    free(*b);
    *b = NULL;
}

size_t ldri_bare_jpeg_bytes(uint32_t width, uint32_t height)
{
    return ((size_t)width + WIDER) * LARGEST_PIXEL * height;
}

static void decode(struct jpeg_decompress_struct *c, uint32_t left, uint32_t top, uint32_t width,
                   uint32_t height, uint8_t *out)
{
    JDIMENSION first = left, columns = width, end = top + height;
    c->dct_method = JDCT_ISLOW;
    c->do_fancy_upsampling = TRUE;
    c->out_color_space = c->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(c);
    if (width < c->output_width) jpeg_crop_scanline(c, &first, &columns);
    if (top > 0) jpeg_skip_scanlines(c, top);
    size_t pitch = (size_t)c->output_width * (unsigned)c->output_components;
    assert(pitch * height <= ldri_bare_jpeg_bytes(width, height));
    while (c->output_scanline < end) {
        JSAMPROW rows[ROWS_AT_ONCE];
        JDIMENSION n = end - c->output_scanline;
        if (n > ROWS_AT_ONCE) n = ROWS_AT_ONCE;
        for (JDIMENSION i = 0; i < n; i++) rows[i] = out + i * pitch;
        out += jpeg_read_scanlines(c, rows, n) * pitch;
    }
}

ldr_status ldri_bare_jpeg_decode(ldri_bare_jpeg *b, const uint8_t *bytes, size_t n_bytes,
                                 uint32_t left, uint32_t top, uint32_t width, uint32_t height,
                                 uint8_t *out)
{
    if (setjmp(b->escape) != 0) {
        jpeg_abort_decompress(&b->cinfo);
        return LDR_E_FORMAT;
    }
    jpeg_mem_src(&b->cinfo, bytes, (unsigned long)n_bytes);
    jpeg_read_header(&b->cinfo, TRUE);
    decode(&b->cinfo, left, top, width, height, out);
    jpeg_abort_decompress(&b->cinfo);
    return LDR_OK;
}
