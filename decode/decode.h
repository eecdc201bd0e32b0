/* decode.h - bytes of a file to RGB8 pixels: the whole picture or a part of it.
 *
 * One ldri_decoder per thread; calls on one decoder must not overlap.  No threads, no globals, no
 * output: the libraries' warnings are counted and the first is kept.  A decoder keeps its buffers
 * from picture to picture.
 *
 *     s = ldri_decode_begin(d, bytes, n_bytes, &info, &why);  // header: format, size, limits
 *     s = ldri_decode_region(d, left, top, width, height, out, pitch, &why);
 *     ldri_decode_end(d);  // at any time after begin, also after a failure
 *
 * A region's pixels equal those of the whole picture, cut (pixels: islow IDCT, fancy upsampling;
 * PNG: alpha dropped, 16 bit by its high byte). A file is judged only by the rows down to the
 * region's last one. */
#ifndef LDR_DECODE_H
#define LDR_DECODE_H

#include "loader/status.h"

typedef struct ldri_decoder ldri_decoder;

typedef enum ldri_format { LDRI_FORMAT_UNKNOWN, LDRI_FORMAT_JPEG, LDRI_FORMAT_PNG } ldri_format;

typedef struct ldri_image_info {
    ldri_format format;
    uint32_t width, height; /* as the picture will be delivered */
    uint64_t working_bytes; /* memory that decoding it whole takes beside the pixels (coefficients
                             * of a progressive JPEG, the picture of an interlaced PNG); an estimate
                             * from above; 0 if small */
} ldri_image_info;

/* limits are copied.  On success *out is the caller's, to be closed. */
ldr_status ldri_decoder_open(ldri_decoder **out, const ldri_limits *limits);
void ldri_decoder_close(ldri_decoder **d); /* accepts NULL and *d == NULL */

/* Reads the header.  The decoder keeps the pointer `bytes`, which must stay readable until
 * ldri_decode_end; it does not own it. Chooses the decoder by the first bytes, never by a name.  On
 * failure *why tells the cause (FORMAT, UNSUPPORTED, DAMAGED, LIMIT, EMPTY, or NONE for lack of
 * memory) and ldri_decode_end need not be called (but may). */
ldr_status ldri_decode_begin(ldri_decoder *d, const uint8_t *bytes, size_t n_bytes,
                             ldri_image_info *info, ldri_failure *why);

/* Writes rows top .. top+height-1, columns left .. left+width-1 as RGB8 to out, `pitch` bytes from
 * row to row (pitch >= 3 * width); only 3 * width bytes of each row are written.  The region must
 * lie in the picture and not be empty (asserted).  Once per begin. On failure out may be partly
 * written. */
ldr_status ldri_decode_region(ldri_decoder *d, uint32_t left, uint32_t top, uint32_t width,
                              uint32_t height, uint8_t *out, size_t pitch, ldri_failure *why);

void ldri_decode_end(ldri_decoder *d);

/* How many warnings the libraries gave since the last begin, and the first of them ("" if none; it
 * lives until the next begin). */
uint64_t ldri_decode_warnings(const ldri_decoder *d, const char **first);

/* What the first bytes are: JPEG, PNG or UNKNOWN; for UNKNOWN *name says what it looks like ("a
 * GIF", "an HTML page", ..., "" if nothing known; static string; never NULL). */
ldri_format ldri_sniff(const uint8_t *bytes, size_t n_bytes, const char **name);

/* Writes an RGB8 picture as PNG or binary PPM to an open stream; does not close it.  LDR_E_IO with
 * errno in why->detail. */
ldr_status ldri_png_write(void *file /* FILE* */, const uint8_t *rgb, uint32_t width,
                          uint32_t height, size_t pitch, ldri_failure *why);
ldr_status ldri_ppm_write(void *file /* FILE* */, const uint8_t *rgb, uint32_t width,
                          uint32_t height, size_t pitch, ldri_failure *why);

/* Versions of the libraries in use, e.g. "libjpeg-turbo 2.1.5, libpng 1.6.39"; out is filled,
 * shortened if needed. */
void ldri_decode_versions(char *out, size_t capacity);

/* --- for `ldr bench` and `ldr doctor` --------------------------------------------------------- */

/* libjpeg-turbo alone, without checks, exact edges or messages: the ceiling that this decoder is
 * held against.  One per thread. */
typedef struct ldri_bare_jpeg ldri_bare_jpeg;

ldr_status ldri_bare_jpeg_open(ldri_bare_jpeg **out);
void ldri_bare_jpeg_close(ldri_bare_jpeg **b); /* accepts NULL and *b == NULL */

/* Room that decoding a part of this size takes. */
size_t ldri_bare_jpeg_bytes(uint32_t width, uint32_t height);

/* The rows top .. top+height-1 to out (ldri_bare_jpeg_bytes of memory), one behind the other, from
 * the boundary of MCUs at or before `left` on.  The part must lie in the picture.  LDR_E_FORMAT:
 * the library gave up. */
ldr_status ldri_bare_jpeg_decode(ldri_bare_jpeg *b, const uint8_t *bytes, size_t n_bytes,
                                 uint32_t left, uint32_t top, uint32_t width, uint32_t height,
                                 uint8_t *out);

typedef struct ldri_libraries { /* versions: of the headers at build time, and of what runs */
    int jpeg_is_turbo;
    char jpeg_built[24], jpeg_runs[24]; /* "" where it is not told */
    char png_built[24], png_runs[24];
    char zlib_built[24], zlib_runs[24];
} ldri_libraries;

void ldri_decode_libraries(ldri_libraries *out);

#endif
