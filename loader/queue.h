/* queue.h - bounded lock-free rings, and the one place where threads sleep.
 *
 * ldri_ring: a bounded ring of pointers for any number of pushers and poppers, with a sequence
 * number per cell (after D. Vyukov's bounded MPMC queue).  Pointers are to objects that live in
 * pools; the ring has at least twice as many cells as there are such objects, so that a push finds
 * its cell taken only while a popper stands between claiming it and releasing it, one lap behind:
 * push then yields and tries again; it never drops and never sleeps for it.  With one popper it
 * cannot happen.  A push passes ownership of the object.
 *
 * ldri_event: where a thread sleeps until something may have changed.  The waiter announces itself,
 * tries again, and only then sleeps; who publishes looks for announced waiters afterwards and wakes
 * only if there are any:
 *
 *     waiter                                                publisher
 *     for (;;) {                                            push(ring, object)  (or set the flag)
 *         if (try()) break;                                 ldri_event_signal(event, 1)
 *         ticket = ldri_event_announce(event);
 *         if (try()) {
 *             ldri_event_retract(event);
 *             break;
 *         }
 *         ldri_event_sleep(event, ticket, deadline_ns);     (retracts; may wake for nothing)
 *     }
 *
 * RULES.  Signal as many as the objects pushed.  signal(1) may wake any one waiter, so every waiter
 * of the event must be able to make use of what was published, and one that was woken tries again
 * before it goes; otherwise signal UINT32_MAX.  Closing is a flag of the owner that is part of
 * try(); after setting it, ldri_event_signal(event, UINT32_MAX).  The owner frees ring and event
 * only after every thread that uses them was joined.
 *
 * A ring with several pushers AND several poppers: a finished push stays hidden while an earlier
 * one is unfinished, and its signal may be spent in vain.  Nothing is lost, because a popper that
 * is awake drains the ring before it sleeps, but another popper may sleep meanwhile.  Rings with
 * one pusher or one popper do not have this.
 *
 * Both types are aligned to cache lines: what contains them comes from aligned_alloc. */
#ifndef LDR_QUEUE_H
#define LDR_QUEUE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/status.h"

#define LDRI_CACHE_LINE 64

typedef struct ldri_ring_cell {
    _Atomic uint64_t sequence;
    void *object;
} ldri_ring_cell;

typedef struct ldri_ring {
    ldri_ring_cell *cells; /* mask + 1, a power of two */
    uint64_t mask;
    _Alignas(LDRI_CACHE_LINE) _Atomic uint64_t push_at; /* free-running */
    _Alignas(LDRI_CACHE_LINE) _Atomic uint64_t pop_at;
    _Alignas(LDRI_CACHE_LINE) char end[LDRI_CACHE_LINE];
} ldri_ring;

/* An empty ring for up to n_objects objects: at least 2 * n_objects cells.  LDR_E_NOMEM: *r is as
 * it was. */
ldr_status ldri_ring_init(ldri_ring *r, size_t n_objects);
void ldri_ring_destroy(ldri_ring *r); /* accepts a zeroed ring; objects are not its business */

/* Any thread.  object != NULL.  Never blocks but for the popper named above. */
void ldri_ring_push(ldri_ring *r, void *object);
/* Any thread, never blocks.  NULL: empty, or the next cell's push is not finished (its pusher has
 * yet to signal). */
void *ldri_ring_pop(ldri_ring *r);

size_t ldri_ring_count(const ldri_ring *r); /* objects in it, about: others push and pop */

typedef struct ldri_event {
    _Alignas(LDRI_CACHE_LINE) _Atomic uint32_t epoch; /* futex word: changes with each wake */
    _Atomic uint32_t waiters;                         /* announced */
} ldri_event;

void ldri_event_init(ldri_event *e);
uint32_t ldri_event_announce(ldri_event *e);
void ldri_event_retract(ldri_event *e);
/* deadline_ns: CLOCK_MONOTONIC, or UINT64_MAX for none.  Returns 0 when woken (or for nothing), 1
 * when the deadline has passed and there was no signal since the ticket.  Keeps errno. */
int ldri_event_sleep(ldri_event *e, uint32_t ticket, uint64_t deadline_ns);
/* Wakes up to n announced waiters.  Without any: one atomic operation and no system call. */
void ldri_event_signal(ldri_event *e, uint32_t n);

uint64_t ldri_now_ns(void); /* CLOCK_MONOTONIC */

#endif
