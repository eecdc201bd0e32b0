/* source_table.h - the table behind source.h while it is being filled.  For the source_*.c files.
 *
 * All paths lie in one block, NUL-terminated, one after the other; a sample is an offset into it
 * and a class.  That is 13 bytes and the path for each sample. */
#ifndef LDR_SOURCE_TABLE_H
#define LDR_SOURCE_TABLE_H

#include "loader/source.h"

typedef struct ldri_class {
    size_t name_at; /* in class_names */
    uint64_t n_samples;
} ldri_class;

struct ldri_source {
    char *root;
    int root_fd;
    char *paths;
    size_t paths_used, paths_capacity;
    uint64_t *path_at; /* [n_samples] */
    uint32_t *class_of;
    size_t n_samples, path_at_capacity, class_of_capacity;
    char *class_names;
    size_t class_names_used, class_names_capacity;
    ldri_class *classes;
    size_t n_classes, classes_capacity;
    ldri_source_counts counts;
};

/* Makes room for `need` items of item_bytes each, growing by half.  Returns the block, which may
 * have moved, or NULL (out of memory; the old block stays). */
void *ldri_table_reserve(void *block, size_t *capacity, size_t need, size_t item_bytes);

/* Class ids are given in order of the calls and are provisional until ldri_table_finish. */
ldr_status ldri_table_add_class(ldri_source *s, const char *name, size_t length,
                                uint32_t *class_id);
/* Adds the path prefix + name. */
ldr_status ldri_table_add(ldri_source *s, const char *prefix, size_t prefix_length,
                          const char *name, size_t name_length, uint32_t class_id);

/* Drops classes without samples and numbers the others in order of their names. */
ldr_status ldri_table_number_classes(ldri_source *s, ldr_order order);
void ldri_table_shrink(ldri_source *s); /* gives unused memory back */

/* Numbers the classes, sorts the samples by
 * path unless they are known to be sorted by bytes and that is what is asked for, and gives unused
 * memory back. */
ldr_status ldri_table_finish(ldri_source *s, ldr_order order, int sorted_by_bytes);

/* timm's natural_key: runs of ASCII digits compare as integers of any length, other bytes as
 * lower-case ASCII, a text that ends (or meets digits) before the other goes first; ties by bytes.
 */
int ldri_natural_compare(const char *a, const char *b);

/* Fills the table from the directory o->source.  source_dir.c */
ldr_status ldri_source_list_directory(ldri_source *s, const ldr_options *o, ldr_error *err);

/* Fills it from the list file o->source.  source_list.c */
ldr_status ldri_source_list_file(ldri_source *s, const ldr_options *o, ldr_error *err);

#endif
