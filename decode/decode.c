#include "decode/decode.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <png.h>

#include "decode/jpeg.h"
#include "decode/notes.h"
#include "decode/png_read.h"

struct ldri_decoder {
    ldri_limits limits;
    ldri_jpeg *jpeg;
    ldri_png *png;
    ldri_notes notes;
    ldri_format active; /* whose begin succeeded; UNKNOWN between pictures */
    uint32_t width, height;
    int region_taken; /* region has been called since begin */
};

ldr_status ldri_decoder_open(ldri_decoder **out, const ldri_limits *limits)
{
    ldr_status s = LDR_E_NOMEM;
    ldri_decoder *d = calloc(1, sizeof *d);
    if (!d) return s;
    d->limits = *limits;
    s = ldri_jpeg_open(&d->jpeg);
    if (s == LDR_OK) s = ldri_png_open(&d->png);
    if (s == LDR_OK)
        *out = d;
    else
        ldri_decoder_close(&d);
    return s;
}

void ldri_decoder_close(ldri_decoder **d)
{
    if (!d || !*d) return;
    ldri_decode_end(*d);
    ldri_jpeg_close(&(*d)->jpeg);
    ldri_png_close(&(*d)->png);
    free(*d);
    *d = NULL;
}

static ldr_status not_an_image(const uint8_t *bytes, size_t n_bytes, const char *name,
                               ldri_failure *why)
{
    char hex[3 * 8 + 1] = "";
    if (name[0]) {
        return ldri_failure_set(why, LDR_E_FORMAT, LDR_CAUSE_FORMAT, 0,
                                "this is %s, not JPEG or PNG", name);
    }
    for (size_t i = 0, at = 0; i < n_bytes && i < 8; i++) {
        at += (size_t)snprintf(hex + at, sizeof hex - at, "%s%02x", i ? " " : "", bytes[i]);
    }
    return ldri_failure_set(why, LDR_E_FORMAT, LDR_CAUSE_FORMAT, 0,
                            "not JPEG or PNG: begins with %s", hex);
}

ldr_status ldri_decode_begin(ldri_decoder *d, const uint8_t *bytes, size_t n_bytes,
                             ldri_image_info *info, ldri_failure *why)
{
    const char *name;
    ldr_status s;
    ldri_decode_end(d);
    ldri_notes_reset(&d->notes);
    if (n_bytes == 0) {
        return ldri_failure_set(why, LDR_E_FORMAT, LDR_CAUSE_EMPTY, 0, "file is empty");
    }
    ldri_format format = ldri_sniff(bytes, n_bytes, &name);
    switch (format) {
    case LDRI_FORMAT_JPEG:
        s = ldri_jpeg_begin(d->jpeg, bytes, n_bytes, &d->limits, &d->notes, info, why);
        break;
    case LDRI_FORMAT_PNG:
        s = ldri_png_begin(d->png, bytes, n_bytes, &d->limits, &d->notes, info, why);
        break;
    default:
        return not_an_image(bytes, n_bytes, name, why);
    }
    if (s < 0) return s;
    assert(info->format == format && info->width > 0 && info->height > 0);
    d->active = format;
    d->width = info->width;
    d->height = info->height;
    d->region_taken = 0;
    return s;
}

ldr_status ldri_decode_region(ldri_decoder *d, uint32_t left, uint32_t top, uint32_t width,
                              uint32_t height, uint8_t *out, size_t pitch, ldri_failure *why)
{
    assert(d->active != LDRI_FORMAT_UNKNOWN && !d->region_taken);
    assert(width > 0 && left < d->width && width <= d->width - left);
    assert(height > 0 && top < d->height && height <= d->height - top);
    assert(pitch >= (size_t)3 * width);
    d->region_taken = 1;
    if (d->active == LDRI_FORMAT_JPEG)
        return ldri_jpeg_region(d->jpeg, left, top, width, height, out, pitch, why);
    return ldri_png_region(d->png, left, top, width, height, out, pitch, why);
}

void ldri_decode_end(ldri_decoder *d)
{
    if (d->active == LDRI_FORMAT_JPEG) ldri_jpeg_end(d->jpeg);
    if (d->active == LDRI_FORMAT_PNG) ldri_png_end(d->png);
    d->active = LDRI_FORMAT_UNKNOWN;
}

uint64_t ldri_decode_warnings(const ldri_decoder *d, const char **first)
{
    if (first) *first = d->notes.first;
    return d->notes.n_warnings;
}

/* Digits of a macro's value as text. */
#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

void ldri_decode_versions(char *out, size_t capacity)
{
#ifdef LIBJPEG_TURBO_VERSION
    /* libjpeg-turbo's shared library does not tell its version: this is the header's. */
    const char *jpeg = "libjpeg-turbo " VALUE_OF(LIBJPEG_TURBO_VERSION);
#else
    const char *jpeg = "libjpeg API " VALUE_OF(JPEG_LIB_VERSION);
#endif
    snprintf(out, capacity, "%s, libpng %s", jpeg, png_get_libpng_ver(NULL));
}
