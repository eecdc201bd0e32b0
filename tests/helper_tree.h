/* helper_tree.h - small directories of pictures for tests of the whole loader. */
#ifndef LDR_HELPER_TREE_H
#define LDR_HELPER_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/loader.h"

/* A new directory with `classes` class folders c00, c01, ... of `each` pictures 000.jpg, 001.png,
 * ...: JPEGs of several kinds and PNGs, between 40 and 160 pixels a side.  The caller frees the
 * name after helper_remove_tree. */
char *helper_tree(uint32_t classes, uint32_t each);

/* Adds root/name: file `kind` of helper_bad_kinds. */
extern const char *const helper_bad_kinds[];
extern const size_t helper_n_bad_kinds;
void helper_bad_file(const char *root, const char *name, const char *kind);

/* 64-bit FNV-1a, to go on with. */
#define HELPER_FNV_START 14695981039346656037u
uint64_t helper_fnv(uint64_t hash, const void *bytes, size_t n);

size_t helper_image_bytes(const ldr_batch *b);

/* Digest of everything in a batch. */
uint64_t helper_batch_digest(const ldr_batch *b);

/* Opens with the options, digests every batch of every epoch, closes.  Fails the running test on
 * any error. */
uint64_t helper_run_digest(const ldr_options *o);

#endif
