/* bad_list.h - bad samples met so far: counts by cause, and the first LDRI_BAD_LIST_MAX of them. */
#ifndef LDR_BAD_LIST_H
#define LDR_BAD_LIST_H

#include <pthread.h>

#include "loader/status.h"

#define LDRI_BAD_LIST_MAX 1000

typedef struct ldri_bad_list {
    pthread_mutex_t lock;
    ldr_bad *entries;              /* under lock; ordered by sample, one per sample */
    size_t n;                      /* under lock */
    uint64_t counts[LDR_N_CAUSES]; /* under lock; every meeting */
} ldri_bad_list;

ldr_status ldri_bad_list_init(ldri_bad_list *l); /* makes all its memory */
void ldri_bad_list_destroy(ldri_bad_list *l);    /* accepts a zeroed list */

/* Any thread.  Of a sample met several times the earliest epoch is kept. */
void ldri_bad_list_add(ldri_bad_list *l, uint64_t sample, uint64_t epoch, const ldri_failure *why);

size_t ldri_bad_list_copy(ldri_bad_list *l, ldr_bad *out,
                          size_t capacity); /* returns how many are recorded */
void ldri_bad_list_counts(ldri_bad_list *l, uint64_t counts[LDR_N_CAUSES]);

#endif
