/* RGB8 pictures to a stream, as PNG or binary PPM. */
#include "decode/decode.h"

#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

typedef struct png_sink {
    jmp_buf escape;
    FILE *file;
    png_structp png;
    png_infop info;
    int code; /* errno of a failed write; 0: libpng's own failure */
    char text[128];
} png_sink;

static void on_error(png_structp png, png_const_charp text) __attribute__((noreturn));

static void on_error(png_structp png, png_const_charp text)
{
    png_sink *k = png_get_error_ptr(png);
    snprintf(k->text, sizeof k->text, "%s", text);
    longjmp(k->escape, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static ldr_status write_failed(ldri_failure *why, int code)
{
    return ldri_failure_set(why, LDR_E_IO, LDR_CAUSE_NONE, code, "cannot write: %s",
                            strerror(code));
}

static void take_bytes(png_structp png, png_bytep bytes, size_t n)
{
    png_sink *k = png_get_io_ptr(png);
    errno = 0;
    if (fwrite(bytes, 1, n, k->file) == n) return;
    k->code = errno ? errno : EIO;
    png_error(png, "write error");
}

/* Flushed once, by ldri_png_write. */
static void flush_nothing(png_structp png)
{
    (void)png;
}

/* The frame that is jumped to owns nothing: all is in *k. */
static int write_picture(png_sink *k, const uint8_t *rgb, uint32_t width, uint32_t height,
                         size_t pitch)
{
    if (setjmp(k->escape) != 0) return 0;
    k->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, k, on_error, on_warning);
    if (k->png) k->info = png_create_info_struct(k->png);
    if (!k->info) {
        snprintf(k->text, sizeof k->text, "not enough memory");
        return 0;
    }
    png_set_write_fn(k->png, k, take_bytes, flush_nothing);
    png_set_IHDR(k->png, k->info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(k->png, k->info);
    for (uint32_t y = 0; y < height; y++) png_write_row(k->png, rgb + y * pitch);
    png_write_end(k->png, k->info);
    return 1;
}

static ldr_status flush(FILE *f, ldri_failure *why)
{
    errno = 0;
    if (fflush(f) == 0) return LDR_OK;
    return write_failed(why, errno ? errno : EIO);
}

ldr_status ldri_png_write(void *file, const uint8_t *rgb, uint32_t width, uint32_t height,
                          size_t pitch, ldri_failure *why)
{
    png_sink k;
    assert(width > 0 && height > 0 && pitch >= (size_t)3 * width);
    memset(&k, 0, sizeof k);
    k.file = file;
    int ok = write_picture(&k, rgb, width, height, pitch);
    if (k.png) png_destroy_write_struct(&k.png, &k.info);
    if (ok) return flush(file, why);
    if (k.code) return write_failed(why, k.code);
    return ldri_failure_set(why, LDR_E_INTERNAL, LDR_CAUSE_NONE, 0, "cannot write png: %s", k.text);
}

ldr_status ldri_ppm_write(void *file, const uint8_t *rgb, uint32_t width, uint32_t height,
                          size_t pitch, ldri_failure *why)
{
    FILE *f = file;
    assert(width > 0 && height > 0 && pitch >= (size_t)3 * width);
    errno = 0;
    if (fprintf(f, "P6\n%u %u\n255\n", (unsigned)width, (unsigned)height) < 0) {
        return write_failed(why, errno ? errno : EIO);
    }
    for (uint32_t y = 0; y < height; y++) {
        size_t n = (size_t)3 * width;
        errno = 0;
        if (fwrite(rgb + y * pitch, 1, n, f) != n) return write_failed(why, errno ? errno : EIO);
    }
    return flush(f, why);
}
