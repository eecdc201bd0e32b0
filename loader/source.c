#include "loader/source_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/log.h"

void *ldri_table_reserve(void *block, size_t *capacity, size_t need, size_t item_bytes)
{
    if (block && need <= *capacity) return block;
    size_t grown = *capacity + *capacity / 2;
    if (grown < need) grown = need;
    if (grown < 64) grown = 64;
    if (grown > SIZE_MAX / item_bytes) return NULL;
    void *moved = realloc(block, grown * item_bytes);
    if (moved) *capacity = grown;
    return moved;
}

ldr_status ldri_table_add_class(ldri_source *s, const char *name, size_t length, uint32_t *class_id)
{
    if (s->n_classes >= UINT32_MAX) return LDR_E_NOMEM;
    ldri_class *classes =
        ldri_table_reserve(s->classes, &s->classes_capacity, s->n_classes + 1, sizeof *classes);
    if (!classes) return LDR_E_NOMEM;
    s->classes = classes;
    char *names = ldri_table_reserve(s->class_names, &s->class_names_capacity,
                                     s->class_names_used + length + 1, 1);
    if (!names) return LDR_E_NOMEM;
    s->class_names = names;
    memcpy(names + s->class_names_used, name, length);
    names[s->class_names_used + length] = 0;
    classes[s->n_classes] = (ldri_class){.name_at = s->class_names_used};
    s->class_names_used += length + 1;
    *class_id = (uint32_t)s->n_classes++;
    return LDR_OK;
}

ldr_status ldri_table_add(ldri_source *s, const char *prefix, size_t prefix_length,
                          const char *name, size_t name_length, uint32_t class_id)
{
    assert(class_id < s->n_classes);
    size_t bytes = prefix_length + name_length + 1;
    if (s->paths_used + bytes > s->paths_capacity) {
        char *paths = ldri_table_reserve(s->paths, &s->paths_capacity, s->paths_used + bytes, 1);
        if (!paths) return LDR_E_NOMEM;
        s->paths = paths;
    }
    if (s->n_samples >= s->path_at_capacity) {
        uint64_t *path_at =
            ldri_table_reserve(s->path_at, &s->path_at_capacity, s->n_samples + 1, sizeof *path_at);
        if (!path_at) return LDR_E_NOMEM;
        s->path_at = path_at;
    }
    if (s->n_samples >= s->class_of_capacity) {
        uint32_t *class_of = ldri_table_reserve(s->class_of, &s->class_of_capacity,
                                                s->n_samples + 1, sizeof *class_of);
        if (!class_of) return LDR_E_NOMEM;
        s->class_of = class_of;
    }
    char *path = s->paths + s->paths_used;
    memcpy(path, prefix, prefix_length);
    memcpy(path + prefix_length, name, name_length);
    path[bytes - 1] = 0;
    s->path_at[s->n_samples] = s->paths_used;
    s->class_of[s->n_samples] = class_id;
    s->n_samples++;
    s->paths_used += bytes;
    s->classes[class_id].n_samples++;
    return LDR_OK;
}

static int is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

int ldri_natural_compare(const char *a, const char *b)
{
    const unsigned char *p = (const unsigned char *)a, *q = (const unsigned char *)b;
    while (*p && *q) {
        if (is_digit(*p) && is_digit(*q)) {
            while (*p == '0') p++;
            while (*q == '0') q++;
            size_t np = 0, nq = 0;
            while (is_digit(p[np])) np++;
            while (is_digit(q[nq])) nq++;
            if (np != nq) return np < nq ? -1 : 1;
            int order = memcmp(p, q, np);
            if (order) return order;
            p += np;
            q += nq;
            continue;
        }
        /* Here one text token ends and the other goes on: the shorter is first. */
        if (is_digit(*p) || is_digit(*q)) return is_digit(*p) ? -1 : 1;
        unsigned char x = *p >= 'A' && *p <= 'Z' ? (unsigned char)(*p + 32) : *p;
        unsigned char y = *q >= 'A' && *q <= 'Z' ? (unsigned char)(*q + 32) : *q;
        if (x != y) return x < y ? -1 : 1;
        p++;
        q++;
    }
    if (*p || *q) return *q ? -1 : 1;
    return strcmp(a, b);
}

