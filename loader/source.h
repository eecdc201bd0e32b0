/* source.h - the list of samples: names and classes, in order.  Read-only after it is made; shared
 * by all threads.
 *
 * What a directory means.  Each directory directly under the source (or link to one) is a class if
 * at least one picture lies below it, at any depth; class folders without pictures get no number
 * and are counted.  Pictures directly in the source make one class, named after the source, if no
 * class folder holds a picture; else they are counted as outside.  Names decide what is a picture
 * (.jpg .jpeg .jpe .jfif .png in any case); nothing but directories is opened.
 *
 * A link with a picture's name is listed if it leads to a regular file or nowhere (then it is a bad
 * sample when its turn comes).  A link to a directory is entered where it stands for a class, below
 * a class only with follow_links; then a directory that has been listed already is not listed again
 * through a link, and neither is the source or a directory that contains it. */
#ifndef LDR_SOURCE_H
#define LDR_SOURCE_H

#include "loader/status.h"

struct ldri_log;
typedef struct ldri_source ldri_source;

typedef struct ldri_source_counts { /* what listing passed over */
    uint64_t hidden;                /* names that begin with a dot */
    uint64_t other;                 /* files without a picture's name */
    uint64_t special;               /* FIFOs, sockets, devices with a picture's name, links to them
                                       too */
    uint64_t directory_links; /* links to directories that were not followed; the first is named */
    uint64_t unlistable;      /* directories that could not be opened; the first is named */
    uint64_t outside;         /* pictures directly in a source that has class folders */
    uint64_t empty_classes;   /* class folders without a picture */
    uint64_t too_long;        /* pictures and directories whose relative path exceeds 4,095 bytes */
    char first_directory_link[256], first_unlistable[256]; /* printable */
} ldri_source_counts;

/* Lists what o->source names.  On failure *err says why (LDR_E_IO: not there, no permission, no
 * images; LDR_E_NOMEM) and *out is untouched.  o must have passed ldri_options_resolve; it is not
 * kept. */
ldr_status ldri_source_open(ldri_source **out, const ldr_options *o, ldr_error *err);
void ldri_source_close(ldri_source **s); /* accepts NULL and *s == NULL */

uint64_t ldri_source_count(const ldri_source *s);
/* sample < count, class_id < class_count (asserted).  Strings live as long as s. */
const char *ldri_source_name(const ldri_source *s,
                             uint64_t sample); /* path relative to the root, NUL-terminated */
uint32_t ldri_source_class(const ldri_source *s, uint64_t sample);
uint32_t ldri_source_class_count(const ldri_source *s);
const char *ldri_source_class_name(const ldri_source *s, uint32_t class_id);
/* Where a sample lies, for a message: root and name, printable, shortened from the left.  Returns
 * out. */
char *ldri_source_shown_path(const ldri_source *s, uint64_t sample, char *out, size_t capacity);
int ldri_source_root_fd(
    const ldri_source *s); /* names are opened relative to it; owned by the source */
size_t ldri_source_bytes(const ldri_source *s); /* memory of the table */
const ldri_source_counts *ldri_source_passed_over(const ldri_source *s);

/* Warnings about what was passed over and may be missed: what could not be opened decides which
 * classes there are. */
void ldri_source_warn(const ldri_source *s, const struct ldri_log *log);

const ldri_source *ldri_source_of(const ldr *ld); /* a loader's own; loader.c */

#endif
