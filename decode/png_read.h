/* png_read.h - PNG to RGB8 through libpng 1.6.
 *
 * Called by decode.c only, in the order begin, region (at most once), end. */
#ifndef LDR_PNG_READ_H
#define LDR_PNG_READ_H

#include "decode/decode.h"
#include "decode/notes.h"

typedef struct ldri_png ldri_png;

ldr_status ldri_png_open(ldri_png **out);
void ldri_png_close(ldri_png **p); /* accepts NULL and *p == NULL */

/* Reads the chunks up to the pixels.  `bytes` and `notes` must live until ldri_png_end. */
ldr_status ldri_png_begin(ldri_png *p, const uint8_t *bytes, size_t n_bytes,
                          const ldri_limits *limits, ldri_notes *notes, ldri_image_info *info,
                          ldri_failure *why);

/* As ldri_decode_region. */
ldr_status ldri_png_region(ldri_png *p, uint32_t left, uint32_t top, uint32_t width,
                           uint32_t height, uint8_t *out, size_t pitch, ldri_failure *why);

void ldri_png_end(ldri_png *p); /* frees what the picture took; harmless when repeated */

#endif
