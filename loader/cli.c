#include "loader/cli.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/status.h"

/* Numbers are read and written with the C library's functions: nothing in the program may call
 * setlocale, which would change the decimal point. */

#define HELP_COLUMN 24 /* where an option's text begins */

/* --- values ---------------------------------------------------------------------------------- */

/* Decimal digits and nothing else. */
static int parse_u64(const char *text, size_t n, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (n == 0) return 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        if (__builtin_mul_overflow(value, 10, &value)) return 0;
        if (__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) return 0;
    }
    if (value > max) return 0;
    *out = value;
    return 1;
}

static int parse_bytes(const char *text, uint64_t *out)
{
    size_t n = strlen(text);
    unsigned shift = 0;
    switch (n > 0 ? text[n - 1] : 0) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    }
    if (!parse_u64(text, n - (shift > 0), SIZE_MAX >> shift, out)) return 0;
    *out <<= shift;
    return 1;
}

/* The decimal notation of strtod, without its infinities, hexadecimals and leading blanks. */
static int parse_real(const char *text, size_t n, int single, double *out)
{
    char copy[64];
    if (n == 0 || n >= sizeof copy) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!strchr("0123456789+-.eE", text[i])) return 0;
    }
    memcpy(copy, text, n);
    copy[n] = 0;
    char *end;
    *out = single ? strtof(copy, &end) : strtod(copy, &end);
    return *end == 0 && isfinite(*out);
}

static int parse_floats(const char *text, unsigned n_values, float *out)
{
    for (unsigned i = 0; i < n_values; i++) {
        size_t n = strcspn(text, ",");
        double value;
        if (!parse_real(text, n, 1, &value)) return 0;
        out[i] = (float)value;
        text += n;
        if (i + 1 < n_values && *text++ != ',') return 0;
    }
    return *text == 0;
}

static int parse_wholes(const char *text, unsigned n_values, uint32_t *out)
{
    for (unsigned i = 0; i < n_values; i++) {
        size_t n = strcspn(text, ",");
        uint64_t value;
        if (!parse_u64(text, n, UINT32_MAX, &value)) return 0;
        out[i] = (uint32_t)value;
        text += n;
        if (i + 1 < n_values && *text++ != ',') return 0;
    }
    return *text == 0;
}

/* "a, b or c" */
static void join_choices(char *out, size_t capacity, const char *const *choices)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; choices[i] && at < capacity; i++) {
        const char *before = i == 0 ? "" : choices[i + 1] ? ", " : " or ";
        at += (size_t)snprintf(out + at, capacity - at, "%s%s", before, choices[i]);
    }
}

static ldr_status refuse(const ldri_cli_option *o, const char *wanted, const char *text,
                         ldr_error *err)
{
    return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "--%s wants %s, not '%s'", o->name,
                          wanted, text);
}

