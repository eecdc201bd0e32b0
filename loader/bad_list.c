#include "loader/bad_list.h"

#include <stdlib.h>
#include <string.h>

ldr_status ldri_bad_list_init(ldri_bad_list *l)
{
    ldr_bad *entries = calloc(LDRI_BAD_LIST_MAX, sizeof *entries);
    if (!entries) return LDR_E_NOMEM;
    if (pthread_mutex_init(&l->lock, NULL) != 0) {
        free(entries);
        return LDR_E_NOMEM;
    }
    l->entries = entries;
    return LDR_OK;
}

void ldri_bad_list_destroy(ldri_bad_list *l)
{
    if (!l->entries) return;
    pthread_mutex_destroy(&l->lock); /* cannot fail: nobody holds it */
    free(l->entries);
    l->entries = NULL;
}

void ldri_bad_list_add(ldri_bad_list *l, uint64_t sample, uint64_t epoch, const ldri_failure *why)
{
    pthread_mutex_lock(&l->lock);
    l->counts[why->cause]++;
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (l->entries[middle].sample < sample) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    ldr_bad *e = &l->entries[low];
    int known = low < l->n && e->sample == sample;
    int keep = known ? epoch < e->epoch : l->n < LDRI_BAD_LIST_MAX;
    if (keep && !known) {
        memmove(e + 1, e, (l->n - low) * sizeof *e);
        l->n++;
    }
    if (keep) {
        e->sample = sample;
        e->epoch = epoch;
        e->cause = why->cause;
        e->status = why->status;
        memcpy(e->message, why->text, sizeof e->message);
    }
    pthread_mutex_unlock(&l->lock);
}

size_t ldri_bad_list_copy(ldri_bad_list *l, ldr_bad *out, size_t capacity)
{
    pthread_mutex_lock(&l->lock);
    size_t n = l->n;
    if (out) memcpy(out, l->entries, (n < capacity ? n : capacity) * sizeof *out);
    pthread_mutex_unlock(&l->lock);
    return n;
}

void ldri_bad_list_counts(ldri_bad_list *l, uint64_t counts[LDR_N_CAUSES])
{
    pthread_mutex_lock(&l->lock);
    memcpy(counts, l->counts, sizeof l->counts);
    pthread_mutex_unlock(&l->lock);
}
