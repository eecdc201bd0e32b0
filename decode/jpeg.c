#include "decode/jpeg.h"

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "decode/block.h"

/* Columns decoded on each side of a region and cut off where a component is stored with fewer
 * columns than the picture has.  Fancy upsampling takes the edge of a cropped column range for the
 * picture's edge, which reaches one column in; and a range of two columns at the left edge of the
 * picture loses fancy upsampling.  Two columns cover both. */
enum { MARGIN = 2 };

/* Rows per call into the library.  It hands over what it has of the present row of MCUs (16 rows at
 * most with the usual samplings), so more would not be filled. */
enum { ROWS_AT_ONCE = 16 };

/* Row buffers above this are not kept. */
enum { KEEP_BYTES = 4 << 20 };

struct ldri_jpeg {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape; /* valid while `guarded` runs */
    int created;    /* cinfo must be destroyed */
    ldri_block rows;

    /* the present picture */
    const uint8_t *bytes;
    size_t n_bytes;
    uint32_t max_scans;
    uint32_t width, height; /* cinfo.output_width changes with a crop */
    int in_header;          /* the first scan has not been reached */
    int many_scans;         /* progressive, or components apart: needs all coefficients at once */
    ldri_notes *notes;
    ldri_failure *why;
    ldr_status status; /* of the step that is running */

    /* what `region_step` is to do */
    uint32_t left, top, region_width, region_height;
    uint8_t *out;
    size_t pitch;
};