typedef struct named { /* something to be sorted by its name */
    const char *name;
    uint32_t id;
} named;

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static int by_natural_key(const void *a, const void *b)
{
    return ldri_natural_compare(((const named *)a)->name, ((const named *)b)->name);
}

ldr_status ldri_table_number_classes(ldri_source *s, ldr_order order)
{
    ldr_status status = LDR_E_NOMEM;
    named *kept = malloc((s->n_classes ? s->n_classes : 1) * sizeof *kept);
    if (!kept) goto done;
    uint32_t *renamed = malloc((s->n_classes ? s->n_classes : 1) * sizeof *renamed);
    if (!renamed) goto free_kept;
    char *names = malloc(s->class_names_used ? s->class_names_used : 1);
    if (!names) goto free_renamed;
    ldri_class *classes = malloc((s->n_classes ? s->n_classes : 1) * sizeof *classes);
    if (!classes) goto free_names;

    size_t n = 0, used = 0;
    for (size_t i = 0; i < s->n_classes; i++) {
        if (!s->classes[i].n_samples) continue;
        kept[n++] = (named){s->class_names + s->classes[i].name_at, (uint32_t)i};
    }
    qsort(kept, n, sizeof *kept, order == LDR_ORDER_NATURAL ? by_natural_key : by_bytes);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strlen(kept[i].name) + 1;
        memcpy(names + used, kept[i].name, bytes);
        classes[i] = (ldri_class){used, s->classes[kept[i].id].n_samples};
        used += bytes;
        renamed[kept[i].id] = (uint32_t)i;
    }
    for (size_t i = 0; i < s->n_samples; i++) s->class_of[i] = renamed[s->class_of[i]];
    free(s->class_names);
    free(s->classes);
    s->class_names_capacity = s->class_names_used;
    s->class_names = names;
    s->class_names_used = used;
    s->classes_capacity = s->n_classes;
    s->classes = classes;
    s->n_classes = n;
    free(renamed);
    free(kept);
    return LDR_OK;

free_names:
    free(names);
free_renamed:
    free(renamed);
free_kept:
    free(kept);
done:
    return status;
}

static ldr_status sort_samples(ldri_source *s, ldr_order order)
{
    if (s->n_samples < 2) return LDR_OK;
    if (s->n_samples > SIZE_MAX / sizeof(named)) return LDR_E_NOMEM;
    named *sorted = malloc(s->n_samples * sizeof *sorted);
    if (!sorted) return LDR_E_NOMEM;
    for (size_t i = 0; i < s->n_samples; i++) {
        sorted[i] = (named){s->paths + s->path_at[i], s->class_of[i]};
    }
    qsort(sorted, s->n_samples, sizeof *sorted,
          order == LDR_ORDER_NATURAL ? by_natural_key : by_bytes);
    for (size_t i = 0; i < s->n_samples; i++) {
        s->path_at[i] = (uint64_t)(sorted[i].name - s->paths);
        s->class_of[i] = sorted[i].id;
    }
    free(sorted);
    return LDR_OK;
}

/* A block that cannot shrink is still good. */
static void *shrink(void *block, size_t *capacity, size_t used, size_t item_bytes)
{
    if (!used || used == *capacity) return block;
    void *moved = realloc(block, used * item_bytes);
    if (!moved) return block;
    *capacity = used;
    return moved;
}

void ldri_table_shrink(ldri_source *s)
{
    s->paths = shrink(s->paths, &s->paths_capacity, s->paths_used, 1);
    s->path_at = shrink(s->path_at, &s->path_at_capacity, s->n_samples, sizeof *s->path_at);
    s->class_of = shrink(s->class_of, &s->class_of_capacity, s->n_samples, sizeof *s->class_of);
    s->class_names = shrink(s->class_names, &s->class_names_capacity, s->class_names_used, 1);
    s->classes = shrink(s->classes, &s->classes_capacity, s->n_classes, sizeof *s->classes);
}

