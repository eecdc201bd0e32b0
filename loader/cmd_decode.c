#include "loader/cmd.h"

#include <fcntl.h>
#include <stdlib.h>

#include "decode/decode.h"
#include "loader/json.h"
#include "loader/options.h"
#include "loader/read.h"
#include "loader/status.h"

typedef struct picture {
    ldri_image_info info;
    uint8_t *pixels;
    size_t pitch;
} picture;

/* On failure nothing is left behind. */
static ldr_status decode_whole(ldri_decoder *d, const ldri_buffer *file, picture *out,
                               ldri_failure *why)
{
    ldr_status s = ldri_decode_begin(d, file->bytes, file->n, &out->info, why);
    if (s < 0) return s;
    size_t bytes;
    out->pitch = (size_t)out->info.width * 3;
    out->pixels = NULL;
    if (!__builtin_mul_overflow(out->pitch, out->info.height, &bytes)) out->pixels = malloc(bytes);
    if (!out->pixels) {
        s = ldri_failure_set(why, LDR_E_NOMEM, LDR_CAUSE_NONE, 0, "out of memory for %ux%u pixels",
                             out->info.width, out->info.height);
    } else {
        s = ldri_decode_region(d, 0, 0, out->info.width, out->info.height, out->pixels, out->pitch,
                               why);
    }
    ldri_decode_end(d);
    if (s < 0) free(out->pixels);
    return s;
}

static ldr_status read_picture(const char *path, const ldri_limits *limits, picture *out,
                               ldr_error *err)
{
    ldri_decoder *decoder = NULL;
    ldri_buffer file = {0};
    ldri_failure why;
    char printable[256];
    ldr_status s = ldri_decoder_open(&decoder, limits);
    if (s < 0) {
        ldri_failure_set(&why, s, LDR_CAUSE_NONE, 0, "out of memory");
    } else {
        s = ldri_read_file(AT_FDCWD, path, limits, NULL, &file, &why);
        if (s >= 0) s = decode_whole(decoder, &file, out, &why);
    }
    if (s < 0) {
        ldri_error_set(err, s, why.detail, LDR_NO_SAMPLE, "cannot decode %s: %s%s%s",
                       ldri_printable_path(printable, sizeof printable, path),
                       why.cause ? ldr_cause_name(why.cause) : "", why.cause ? ": " : "", why.text);
    }
    ldri_buffer_free(&file);
    ldri_decoder_close(&decoder);
    return s;
}

static ldr_status write_picture(const char *path, int png, const picture *p, ldr_error *err)
{
    ldri_cmd_file f;
    ldri_failure why;
    ldr_status s = ldri_cmd_file_open(&f, path, err);
    if (s < 0) return s;
    s = (png ? ldri_png_write : ldri_ppm_write)(f.stream, p->pixels, p->info.width, p->info.height,
                                                p->pitch, &why);
    if (s < 0) {
        char printable[256];
        ldri_cmd_file_discard(&f);
        return ldri_error_set(err, s, why.detail, LDR_NO_SAMPLE, "cannot write %s: %s",
                              ldri_printable_path(printable, sizeof printable, path), why.text);
    }
    return ldri_cmd_file_commit(&f, path, err);
}

int ldri_cmd_decode(const ldri_cli *cli)
{
    const char *in = cli->args[0], *out = cli->args[1];
    int png = ldri_cmd_has_suffix(out, ".png");
    picture p;
    ldr_error err;
    ldr_options o = cli->options;
    o.source = in;
    if (ldri_options_resolve(&o, &o, &err) < 0) return ldri_cmd_failed(&err);
    const ldri_limits limits = {o.max_pixels, o.max_scans, o.max_file};
    if (!png && !ldri_cmd_has_suffix(out, ".ppm")) {
        char printable[256];
        ldri_cmd_say("%s: the name of OUT must end in .png or .ppm",
                     ldri_printable_path(printable, sizeof printable, out));
        return 2;
    }
    if (read_picture(in, &limits, &p, &err) < 0) return ldri_cmd_failed(&err);
    ldr_status s = write_picture(out, png, &p, &err);
    free(p.pixels);
    if (s < 0) return ldri_cmd_failed(&err);
    if (cli->json) {
        ldri_json j = {.file = stdout};
        ldri_json_open(&j, NULL, '{');
        ldri_json_string(&j, "file", in);
        ldri_json_string(&j, "format", p.info.format == LDRI_FORMAT_PNG ? "png" : "jpeg");
        ldri_json_uint(&j, "width", p.info.width);
        ldri_json_uint(&j, "height", p.info.height);
        ldri_json_string(&j, "out", out);
        ldri_json_close(&j);
    }
    return ldri_cmd_stdout_works(1) ? 0 : 1;
}
