#include "decode/png_read.h"

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "decode/block.h"

/* libpng keeps three rows of up to 8 bytes a pixel; a tiny file must not ask for gigabytes. */
enum { MAX_SIDE = 1000000 };

/* No chunk but the pixels is kept, so this bounds the palette and the like. */
enum { MAX_CHUNK_BYTES = 8 << 20 };

/* Row and picture buffers above this are not kept. */
enum { KEEP_BYTES = 4 << 20 };

/* libpng reads pixel data in pieces of this size (its default). */
enum { PIECE_BYTES = 8192 };

/* Enough for libpng's and zlib's own memory and the rows of a picture 8,000 pixels wide. */
enum { POOL_BYTES = 256 << 10, POOL_ALIGN = 64 };

struct ldri_png {
    png_structp png; /* one for each picture: libpng cannot reuse it */
    png_infop info;
    jmp_buf escape; /* valid while `guarded` runs */
    ldri_block rows;
    uint8_t *pool; /* POOL_BYTES, for libpng; given out from the front, taken back as a whole */
    size_t pool_used;

    /* the present picture */
    const uint8_t *bytes;
    size_t n_bytes, at;
    uint32_t width, height;
    int interlaced, in_header, out_of_memory, ended_early;
    ldri_notes *notes;
    ldri_failure *why;
    ldr_status status; /* of the step that is running */

    /* what `region_step` is to do */
    uint32_t left, top, region_width, region_height;
    uint8_t *out;
    size_t pitch;
};

/* ---- failures ---- */

/* libpng goes on to the end of the pixel data as part of reading the last row, after that row has
 * been written.  What it finds there (a bad checksum, a cut) does not concern the pixels. */
static int all_rows_are_out(const ldri_png *p)
{
    if (p->in_header) return 0;
    if (p->interlaced) return png_get_current_pass_number(p->png) >= 7;
    return png_get_current_row_number(p->png) >= p->height;
}

static ldr_status judge_error(ldri_png *p, const char *text)
{
    char soft[128], place[48] = "in its header";
    if (all_rows_are_out(p)) {
        if (p->notes) ldri_notes_add(p->notes, text);
        return LDR_OK;
    }
    if (p->out_of_memory) {
        return ldri_failure_set(p->why, LDR_E_NOMEM, LDR_CAUSE_NONE, 0,
                                "not enough memory to decode a png of %u x %u pixels",
                                (unsigned)p->width, (unsigned)p->height);
    }
    if (!p->in_header && p->interlaced)
        snprintf(place, sizeof place, "in pass %d of 7", png_get_current_pass_number(p->png) + 1);
    else if (!p->in_header)
        snprintf(place, sizeof place, "at row %u of %u",
                 (unsigned)png_get_current_row_number(p->png), (unsigned)p->height);
    if (p->ended_early) {
        return ldri_failure_set(p->why, LDR_E_FORMAT, LDR_CAUSE_DAMAGED, 0,
                                "png data ends early %s", place);
    }
    snprintf(soft, sizeof soft, "%s", text);
    return ldri_failure_set(p->why, LDR_E_FORMAT, LDR_CAUSE_DAMAGED, 0,
                            "corrupt png %s, byte %zu of %zu: %s", place, p->at, p->n_bytes,
                            ldri_notes_soften(soft));
}

static void on_error(png_structp png, png_const_charp text) __attribute__((noreturn));