ldr_status ldri_table_finish(ldri_source *s, ldr_order order, int sorted_by_bytes)
{
    ldr_status status = ldri_table_number_classes(s, order);
    if (status < 0) return status;
    if (order != LDR_ORDER_BYTES || !sorted_by_bytes) {
        status = sort_samples(s, order);
        if (status < 0) return status;
    }
    ldri_table_shrink(s);
    return LDR_OK;
}

ldr_status ldri_source_open(ldri_source **out, const ldr_options *o, ldr_error *err)
{
    ldri_source *s = calloc(1, sizeof *s);
    if (!s) {
        return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE,
                              "out of memory for the list of samples");
    }
    s->root_fd = -1;
    ldr_status status = LDR_E_NOMEM;
    s->root = strdup(o->source);
    if (!s->root) {
        ldri_error_set(err, status, 0, LDR_NO_SAMPLE, "out of memory for the list of samples");
        goto close_source;
    }
    /* Every kind of source fills the same table.  What is neither a directory nor a file gets the
     * directory's error. */
    struct stat st;
    int is_file = stat(o->source, &st) == 0 && S_ISREG(st.st_mode);
    status = is_file ? ldri_source_list_file(s, o, err) : ldri_source_list_directory(s, o, err);
    if (status < 0) goto close_source;
    *out = s;
    return LDR_OK;

close_source:
    ldri_source_close(&s);
    return status;
}

void ldri_source_close(ldri_source **source)
{
    if (!source || !*source) return;
    ldri_source *s = *source;
    *source = NULL;
    if (s->root_fd >= 0) close(s->root_fd); /* nothing was written: it cannot fail in earnest */
    free(s->root);
    free(s->paths);
    free(s->path_at);
    free(s->class_of);
    free(s->class_names);
    free(s->classes);
    free(s);
}

void ldri_source_warn(const ldri_source *s, const struct ldri_log *log)
{
    const ldri_source_counts *c = &s->counts;
    char root[200];
    ldri_printable_path(root, sizeof root, s->root);
    if (c->unlistable) {
        ldri_log_line(log, LDR_LOG_WARN, LDRI_LOG_SOURCE,
                      "%s: %llu directories cannot be opened and are left out, the first is %s: "
                      "check permissions",
                      root, (unsigned long long)c->unlistable, c->first_unlistable);
    }
    if (c->too_long) {
        ldri_log_line(log, LDR_LOG_WARN, LDRI_LOG_SOURCE,
                      "%s: %llu paths of more than 4,095 bytes are left out", root,
                      (unsigned long long)c->too_long);
    }
}

uint64_t ldri_source_count(const ldri_source *s)
{
    return s->n_samples;
}

const char *ldri_source_name(const ldri_source *s, uint64_t sample)
{
    assert(sample < s->n_samples);
    return s->paths + s->path_at[sample];
}

uint32_t ldri_source_class(const ldri_source *s, uint64_t sample)
{
    assert(sample < s->n_samples);
    return s->class_of[sample];
}

uint32_t ldri_source_class_count(const ldri_source *s)
{
    return (uint32_t)s->n_classes;
}

const char *ldri_source_class_name(const ldri_source *s, uint32_t class_id)
{
    assert(class_id < s->n_classes);
    return s->class_names + s->classes[class_id].name_at;
}

char *ldri_source_shown_path(const ldri_source *s, uint64_t sample, char *out, size_t capacity)
{
    const char *name = ldri_source_name(s, sample);
    if (name[0] == '/') return ldri_printable_path(out, capacity, name);
    char path[2 * 4096];
    snprintf(path, sizeof path, "%s/%s", s->root, name);
    return ldri_printable_path(out, capacity, path);
}

int ldri_source_root_fd(const ldri_source *s)
{
    return s->root_fd;
}

size_t ldri_source_bytes(const ldri_source *s)
{
    return sizeof *s + strlen(s->root) + 1 + s->paths_capacity +
           s->path_at_capacity * sizeof *s->path_at + s->class_of_capacity * sizeof *s->class_of +
           s->class_names_capacity + s->classes_capacity * sizeof *s->classes;
}

const ldri_source_counts *ldri_source_passed_over(const ldri_source *s)
{
    return &s->counts;
}
