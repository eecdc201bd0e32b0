/* source_list.c - a list file: lines `path<TAB>label`, comments after '#', empty lines.
 *
 * A label is a class's number, if every label of the file is one, else its name.  Relative paths
 * start at the file's own folder. The order is the file's.  No path is looked at here: a file that
 * is missing is a bad sample when its turn comes. */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/source_table.h"

#define MAX_PATH_BYTES   4095u
#define MAX_CLASS_NUMBER 9999999u /* each number up to the largest gets a name */

typedef struct label { /* node of the tree of distinct labels */
    uint32_t class_id;
    char text[];
} label;

typedef struct reading {
    ldri_source *s;
    const char *shown; /* the list's path, printable */
    uint64_t line;
    void *labels; /* tree */
    ldr_error *err;
} reading;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const label *)a)->text, ((const label *)b)->text);
}

static ldr_status no_memory(reading *r)
{
    return ldri_error_set(r->err, LDR_E_NOMEM, ENOMEM, LDR_NO_SAMPLE,
                          "%s: out of memory for the list of samples", r->shown);
}

static ldr_status wrong_line(reading *r, const char *what)
{
    return ldri_error_set(r->err, LDR_E_FORMAT, 0, LDR_NO_SAMPLE,
                          "%s:%llu: %s: a line is path<TAB>label", r->shown,
                          (unsigned long long)r->line, what);
}

/* The provisional class of a label. */
static ldr_status class_of_label(reading *r, const char *text, size_t n, uint32_t *class_id)
{
    label *fresh = malloc(sizeof *fresh + n + 1);
    if (!fresh) return no_memory(r);
    memcpy(fresh->text, text, n);
    fresh->text[n] = 0;
    label **found = tsearch(fresh, &r->labels, by_text);
    if (!found) {
        free(fresh);
        return no_memory(r);
    }
    if (*found != fresh) {
        *class_id = (*found)->class_id;
        free(fresh);
        return LDR_OK;
    }
    if (ldri_table_add_class(r->s, text, n, class_id) < 0) return no_memory(r);
    fresh->class_id = *class_id;
    return LDR_OK;
}

static ldr_status read_line(reading *r, char *text, size_t n)
{
    if (memchr(text, 0, n)) return wrong_line(r, "not text");
    if (r->line == 1 && n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
        text += 3;
        n -= 3;
    }
    if (n && text[n - 1] == '\n') n--;
    if (n && text[n - 1] == '\r') n--;
    if (n == 0 || text[0] == '#') return LDR_OK;
    const char *tab = memrchr(text, '\t', n);
    if (!tab) return wrong_line(r, "no tab");
    size_t path_bytes = (size_t)(tab - text), label_bytes = n - path_bytes - 1;
    if (path_bytes == 0) return wrong_line(r, "no path");
    if (label_bytes == 0) return wrong_line(r, "no label");
    if (path_bytes > MAX_PATH_BYTES) return wrong_line(r, "a path of more than 4095 bytes");
    uint32_t class_id;
    ldr_status s = class_of_label(r, tab + 1, label_bytes, &class_id);
    if (s < 0) return s;
    if (ldri_table_add(r->s, "", 0, text, path_bytes, class_id) < 0) return no_memory(r);
    return LDR_OK;
}

/* The number a label stands for, or -1. */
static int64_t number_of(const char *text)
{
    int64_t n = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || c - text > 9) return -1;
        n = n * 10 + (*c - '0');
    }
    return *text ? n : -1;
}

/* Numbers are classes themselves: class k is named by k, whether a sample has it or not. */
static ldr_status use_numbers(reading *r)
{
    ldri_source *s = r->s;
    uint32_t *number = malloc(s->n_classes * sizeof *number);
    if (!number) return no_memory(r);
    uint32_t largest = 0;
    ldr_status status = LDR_E_LIMIT;
    for (size_t i = 0; i < s->n_classes; i++) {
        const char *text = s->class_names + s->classes[i].name_at;
        int64_t n = number_of(text);
        if (n > MAX_CLASS_NUMBER) {
            ldri_error_set(r->err, status, 0, LDR_NO_SAMPLE,
                           "%s: label %s is above %u: number the classes from 0", r->shown, text,
                           MAX_CLASS_NUMBER);
            goto free_number;
        }
        number[i] = (uint32_t)n;
        if (number[i] > largest) largest = number[i];
    }
    for (size_t i = 0; i < s->n_samples; i++) s->class_of[i] = number[s->class_of[i]];
    s->n_classes = s->class_names_used = 0;
    for (uint32_t k = 0; k <= largest; k++) {
        char name[16];
        uint32_t id;
        int n = snprintf(name, sizeof name, "%u", k);
        status = ldri_table_add_class(s, name, (size_t)n, &id);
        if (status < 0) {
            no_memory(r);
            goto free_number;
        }
    }
    for (size_t i = 0; i < s->n_samples; i++) s->classes[s->class_of[i]].n_samples++;
free_number:
    free(number);
    return status;
}

static ldr_status finish_classes(reading *r, ldr_order order)
{
    for (size_t i = 0; i < r->s->n_classes; i++) {
        if (number_of(r->s->class_names + r->s->classes[i].name_at) < 0) {
            return ldri_table_number_classes(r->s, order) < 0 ? no_memory(r) : LDR_OK;
        }
    }
    return use_numbers(r);
}

static ldr_status read_lines(reading *r, FILE *f)
{
    char *text = NULL;
    size_t capacity = 0;
    ldr_status s = LDR_OK;
    while (s >= 0) {
        errno = 0;
        ssize_t n = getline(&text, &capacity, f);
        if (n < 0) {
            if (errno == ENOMEM) {
                s = no_memory(r);
            } else if (ferror(f)) {
                s = ldri_error_set(r->err, LDR_E_IO, errno, LDR_NO_SAMPLE, "%s: %s", r->shown,
                                   strerror(errno));
            }
            break;
        }
        r->line++;
        s = read_line(r, text, (size_t)n);
    }
    free(text);
    if (s >= 0 && r->s->n_samples == 0) {
        s = ldri_error_set(r->err, LDR_E_IO, 0, LDR_NO_SAMPLE,
                           "%s: no sample in this list: write lines path<TAB>label", r->shown);
    }
    return s;
}

/* The folder that the list lies in becomes the root. */
static ldr_status open_root(reading *r)
{
    ldri_source *s = r->s;
    char *slash = strrchr(s->root, '/');
    if (!slash) {
        strcpy(s->root, "."); /* a file's name has a byte or more */
    } else {
        slash[slash == s->root] = 0;
    }
    s->root_fd = open(s->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd >= 0) return LDR_OK;
    return ldri_error_set(r->err, LDR_E_IO, errno, LDR_NO_SAMPLE, "%s: cannot open its folder: %s",
                          r->shown, strerror(errno));
}

ldr_status ldri_source_list_file(ldri_source *s, const ldr_options *o, ldr_error *err)
{
    char shown[300];
    reading r = {.s = s, .shown = ldri_printable_path(shown, sizeof shown, o->source), .err = err};
    FILE *f = fopen(o->source, "re");
    if (!f) {
        return ldri_error_set(err, LDR_E_IO, errno, LDR_NO_SAMPLE,
                              "%s: %s: check the list's permissions", shown, strerror(errno));
    }
    ldr_status status = read_lines(&r, f);
    fclose(f); /* it was only read */
    if (status >= 0) status = finish_classes(&r, o->class_order);
    tdestroy(r.labels, free);
    if (status < 0) return status;
    ldri_table_shrink(s);
    return open_root(&r);
}