static void on_error(png_structp png, png_const_charp text)
{
    ldri_png *p = png_get_error_ptr(png);
    p->status = judge_error(p, text);
    longjmp(p->escape, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    ldri_png *p = png_get_error_ptr(png);
    if (p->notes) ldri_notes_add(p->notes, text);
}

/* libpng's memory comes from a pool that lasts from picture to picture; what does not fit (a very
 * wide picture's rows) from the heap. */
static void *get_memory(png_structp png, png_alloc_size_t n)
{
    ldri_png *p = png_get_mem_ptr(png);
    size_t bytes = (n + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    if (bytes >= n && bytes <= POOL_BYTES - p->pool_used) {
        void *place = p->pool + p->pool_used;
        p->pool_used += bytes;
        return place;
    }
    void *memory = malloc(n);
    if (!memory) p->out_of_memory = 1;
    return memory;
}

static void put_memory(png_structp png, void *memory)
{
    const ldri_png *p = png_get_mem_ptr(png);
    uint8_t *at = memory;
    if (at < p->pool || at >= p->pool + POOL_BYTES) free(memory);
}

static void give_bytes(png_structp png, png_bytep to, size_t n)
{
    ldri_png *p = png_get_io_ptr(png);
    if (n > p->n_bytes - p->at) {
        p->ended_early = 1;
        png_error(png, "data ends early");
    }
    memcpy(to, p->bytes + p->at, n);
    p->at += n;
    /* A piece of pixel data that is not all there is lost with what is there of it: near the end of
     * a file, which may be cut off, ask for no more than is left. */
    n = p->n_bytes - p->at;
    if (n > 0 && n < PIECE_BYTES) png_set_compression_buffer_size(png, n);
}

/* The only frame that is jumped to.  It owns nothing: all memory belongs to *p or to libpng. */
static ldr_status guarded(ldri_png *p, void (*step)(ldri_png *), ldri_failure *why)
{
    p->why = why;
    p->status = LDR_OK;
    if (setjmp(p->escape) == 0) step(p);
    p->why = NULL;
    return p->status;
}

/* ---- life ---- */

ldr_status ldri_png_open(ldri_png **out)
{
    ldri_png *p = calloc(1, sizeof *p);
    if (!p) return LDR_E_NOMEM;
    p->pool = aligned_alloc(POOL_ALIGN, POOL_BYTES);
    if (!p->pool) {
        free(p);
        return LDR_E_NOMEM;
    }
    *out = p;
    return LDR_OK;
}

void ldri_png_close(ldri_png **p)
{
    if (!p || !*p) return;
    ldri_png_end(*p);
    ldri_block_free(&(*p)->rows);
    free((*p)->pool);
    free(*p);
    *p = NULL;
}

void ldri_png_end(ldri_png *p)
{
    if (p->png) png_destroy_read_struct(&p->png, &p->info, NULL);
    p->pool_used = 0;
    ldri_block_trim(&p->rows, KEEP_BYTES);
    p->notes = NULL;
    p->bytes = NULL;
    p->n_bytes = p->at = 0;
}

/* ---- header ---- */

static void create_step(ldri_png *p)
{
    p->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, p, on_error, on_warning, p, get_memory,
                                      put_memory);
    if (p->png) p->info = png_create_info_struct(p->png);
}

static void header_step(ldri_png *p)
{
    png_structp png = p->png;
    png_set_read_fn(png, p, give_bytes);
    /* The sides and the pixels are checked by check_header, before memory is taken for them. */
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png, MAX_CHUNK_BYTES);
    png_set_benign_errors(png, 1);
    /* Colour management and texts do not matter here, and transparency is dropped: skip the chunks
     * unread, whatever bombs they carry.  -1: all that libpng knows but IHDR, PLTE, tRNS, IDAT,
     * IEND. */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "tRNS", 1);
    png_set_compression_buffer_size(png, PIECE_BYTES);
#ifdef PNG_MAXIMUM_INFLATE_WINDOW
    /* Some encoders state a smaller window than they use; zlib's full one reads them all. */
    png_set_option(png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
#endif
#ifdef PNG_IGNORE_ADLER32
    /* The checksum behind the pixels would fail the last row, though all of it is there; and the
     * chunks' own CRC covers the same bytes. */
    png_set_option(png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
#endif
    png_read_info(png, p->info);
}

static ldr_status check_header(ldri_png *p, const ldri_limits *limits, ldri_failure *why)
{
    p->width = png_get_image_width(p->png, p->info);
    p->height = png_get_image_height(p->png, p->info);
    p->interlaced = png_get_interlace_type(p->png, p->info) != PNG_INTERLACE_NONE;
    if ((uint64_t)p->width * p->height > limits->max_pixels) {
        return ldri_failure_set(
            why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, 0, "png of %u x %u pixels is above max_pixels, %llu",
            (unsigned)p->width, (unsigned)p->height, (unsigned long long)limits->max_pixels);
    }
    if (p->width > MAX_SIDE || p->height > MAX_SIDE) {
        return ldri_failure_set(why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, 0,
                                "png of %u x %u pixels: decoded up to %d a side",
                                (unsigned)p->width, (unsigned)p->height, MAX_SIDE);
    }
    return LDR_OK;
}

/* Whatever the type, RGB8 comes out: alpha dropped, 16 bit by the high byte.  All of these are
 * libpng's own transformations. */
static void transform_step(ldri_png *p)
{
    png_structp png = p->png;
    png_byte type = png_get_color_type(png, p->info);
    png_byte depth = png_get_bit_depth(png, p->info);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        /* libpng's copy of the palette has 256 entries, black beyond the file's. */
        png_set_palette_to_rgb(png);
    } else {
        if (depth < 8) png_set_expand_gray_1_2_4_to_8(png);
        if (depth == 16) png_set_strip_16(png); /* the high byte */
        if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
    }
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, p->info);
}

/* Apple's private variant: deflate without header, BGRA, alpha multiplied in. */
static int is_apples(const uint8_t *bytes, size_t n_bytes)
{
    return n_bytes >= 16 && memcmp(bytes + 12, "CgBI", 4) == 0;
}

