/* The verb, and what it tells about the program itself. */
#include "loader/cmd.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "decode/decode.h"
#include "loader/backend.h"
#include "loader/cmd_doctor.h"
#include "loader/options.h"

void ldri_doctor_tell(ldri_doctor *d, ldri_level level, const char *what, const char *help,
                      const char *format, ...)
{
    static const char *const names[] = {"ok", "note", "warn"};
    char value[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    d->counts[level]++;
    if (d->as_json) {
        ldri_json_open(&d->json, NULL, '{');
        ldri_json_string(&d->json, "level", names[level]);
        ldri_json_string(&d->json, "what", what);
        ldri_json_string(&d->json, "value", value);
        ldri_json_string(&d->json, "help", help ? help : "");
        ldri_json_close(&d->json);
    } else if (help && help[0]) {
        printf("%-4s  %s: %s  (%s)\n", names[level], what, value, help);
    } else {
        printf("%-4s  %s: %s\n", names[level], what, value);
    }
}

char *ldri_doctor_bytes(char *out, size_t capacity, double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t i = 0;
    while (bytes >= 1000 && i + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        i++;
    }
    snprintf(out, capacity, "%.*f %s", i == 0 ? 0 : 1, bytes, units[i]);
    return out;
}

/* --- the program ----------------------------------------------------------------------------- */

static void tell_simd(ldri_doctor *d)
{
    static const char *const words[] = {"none", "avx2", "avx512", "auto"};
    const char *best, *used = ldri_backend_simd(&best), *asked = getenv("LDR_SIMD");
    int known = 0;
    for (size_t i = 0; asked && i < sizeof words / sizeof words[0]; i++) {
        known |= strcmp(asked, words[i]) == 0;
    }
    if (asked && !known) {
        ldri_doctor_tell(d, LDRI_WARN, "vector instructions",
                         "LDR_SIMD is unknown and ignored: none, avx2, avx512 or auto", "%s", used);
    } else if (strcmp(used, best) != 0) {
        ldri_doctor_tell(d, LDRI_NOTE, "vector instructions", "unset LDR_SIMD",
                         "%s, as LDR_SIMD "
                         "says; this machine can do %s",
                         used, best);
    } else if (strcmp(best, "none") == 0) {
        ldri_doctor_tell(d, LDRI_NOTE, "vector instructions",
                         "a CPU with AVX2 resamples several times faster", "none");
    } else {
        ldri_doctor_tell(d, LDRI_FINE, "vector instructions", NULL, "%s%s%s", used,
                         asked ? "; LDR_SIMD is " : "", asked ? asked : "");
    }
}

static void tell_jpeg(ldri_doctor *d, const ldri_libraries *l)
{
    static const char *const switches[] = {"JSIMD_FORCENONE", "JSIMD_FORCEMMX", "JSIMD_FORCESSE",
                                           "JSIMD_FORCESSE2"};
    if (!l->jpeg_is_turbo) {
        ldri_doctor_tell(d, LDRI_WARN, "jpeg",
                         "libjpeg-turbo decodes several times faster, and "
                         "its pixels are those promised",
                         "the library that runs is not libjpeg-turbo");
    } else if (!l->jpeg_runs[0]) {
        ldri_doctor_tell(d, LDRI_FINE, "jpeg", NULL, "libjpeg-turbo, built with %s", l->jpeg_built);
    } else {
        int same = strcmp(l->jpeg_built, l->jpeg_runs) == 0;
        ldri_doctor_tell(d, same ? LDRI_FINE : LDRI_NOTE, "jpeg",
                         same ? NULL : "it works; the tests ran with the one it was built with",
                         "libjpeg-turbo %s, built with %s", l->jpeg_runs, l->jpeg_built);
    }
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        const char *value = getenv(switches[i]);
        if (!value || strcmp(value, "1") != 0) continue;
        ldri_doctor_tell(d, LDRI_WARN, "jpeg speed", "unset it", "%s=1 holds libjpeg-turbo back",
                         switches[i]);
    }
    ldri_doctor_tell(d, LDRI_FINE, "jpeg pixels", NULL,
                     "islow IDCT, fancy upsampling: those of Pillow");
}

static void tell_library(ldri_doctor *d, const char *what, const char *runs, const char *built)
{
    int same = strcmp(runs, built) == 0;
    ldri_doctor_tell(d, same ? LDRI_FINE : LDRI_NOTE, what,
                     same ? NULL : "it works; the tests ran with the one it was built with",
                     "%s, built with %s", runs, built);
}

static void tell_program(ldri_doctor *d)
{
    ldri_libraries l;
    uint32_t v = ldr_version();
    ldr_error err;
    ldri_doctor_tell(d, LDRI_FINE, "ldr", NULL, "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    tell_simd(d);
    ldri_decode_libraries(&l);
    tell_jpeg(d, &l);
    tell_library(d, "libpng", l.png_runs, l.png_built);
    tell_library(d, "zlib", l.zlib_runs, l.zlib_built);
    const ldri_backend_ops *ops = ldri_backend_find(LDR_DEVICE_AUTO, &err);
    if (ops) {
        ldri_doctor_tell(d, LDRI_FINE, "back end", NULL, "%s", ops->name);
    } else {
        d->broken = 1;
        ldri_doctor_tell(d, LDRI_WARN, "back end", NULL, "%s", err.message);
    }
}

int ldri_cmd_doctor(const ldri_cli *cli)
{
    ldri_doctor d = {.as_json = (int)cli->json, .json = {.file = stdout}};
    ldr_error err;
    ldr_options given = cli->options, o;
    given.source = cli->n_args > 0 ? cli->args[0] : "-";
    if (ldri_options_resolve(&given, &o, &err) < 0) return ldri_cmd_failed(&err);
    if (d.as_json) {
        ldri_json_open(&d.json, NULL, '{');
        ldri_json_open(&d.json, "findings", '[');
    }
    tell_program(&d);
    ldri_doctor_machine(&d);
    if (cli->n_args > 0) ldri_doctor_source(&d, &o);
    if (d.as_json) {
        ldri_json_close(&d.json);
        ldri_json_uint(&d.json, "notes", d.counts[LDRI_NOTE]);
        ldri_json_uint(&d.json, "warnings", d.counts[LDRI_WARN]);
        ldri_json_bool(&d.json, "can_run", !d.broken);
        ldri_json_close(&d.json);
    }
    return ldri_cmd_stdout_works(1) && !d.broken ? 0 : 1;
}