static ldr_status apply(ldri_cli *cli, const ldri_cli_option *o, const char *text, ldr_error *err)
{
    unsigned char *field = (unsigned char *)cli + o->offset;
    unsigned n_targets = o->n_targets ? o->n_targets : 1;
    char wanted[128];
    uint64_t whole = 0;
    switch (o->kind) {
    case LDRI_CLI_CHOICE:
        for (unsigned i = 0; o->choices[i]; i++) {
            if (strcmp(text, o->choices[i]) == 0) {
                memcpy(field, &i, sizeof i);
                return LDR_OK;
            }
        }
        join_choices(wanted, sizeof wanted, o->choices);
        return refuse(o, wanted, text, err);
    case LDRI_CLI_SWITCH:
        if (!parse_u64(text, strlen(text), 1, &whole)) return refuse(o, "0 or 1", text, err);
        memcpy(field, &(uint32_t){(uint32_t)whole}, sizeof(uint32_t));
        return LDR_OK;
    case LDRI_CLI_U32:
        if (o->n_values > 1) {
            uint32_t values[2];
            assert(o->n_values == 2);
            if (!parse_wholes(text, 2, values)) {
                return refuse(o, "two whole numbers as in 1,3", text, err);
            }
            memcpy(field, values, sizeof values);
            return LDR_OK;
        }
        if (!parse_u64(text, strlen(text), UINT32_MAX, &whole)) {
            return refuse(o, "a whole number from 0 to 4294967295", text, err);
        }
        for (unsigned i = 0; i < n_targets; i++) {
            memcpy(field + i * sizeof(uint32_t), &(uint32_t){(uint32_t)whole}, sizeof(uint32_t));
        }
        return LDR_OK;
    case LDRI_CLI_I32: {
        int negative = text[0] == '-';
        if (!parse_u64(text + negative, strlen(text + negative), INT32_MAX, &whole)) {
            return refuse(o, "a whole number up to 2147483647", text, err);
        }
        int32_t value = negative ? -(int32_t)whole : (int32_t)whole;
        memcpy(field, &value, sizeof value);
        return LDR_OK;
    }
    case LDRI_CLI_U64:
        if (!parse_u64(text, strlen(text), UINT64_MAX, &whole)) {
            return refuse(o, "a whole number from 0 to 18446744073709551615", text, err);
        }
        memcpy(field, &whole, sizeof whole);
        return LDR_OK;
    case LDRI_CLI_BYTES:
        if (!parse_bytes(text, &whole)) {
            return refuse(o, "a number of bytes, as in 4096, 64k, 512M or 2G", text, err);
        }
        memcpy(field, &(size_t){(size_t)whole}, sizeof(size_t));
        return LDR_OK;
    case LDRI_CLI_F32: {
        float values[3];
        assert(o->n_values <= 3);
        if (!parse_floats(text, o->n_values, values)) {
            snprintf(wanted, sizeof wanted, "%s",
                     o->n_values == 1   ? "a number"
                     : o->n_values == 2 ? "two numbers as in 0.5,1"
                                        : "three numbers as in 0.5,0.5,0.5");
            return refuse(o, wanted, text, err);
        }
        memcpy(field, values, o->n_values * sizeof(float));
        return LDR_OK;
    }
    case LDRI_CLI_F64: {
        double value;
        if (!parse_real(text, strlen(text), 0, &value)) return refuse(o, "a number", text, err);
        memcpy(field, &value, sizeof value);
        return LDR_OK;
    }
    case LDRI_CLI_FLAG:
        memcpy(field, &(uint32_t){1}, sizeof(uint32_t));
        return LDR_OK;
    case LDRI_CLI_TEXT:
        memcpy(field, &text, sizeof text);
        return LDR_OK;
    }
    assert(!"a kind of option");
    return LDR_E_INTERNAL;
}

/* --- words ----------------------------------------------------------------------------------- */

/* Edits (insert, delete, change, swap neighbours) from a to b; both shorter than 32 bytes. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t d[33][33];
    size_t n = strlen(a), m = strlen(b);
    assert(n <= 32 && m <= 32);
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best) {
                best = d[i - 2][j - 2] + 1;
            }
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *ldri_cli_nearest(const char *word, const char *const *names, size_t n)
{
    size_t length = strlen(word), limit = length < 6 ? 1 : 2, best = limit + 1;
    const char *nearest = NULL;
    if (length > 32) return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t distance = edit_distance(word, names[i]);
        if (length >= 3 && strncmp(word, names[i], length) == 0) distance = 1;
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

static ldr_status unknown_option(const ldri_cli_verb *verb, const char *dashes, const char *name,
                                 size_t n, ldr_error *err)
{
    char word[40] = "";
    const char *names[64], *near = NULL;
    size_t n_names = 0;
    for (const ldri_cli_option *o = ldri_cli_options; o->name; o++) {
        assert(n_names < sizeof names / sizeof names[0]);
        if (o->verbs & verb->bit) names[n_names++] = o->name;
    }
    if (n < sizeof word) {
        memcpy(word, name, n);
        word[n] = 0;
        near = ldri_cli_nearest(word, names, n_names);
    }
    return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                          "unknown option %s%.*s: %s%s%s`ldr %s --help` lists them", dashes, (int)n,
                          name, near ? "did you mean --" : "", near ? near : "", near ? "? " : "",
                          verb->name);
}

static ldr_status find_option(const ldri_cli_verb *verb, const char *name, size_t n,
                              const ldri_cli_option **out, ldr_error *err)
{
    for (const ldri_cli_option *o = ldri_cli_options; o->name; o++) {
        if (strlen(o->name) != n || memcmp(o->name, name, n) != 0) continue;
        if (!(o->verbs & verb->bit)) {
            return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                                  "`ldr %s` has no option --%s", verb->name, o->name);
        }
        *out = o;
        return LDR_OK;
    }
    return unknown_option(verb, "--", name, n, err);
}

static ldr_status find_letter(const ldri_cli_verb *verb, const char *word,
                              const ldri_cli_option **out, ldr_error *err)
{
    for (const ldri_cli_option *o = ldri_cli_options; o->name; o++) {
        if (o->letter && o->letter == word[1] && (o->verbs & verb->bit)) {
            *out = o;
            return LDR_OK;
        }
    }
    return unknown_option(verb, "", word, strlen(word), err);
}

static ldr_status take_argument(ldri_cli *cli, const ldri_cli_verb *verb, const char *word,
                                ldr_error *err)
{
    if (cli->n_args == 2 || !verb->arguments[cli->n_args]) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "unexpected argument '%s': usage: ldr %s %s%s%s [options]", word,
                              verb->name, verb->arguments[0], verb->arguments[1] ? " " : "",
                              verb->arguments[1] ? verb->arguments[1] : "");
    }
    cli->args[cli->n_args++] = word;
    return LDR_OK;
}

/* One pass over the words.  Presets are applied in the first, all other options in the second, so
 * that an explicit option wins over a preset that stands behind it. */
