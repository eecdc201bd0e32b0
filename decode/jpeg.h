/* jpeg.h - JPEG to RGB8 through libjpeg-turbo's libjpeg API (version 6b's; 2.1 and later).
 *
 * One object holds one jpeg_decompress_struct for life.  Called by decode.c only, in the order
 * begin, region (at most once), end. */
#ifndef LDR_JPEG_H
#define LDR_JPEG_H

#include "decode/decode.h"
#include "decode/notes.h"

typedef struct ldri_jpeg ldri_jpeg;

ldr_status ldri_jpeg_open(ldri_jpeg **out);
void ldri_jpeg_close(ldri_jpeg **j); /* accepts NULL and *j == NULL */

/* Reads the header up to the first scan.  `bytes` and `notes` must live until ldri_jpeg_end. */
ldr_status ldri_jpeg_begin(ldri_jpeg *j, const uint8_t *bytes, size_t n_bytes,
                           const ldri_limits *limits, ldri_notes *notes, ldri_image_info *info,
                           ldri_failure *why);

/* As ldri_decode_region. */
ldr_status ldri_jpeg_region(ldri_jpeg *j, uint32_t left, uint32_t top, uint32_t width,
                            uint32_t height, uint8_t *out, size_t pitch, ldri_failure *why);

void ldri_jpeg_end(ldri_jpeg *j); /* frees what the picture took; harmless when repeated */

#endif