ldr_status ldri_png_begin(ldri_png *p, const uint8_t *bytes, size_t n_bytes,
                          const ldri_limits *limits, ldri_notes *notes, ldri_image_info *info,
                          ldri_failure *why)
{
    if (is_apples(bytes, n_bytes)) {
        return ldri_failure_set(why, LDR_E_UNSUPPORTED, LDR_CAUSE_UNSUPPORTED, 0,
                                "png in apple's own form (CgBI) is not supported");
    }
    p->bytes = bytes;
    p->n_bytes = n_bytes;
    p->at = 0;
    p->notes = notes;
    p->width = p->height = 0;
    p->in_header = 1;
    p->interlaced = p->out_of_memory = p->ended_early = 0;
    ldr_status s = guarded(p, create_step, why);
    if (s == LDR_OK && !p->info) {
        s = ldri_failure_set(why, LDR_E_NOMEM, LDR_CAUSE_NONE, 0, "not enough memory for libpng");
    }
    if (s == LDR_OK) s = guarded(p, header_step, why);
    if (s == LDR_OK) s = check_header(p, limits, why);
    if (s < 0) {
        ldri_png_end(p);
        return s;
    }
    info->format = LDRI_FORMAT_PNG;
    info->width = p->width;
    info->height = p->height;
    info->working_bytes =
        p->interlaced ? (uint64_t)3 * p->width * p->height + (uint64_t)32 * p->width : 0;
    return LDR_OK;
}

/* ---- pixels ---- */

static int takes_all(const ldri_png *p)
{
    return p->region_width == p->width && p->region_height == p->height;
}

static uint8_t *reserve(ldri_png *p, size_t n_bytes)
{
    uint8_t *buffer = ldri_block_reserve(&p->rows, n_bytes);
    if (buffer) return buffer;
    p->status = ldri_failure_set(p->why, LDR_E_NOMEM, LDR_CAUSE_NONE, 0,
                                 "not enough memory to decode a png of %u x %u pixels",
                                 (unsigned)p->width, (unsigned)p->height);
    return NULL;
}

/* Adam7: seven passes over the whole picture, straight into `out` if all of it is wanted. */
static void read_interlaced(ldri_png *p)
{
    size_t pitch = takes_all(p) ? p->pitch : (size_t)3 * p->width;
    uint8_t *picture = takes_all(p) ? p->out : reserve(p, pitch * p->height);
    if (!picture) return;
    for (int pass = 0; pass < 7; pass++) {
        for (uint32_t y = 0; y < p->height; y++) png_read_row(p->png, picture + y * pitch, NULL);
    }
}

static void cut_row(const ldri_png *p, const uint8_t *row, uint32_t y)
{
    memcpy(p->out + y * p->pitch, row + (size_t)3 * p->left, (size_t)3 * p->region_width);
}

/* The rows above the region must be inflated, as filters build on them, but go nowhere. */
static void read_rows(ldri_png *p)
{
    int direct = p->region_width == p->width;
    uint8_t *row = direct ? NULL : reserve(p, (size_t)3 * p->width);
    if (!direct && !row) return;
    for (uint32_t y = 0; y < p->top; y++) png_read_row(p->png, NULL, NULL);
    for (uint32_t y = 0; y < p->region_height; y++) {
        png_read_row(p->png, direct ? p->out + y * p->pitch : row, NULL);
        if (!direct) cut_row(p, row, y);
    }
}

static void region_step(ldri_png *p)
{
    transform_step(p);
    p->in_header = 0;
    assert(png_get_rowbytes(p->png, p->info) == (size_t)3 * p->width);
    if (p->interlaced)
        read_interlaced(p);
    else
        read_rows(p);
}

/* What is to be cut when the last row has been read, which may end with a jump out of region_step
 * (all_rows_are_out). */
static void cut_what_is_left(const ldri_png *p)
{
    if (p->interlaced && !takes_all(p)) {
        for (uint32_t y = 0; y < p->region_height; y++)
            cut_row(p, p->rows.bytes + ((size_t)p->top + y) * 3 * p->width, y);
    }
    if (!p->interlaced && p->region_width < p->width)
        cut_row(p, p->rows.bytes, p->region_height - 1);
}

ldr_status ldri_png_region(ldri_png *p, uint32_t left, uint32_t top, uint32_t width,
                           uint32_t height, uint8_t *out, size_t pitch, ldri_failure *why)
{
    p->left = left;
    p->top = top;
    p->region_width = width;
    p->region_height = height;
    p->out = out;
    p->pitch = pitch;
    ldr_status s = guarded(p, region_step, why);
    if (s == LDR_OK) cut_what_is_left(p);
    return s;
}