static ldr_status walk(ldri_cli *cli, const ldri_cli_verb *verb, int argc, char *const argv[],
                       int early, ldr_error *err)
{
    int options_ended = 0;
    ldr_status s = LDR_OK;
    cli->n_args = 0;
    for (int i = 0; i < argc && s == LDR_OK; i++) {
        const char *word = argv[i], *value = NULL;
        const ldri_cli_option *o = NULL;
        if (options_ended || word[0] != '-' || word[1] == 0) {
            s = take_argument(cli, verb, word, err);
            continue;
        }
        if (strcmp(word, "--") == 0) {
            options_ended = 1;
            continue;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            cli->help = 1;
            return LDR_OK;
        }
        if (word[1] == '-') {
            size_t n = strcspn(word + 2, "=");
            s = find_option(verb, word + 2, n, &o, err);
            if (word[2 + n] == '=') value = word + 2 + n + 1;
        } else {
            s = find_letter(verb, word, &o, err);
            if (word[2] != 0) value = word + 2;
        }
        if (s < 0) break;
        if (o->kind == LDRI_CLI_FLAG && value) {
            return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "--%s takes no value",
                                  o->name);
        }
        if (o->kind != LDRI_CLI_FLAG && !value) {
            if (i + 1 == argc) {
                return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "--%s wants a value",
                                      o->name);
            }
            value = argv[++i];
        }
        if (o->early == early) s = apply(cli, o, value, err);
    }
    return s;
}

ldr_status ldri_cli_parse(ldri_cli *cli, const ldri_cli_verb *verb, int argc, char *const argv[],
                          ldr_error *err)
{
    ldri_cli_defaults(cli);
    ldr_status s = walk(cli, verb, argc, argv, 1, err);
    if (s < 0 || cli->help) return s;
    if (cli->options.view != LDR_VIEW_TRAIN) { /* the defaults are train's */
        ldr_options plain;
        ldr_options_init(&plain);
        cli->options.filter = plain.filter;
        cli->options.hflip = plain.hflip;
        cli->options.vflip = plain.vflip;
    }
    s = walk(cli, verb, argc, argv, 0, err);
    if (s < 0) return s;
    const char *missing = cli->n_args < 2 ? verb->arguments[cli->n_args] : NULL;
    if (missing && missing[0] != '[') {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "`ldr %s` wants %s: `ldr %s --help` tells how", verb->name, missing,
                              verb->name);
    }
    if (verb->bit == LDRI_VERB_PREVIEW && !cli->output) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "`ldr preview` wants -o PATH: where to write the PNG");
    }
    return LDR_OK;
}

/* --- help ------------------------------------------------------------------------------------ */

static void format_float(char *out, size_t capacity, float value)
{
    for (int digits = 1; digits <= 9; digits++) { /* the shortest that reads back */
        snprintf(out, capacity, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value) return;
    }
}

