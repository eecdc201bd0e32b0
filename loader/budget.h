/* budget.h - decode_limit: memory that all workers together may take for the pictures they are at.
 *
 * DESIGN.  Each worker has a hold on the budget: bytes of the file, of the decoder's working
 * memory, and of a crop that found no room in its arena.  Who asks for more than is free waits, and
 * while anybody waits nobody overtakes: turns are given in the order of asking, so a huge picture
 * is not starved by small ones.  Who waits holds nothing, so a wait cannot be a deadlock: the
 * others finish their pictures and give back.  A worker that finds, after reading a header, that it
 * needs more tries to grow its hold; if that does not work at once it lets go of everything, waits
 * for the whole, and begins its picture again. */
#ifndef LDR_BUDGET_H
#define LDR_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>

#include "loader/queue.h"

typedef struct ldri_budget {
    uint64_t limit;
    const _Atomic int *stop; /* ends waits when it is set; whoever sets it signals `event` */
    ldri_event event;
    int lock_made;
    pthread_mutex_t lock;
    uint64_t used;                 /* under lock */
    uint64_t next_ticket, serving; /* under lock; equal: nobody waits */
} ldri_budget;

typedef struct ldri_hold { /* one worker's; zero bytes to begin with */
    ldri_budget *budget;
    uint64_t bytes;
} ldri_hold;

ldr_status ldri_budget_init(ldri_budget *b, uint64_t limit, const _Atomic int *stop);
void ldri_budget_destroy(ldri_budget *b); /* accepts a zeroed budget */

/* Lets go, then takes `bytes` (<= limit), waiting for its turn.  0: the loader stops; nothing is
 * held. */
int ldri_hold_set(ldri_hold *h, uint64_t bytes);

/* Raises what is held to `bytes` if that works at once.  0: it does not; the hold is as before. */
int ldri_hold_grow(ldri_hold *h, uint64_t bytes);

void ldri_hold_release(ldri_hold *h);

#endif