static ldri_jpeg *owner_of(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

/* ---- failures ---- */

/* Where the input stands.  In a file of several scans all are read before the first row is made. */
static const char *where(const ldri_jpeg *j, char *text, size_t capacity)
{
    const struct jpeg_decompress_struct *c = &j->cinfo;
    if (j->in_header) {
        snprintf(text, capacity, "in its header");
    } else if (j->many_scans) {
        snprintf(text, capacity, "in scan %d", c->input_scan_number);
    } else {
        uint64_t row = (uint64_t)c->input_iMCU_row * (unsigned)c->max_v_samp_factor * DCTSIZE;
        if (row >= j->height) row = j->height - 1;
        snprintf(text, capacity, "at row %u of %u", (unsigned)row, (unsigned)j->height);
    }
    return text;
}

static size_t byte_offset(const ldri_jpeg *j)
{
    const struct jpeg_source_mgr *src = j->cinfo.src;
    return src && src->bytes_in_buffer <= j->n_bytes ? j->n_bytes - src->bytes_in_buffer : 0;
}

static void escape_with(ldri_jpeg *j, ldr_status s) __attribute__((noreturn));

static void escape_with(ldri_jpeg *j, ldr_status s)
{
    j->status = s;
    longjmp(j->escape, 1);
}

static const char *process_name(int sof_marker)
{
    switch (sof_marker) {
    case 0xc3:
        return "lossless";
    case 0xc5:
    case 0xc6:
        return "hierarchical";
    case 0xc7:
        return "hierarchical lossless";
    case 0xc8:
        return "extended (JPG marker)";
    case 0xc9:
    case 0xca:
        return "arithmetic-coded";
    case 0xcb:
        return "lossless arithmetic-coded";
    case 0xcd:
    case 0xce:
        return "hierarchical arithmetic-coded";
    case 0xcf:
        return "hierarchical lossless arithmetic-coded";
    default:
        return "unknown kind of";
    }
}

static ldr_status unsupported(ldri_jpeg *j, int code, const char *what)
{
    return ldri_failure_set(j->why, LDR_E_UNSUPPORTED, LDR_CAUSE_UNSUPPORTED, code,
                            "%s jpeg is not supported", what);
}

/* A fatal error of the library: by its code, what it means for the caller. */
static ldr_status judge_error(ldri_jpeg *j)
{
    j_common_ptr c = (j_common_ptr)&j->cinfo;
    const int code = c->err->msg_code, *number = c->err->msg_parm.i;
    char text[JMSG_LENGTH_MAX], place[48];
    switch (code) {
    case JERR_OUT_OF_MEMORY:
        return ldri_failure_set(j->why, LDR_E_NOMEM, LDR_CAUSE_NONE, 0,
                                "not enough memory to decode a jpeg of %u x %u pixels",
                                (unsigned)j->cinfo.image_width, (unsigned)j->cinfo.image_height);
    case JERR_BAD_PRECISION:
        snprintf(text, sizeof text, "%d-bit", number[0]);
        return unsupported(j, code, text);
    case JERR_SOF_UNSUPPORTED:
        return unsupported(j, code, process_name(number[0]));
#if JPEG_LIB_VERSION < 70 /* built to look like libjpeg 7 or 8, the library has another list */
    case JERR_ARITH_NOTIMPL:
        return unsupported(j, code, "arithmetic-coded");
#endif
    case JERR_UNKNOWN_MARKER:
        if (number[0] != 0xf7) break;
        return unsupported(j, code, "lossless (JPEG-LS)");
    case JERR_CONVERSION_NOTIMPL:
        return ldri_failure_set(j->why, LDR_E_UNSUPPORTED, LDR_CAUSE_UNSUPPORTED, code,
                                "jpeg with %d components in a colour space that is not supported",
                                j->cinfo.num_components);
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
        c->err->format_message(c, text);
        return ldri_failure_set(j->why, LDR_E_UNSUPPORTED, LDR_CAUSE_UNSUPPORTED, code,
                                "jpeg is not supported: %s", ldri_notes_soften(text));
    case JERR_IMAGE_TOO_BIG:
        return ldri_failure_set(j->why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, code,
                                "jpeg of %u x %u pixels: libjpeg decodes up to %u a side",
                                (unsigned)j->cinfo.image_width, (unsigned)j->cinfo.image_height,
                                number[0] > 0 ? (unsigned)number[0] : 65500u);
    case JERR_EMPTY_IMAGE:
        return ldri_failure_set(j->why, LDR_E_FORMAT, LDR_CAUSE_DAMAGED, code,
                                "jpeg header says %u x %u pixels", (unsigned)j->cinfo.image_width,
                                (unsigned)j->cinfo.image_height);
    default:
        break;
    }
    c->err->format_message(c, text);
    return ldri_failure_set(j->why, LDR_E_FORMAT, LDR_CAUSE_DAMAGED, code,
                            "corrupt jpeg %s, byte %zu of %zu: %s", where(j, place, sizeof place),
                            byte_offset(j), j->n_bytes, ldri_notes_soften(text));
}

static void on_fatal_error(j_common_ptr cinfo) __attribute__((noreturn));

static void on_fatal_error(j_common_ptr cinfo)
{
    ldri_jpeg *j = owner_of(cinfo);
    escape_with(j, judge_error(j));
}

/* What went wrong, if this warning means that pixels are lost; else NULL. */
static const char *damage_name(int code)
{
    switch (code) {
    case JWRN_JPEG_EOF:
        return "jpeg data ends early";
    case JWRN_HIT_MARKER:
        return "jpeg data breaks off at a marker";
    case JWRN_HUFF_BAD_CODE:
        return "bad huffman code in jpeg data";
    case JWRN_ARITH_BAD_CODE:
        return "bad arithmetic code in jpeg data";
    case JWRN_MUST_RESYNC:
        return "jpeg restart marker is missing or out of order";
    case JWRN_EXTRANEOUS_DATA:
        return "stray bytes between jpeg markers";
    case JWRN_BOGUS_PROGRESSION:
        return "jpeg scans in an impossible order";
    default:
        return NULL;
    }
}

/* Warnings have level -1, traces 0 and up.  Every warning that comes here was raised before the
 * last needed row is out, since nothing is read after that: damage therefore fails the picture, and
 * there is no point in reading on. */
static void on_message(j_common_ptr cinfo, int level)
{
    if (level >= 0) return;
    ldri_jpeg *j = owner_of(cinfo);
    char text[JMSG_LENGTH_MAX], place[48];
    int code = cinfo->err->msg_code;
    cinfo->err->num_warnings++;
    if (j->notes) {
        cinfo->err->format_message(cinfo, text);
        ldri_notes_add(j->notes, ldri_notes_soften(text));
    }
    const char *damage = damage_name(code);
    if (!damage) return;
    where(j, place, sizeof place);
    if (code == JWRN_JPEG_EOF)
        ldri_failure_set(j->why, LDR_E_FORMAT, LDR_CAUSE_DAMAGED, code, "%s %s", damage, place);
    else
        ldri_failure_set(j->why, LDR_E_FORMAT, LDR_CAUSE_DAMAGED, code, "%s %s, byte %zu of %zu",
                         damage, place, byte_offset(j), j->n_bytes);
    escape_with(j, LDR_E_FORMAT);
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo; /* never to standard error */
}

/* Called for each row of MCUs.  A small file can hold thousands of scans, each of which passes over
 * the whole picture: the time must be bounded (libjpeg-turbo issue 249). */
static void on_progress(j_common_ptr cinfo)
{
    ldri_jpeg *j = owner_of(cinfo);
    if (j->in_header || (uint32_t)j->cinfo.input_scan_number <= j->max_scans) return;
    escape_with(j, ldri_failure_set(j->why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, 0,
                                    "jpeg has more than %u scans (raise max_scans to accept it)",
                                    (unsigned)j->max_scans));
}

/* The only frame that is jumped to.  It owns nothing: all memory belongs to *j or to cinfo. */
static ldr_status guarded(ldri_jpeg *j, void (*step)(ldri_jpeg *), ldri_failure *why)
{
    j->why = why;
    j->status = LDR_OK;
    if (setjmp(j->escape) == 0) step(j);
    j->why = NULL;
    return j->status;
}

/* ---- life ---- */

static void create_step(ldri_jpeg *j)
{
    jpeg_create_decompress(&j->cinfo);
}

ldr_status ldri_jpeg_open(ldri_jpeg **out)
{
    ldri_jpeg *j = calloc(1, sizeof *j);
    if (!j) return LDR_E_NOMEM;
    j->cinfo.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_fatal_error;
    j->errors.emit_message = on_message;
    j->errors.output_message = on_output;
    j->cinfo.client_data = j;
    j->in_header = 1;
    j->created = 1; /* jpeg_destroy copes with a half-made struct */
    ldr_status s = guarded(j, create_step, NULL);
    if (s < 0) {
        ldri_jpeg_close(&j);
        return s;
    }
    j->progress.progress_monitor = on_progress;
    j->cinfo.progress = &j->progress;
    *out = j;
    return LDR_OK;
}

void ldri_jpeg_close(ldri_jpeg **j)
{
    if (!j || !*j) return;
    if ((*j)->created) jpeg_destroy_decompress(&(*j)->cinfo);
    ldri_block_free(&(*j)->rows);
    free(*j);
    *j = NULL;
}

void ldri_jpeg_end(ldri_jpeg *j)
{
    jpeg_abort_decompress(&j->cinfo); /* frees the picture's memory, keeps the object */
    ldri_block_trim(&j->rows, KEEP_BYTES);
    j->notes = NULL;
    j->bytes = NULL;
    j->n_bytes = 0;
}

/* ---- header ---- */

static void header_step(ldri_jpeg *j)
{
    /* After the last byte jpeg_mem_src warns JWRN_JPEG_EOF and feeds end-of-image markers. */
    jpeg_mem_src(&j->cinfo, j->bytes, (unsigned long)j->n_bytes);
    jpeg_read_header(&j->cinfo, TRUE);
}

/* Coefficients of the whole picture, two bytes each, as jdcoefct.c's jinit_d_coef_controller asks
 * for, and a pointer a row of blocks. */
static uint64_t coefficient_bytes(const struct jpeg_decompress_struct *c)
{
    uint64_t total = 0;
    for (int i = 0; i < c->num_components; i++) {
        const jpeg_component_info *comp = &c->comp_info[i];
        uint64_t h = (unsigned)comp->h_samp_factor, v = (unsigned)comp->v_samp_factor;
        uint64_t across = (comp->width_in_blocks + h - 1) / h * h;
        uint64_t down = (comp->height_in_blocks + v - 1) / v * v;
        total += down * (across * sizeof(JBLOCK) + sizeof(void *));
    }
    return total + (64 << 10);
}

static ldr_status check_header(ldri_jpeg *j, const ldri_limits *limits, ldri_failure *why)
{
    const struct jpeg_decompress_struct *c = &j->cinfo;
    uint64_t pixels = (uint64_t)c->image_width * c->image_height;
    if (pixels > limits->max_pixels) {
        return ldri_failure_set(why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, 0,
                                "jpeg of %u x %u pixels is above max_pixels, %llu",
                                (unsigned)c->image_width, (unsigned)c->image_height,
                                (unsigned long long)limits->max_pixels);
    }
    if (c->num_components != 1 && c->num_components != 3 && c->num_components != 4) {
        return ldri_failure_set(why, LDR_E_UNSUPPORTED, LDR_CAUSE_UNSUPPORTED, 0,
                                "jpeg with %d components is not supported", c->num_components);
    }
    return LDR_OK;
}

ldr_status ldri_jpeg_begin(ldri_jpeg *j, const uint8_t *bytes, size_t n_bytes,
                           const ldri_limits *limits, ldri_notes *notes, ldri_image_info *info,
                           ldri_failure *why)
{
    struct jpeg_decompress_struct *c = &j->cinfo;
    j->bytes = bytes;
    j->n_bytes = n_bytes;
    j->notes = notes;
    j->max_scans = limits->max_scans;
    j->in_header = 1;
    j->width = j->height = 0;
    ldr_status s = guarded(j, header_step, why);
    if (s == LDR_OK) s = check_header(j, limits, why);
    if (s < 0) {
        ldri_jpeg_end(j);
        return s;
    }
    j->in_header = 0;
    j->width = c->image_width;
    j->height = c->image_height;
    c->dct_method = JDCT_ISLOW;
    c->do_fancy_upsampling = TRUE;
    /* libjpeg converts neither of the four-component spaces to RGB; jdcolor.c makes CMYK of YCCK.
     */
    c->out_color_space = c->num_components == 4 ? JCS_CMYK : JCS_RGB;
    info->format = LDRI_FORMAT_JPEG;
    info->width = j->width;
    info->height = j->height;
    j->many_scans = jpeg_has_multiple_scans(c);
    info->working_bytes = j->many_scans ? coefficient_bytes(c) : 0;
    return LDR_OK;
}

/* ---- pixels ---- */

/* a * b / 255 rounded, for a and b in 0 .. 255, as Pillow's MULDIV255. */
static unsigned scale_255(unsigned a, unsigned b)
{
    unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* Every four-component file is taken for Adobe's inverted kind, marker or not, as Pillow does:
 * c, m, y, k as stored are 255 minus ink. */
static void rgb_of_cmyk(const uint8_t *cmyk, uint32_t n, uint8_t *rgb)
{
    for (; n > 0; n--, cmyk += 4, rgb += 3) {
        unsigned k = cmyk[3];
        rgb[0] = (uint8_t)(k - scale_255(255u - cmyk[0], k));
        rgb[1] = (uint8_t)(k - scale_255(255u - cmyk[1], k));
        rgb[2] = (uint8_t)(k - scale_255(255u - cmyk[2], k));
    }
}

static JDIMENSION rows_up_to(const ldri_jpeg *j, uint32_t end)
{
    JDIMENSION n = end - j->cinfo.output_scanline;
    return n < ROWS_AT_ONCE ? n : ROWS_AT_ONCE;
}

/* Points rows[] into j->rows.  0 with the failure set if there is no memory.
 *
 * Each row begins one byte past a multiple of 64: to an aligned row libjpeg-turbo's colour
 * conversion stores past the caches (vmovntdq), and copying it then costs a tenth of the whole
 * decode. */
static int get_row_buffer(ldri_jpeg *j, JSAMPROW rows[ROWS_AT_ONCE])
{
    size_t row_bytes = (size_t)j->cinfo.output_width * (unsigned)j->cinfo.output_components;
    size_t stride = (row_bytes + 64) / 64 * 64;
    uint8_t *buffer = ldri_block_reserve(&j->rows, stride * ROWS_AT_ONCE + 64);
    if (!buffer) {
        j->status = ldri_failure_set(j->why, LDR_E_NOMEM, LDR_CAUSE_NONE, 0,
                                     "not enough memory for rows of %u pixels",
                                     (unsigned)j->cinfo.output_width);
        return 0;
    }
    uint8_t *first = buffer + (64 - (uintptr_t)buffer % 64) % 64 + 1;
    for (int i = 0; i < ROWS_AT_ONCE; i++) rows[i] = first + (size_t)i * stride;
    return 1;
}

/* The region's rows straight into the caller's memory. */
static void read_whole_rows(ldri_jpeg *j)
{
    const uint32_t end = j->top + j->region_height;
    uint8_t *out = j->out;
    while (j->cinfo.output_scanline < end) {
        JSAMPROW rows[ROWS_AT_ONCE];
        JDIMENSION n = rows_up_to(j, end);
        for (JDIMENSION i = 0; i < n; i++) rows[i] = out + i * j->pitch;
        out += jpeg_read_scanlines(&j->cinfo, rows, n) * j->pitch;
    }
}

/* The region's rows, decoded from column `first` of the picture on, cut and converted. */
static void read_cut_rows(ldri_jpeg *j, JSAMPROW rows[ROWS_AT_ONCE], uint32_t first)
{
    const uint32_t end = j->top + j->region_height;
    const unsigned pixel = (unsigned)j->cinfo.output_components;
    const size_t cut = (size_t)pixel * (j->left - first);
    uint8_t *out = j->out;
    while (j->cinfo.output_scanline < end) {
        JDIMENSION n = jpeg_read_scanlines(&j->cinfo, rows, rows_up_to(j, end));
        for (JDIMENSION i = 0; i < n; i++, out += j->pitch) {
            if (pixel == 4)
                rgb_of_cmyk(rows[i] + cut, j->region_width, out);
            else
                memcpy(out, rows[i] + cut, (size_t)3 * j->region_width);
        }
    }
}

/* Whether libjpeg will guess missing precision from the blocks around: a progressive file whose
 * finer scans are missing, which is legal.  May say so where jdcoefct.c's smoothing_ok does not in
 * the end; never the other way round.  coef_bits[c][k]: bits of coefficient k that are still to
 * come, -1 if none came yet; the first ten are looked at. */
static int smooths_blocks(const struct jpeg_decompress_struct *c)
{
    if (!c->progressive_mode || !c->do_block_smoothing || !c->coef_bits) return 0;
    for (int i = 0; i < c->num_components; i++) {
        for (int k = 0; k < 10; k++) {
            if (c->coef_bits[i][k] != 0) return 1;
        }
    }
    return 0;
}

static uint32_t margin_of(const struct jpeg_decompress_struct *c)
{
    for (int i = 0; i < c->num_components; i++) {
        if (c->comp_info[i].h_samp_factor != c->max_h_samp_factor) return MARGIN;
    }
    return 0;
}

static void region_step(ldri_jpeg *j)
{
    struct jpeg_decompress_struct *c = &j->cinfo;
    JSAMPROW rows[ROWS_AT_ONCE];
    JDIMENSION first = 0, columns = j->width;

    jpeg_start_decompress(c); /* reads a file of several scans to its end */
    /* libjpeg-turbo 2.1.5 takes the edges of a cropped range, and rows that it skipped, for the
     * picture's edges when it smooths blocks: such files are decoded at full width from the top. */
    int whole = smooths_blocks(c);
    if (!whole) {
        uint32_t margin = margin_of(c), right = j->width - j->left - j->region_width;
        first = j->left > margin ? j->left - margin : 0;
        columns = j->left + j->region_width + (right < margin ? right : margin) - first;
        /* Moves `first` left to a boundary of MCUs and widens `columns` by as much. */
        if (columns < j->width) jpeg_crop_scanline(c, &first, &columns);
        if (j->top > 0) jpeg_skip_scanlines(c, j->top);
    }
    int direct = c->output_components == 3 && j->region_width == c->output_width;
    if (!direct || whole) {
        if (!get_row_buffer(j, rows)) return;
        while (c->output_scanline < j->top) jpeg_read_scanlines(c, rows, rows_up_to(j, j->top));
    }
    assert(c->output_scanline == j->top && first <= j->left && columns == c->output_width);
    if (direct)
        read_whole_rows(j);
    else
        read_cut_rows(j, rows, first);
}

ldr_status ldri_jpeg_region(ldri_jpeg *j, uint32_t left, uint32_t top, uint32_t width,
                            uint32_t height, uint8_t *out, size_t pitch, ldri_failure *why)
{
    j->left = left;
    j->top = top;
    j->region_width = width;
    j->region_height = height;
    j->out = out;
    j->pitch = pitch;
    return guarded(j, region_step, why);
}