static void format_default(char *out, size_t capacity, const ldri_cli *cli,
                           const ldri_cli_option *o)
{
    const void *field = (const unsigned char *)cli + o->offset;
    out[0] = 0;
    switch (o->kind) {
    case LDRI_CLI_CHOICE: {
        unsigned i;
        memcpy(&i, field, sizeof i);
        snprintf(out, capacity, " [%s]", o->choices[i]);
        return;
    }
    case LDRI_CLI_U32:
        if (o->n_values > 1) {
            const uint32_t *values = field;
            snprintf(out, capacity, " [%" PRIu32 ",%" PRIu32 "]", values[0], values[1]);
            return;
        }
        /* fall through */
    case LDRI_CLI_SWITCH:
        snprintf(out, capacity, " [%" PRIu32 "]", *(const uint32_t *)field);
        return;
    case LDRI_CLI_I32:
        snprintf(out, capacity, " [%" PRId32 "]", *(const int32_t *)field);
        return;
    case LDRI_CLI_U64:
        snprintf(out, capacity, " [%" PRIu64 "]", *(const uint64_t *)field);
        return;
    case LDRI_CLI_BYTES: {
        size_t value = *(const size_t *)field;
        unsigned unit = 0;
        while (unit < 3 && value > 0 && value % 1024 == 0) {
            value /= 1024;
            unit++;
        }
        snprintf(out, capacity, " [%zu%.*s]", value, unit > 0, &"kMG"[unit > 0 ? unit - 1 : 0]);
        return;
    }
    case LDRI_CLI_F32: {
        char number[3][24];
        for (unsigned i = 0; i < o->n_values; i++) {
            format_float(number[i], sizeof number[i], ((const float *)field)[i]);
        }
        snprintf(out, capacity, " [%s%s%s%s%s]", number[0], o->n_values > 1 ? "," : "",
                 o->n_values > 1 ? number[1] : "", o->n_values > 2 ? "," : "",
                 o->n_values > 2 ? number[2] : "");
        return;
    }
    case LDRI_CLI_F64:
        snprintf(out, capacity, " [%.15g]", *(const double *)field);
        return;
    case LDRI_CLI_FLAG:
    case LDRI_CLI_TEXT:
        return;
    }
}

static const char *value_word(const ldri_cli_option *o)
{
    switch (o->kind) {
    case LDRI_CLI_CHOICE:
        return " WORD";
    case LDRI_CLI_U32:
        return o->n_values > 1 ? " N,N" : " N";
    case LDRI_CLI_I32:
    case LDRI_CLI_U64:
        return " N";
    case LDRI_CLI_BYTES:
        return " BYTES";
    case LDRI_CLI_F32:
        return o->n_values == 1 ? " X" : o->n_values == 2 ? " X,X" : " X,X,X";
    case LDRI_CLI_F64:
        return " X";
    case LDRI_CLI_SWITCH:
        return " 0|1";
    case LDRI_CLI_FLAG:
        return "";
    case LDRI_CLI_TEXT:
        return " PATH";
    }
    return "";
}

static void help_option(FILE *f, const ldri_cli *defaults, const ldri_cli_option *o)
{
    char shown[64], initial[80], choices[80] = "", letter[8] = "";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(shown, sizeof shown, "  %s--%s%s", letter, o->name, value_word(o));
    format_default(initial, sizeof initial, defaults, o);
    if (o->choices) {
        size_t at = (size_t)snprintf(choices, sizeof choices, ": ");
        for (size_t i = 0; o->choices[i]; i++) {
            at += (size_t)snprintf(choices + at, sizeof choices - at, "%s%s", i ? "|" : "",
                                   o->choices[i]);
        }
    }
    fprintf(f, "%-*s%s%s%s\n", HELP_COLUMN, shown, o->help, choices, initial);
}

void ldri_cli_help_verb(FILE *f, const ldri_cli_verb *verb)
{
    ldri_cli defaults;
    unsigned n_all = 0, n_shown = 0;
    ldri_cli_defaults(&defaults);
    for (const ldri_cli_option *o = ldri_cli_options; o->name; o++)
        n_all += !!(o->verbs & verb->bit);

    fprintf(f, "usage: ldr %s %s%s%s%s [options]\n\n%s\n\n", verb->name, verb->arguments[0],
            verb->arguments[1] ? " " : "", verb->arguments[1] ? verb->arguments[1] : "",
            verb->bit == LDRI_VERB_PREVIEW ? " -o PATH" : "", verb->about);
    for (const ldri_cli_option *o = ldri_cli_options; o->name; o++) {
        if (!(o->verbs & verb->bit) || (n_all > 8 && !o->essential)) continue;
        help_option(f, &defaults, o);
        n_shown++;
    }
    if (n_shown < n_all) fprintf(f, "\n`ldr help options` lists the other %u.\n", n_all - n_shown);
}

void ldri_cli_help_options(FILE *f)
{
    ldri_cli defaults;
    ldri_cli_defaults(&defaults);
    fprintf(f, "Options of run, verify, plan, preview and bench (decode, doctor: some of them),\n"
               "with their defaults.  `--name value` or `--name=value`; `--` ends options.\n\n");
    for (const ldri_cli_option *o = ldri_cli_options; o->name; o++) help_option(f, &defaults, o);
}
