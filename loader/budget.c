#include "loader/budget.h"

#include <assert.h>

ldr_status ldri_budget_init(ldri_budget *b, uint64_t limit, const _Atomic int *stop)
{
    if (pthread_mutex_init(&b->lock, NULL) != 0) return LDR_E_NOMEM;
    b->lock_made = 1;
    b->limit = limit;
    b->stop = stop;
    ldri_event_init(&b->event);
    return LDR_OK;
}

void ldri_budget_destroy(ldri_budget *b)
{
    if (b->lock_made) pthread_mutex_destroy(&b->lock);
    b->lock_made = 0;
}

/* Takes the bytes if they are free and it is the ticket's turn. */
static int take(ldri_hold *h, uint64_t bytes, uint64_t ticket) /* under the lock */
{
    ldri_budget *b = h->budget;
    if (b->serving != ticket || bytes > b->limit - b->used) return 0;
    b->used += bytes;
    h->bytes += bytes;
    return 1;
}

/* Has a waiter's turn come?  Then the next in line may fit as well. */
static int take_turn(ldri_hold *h, uint64_t bytes, uint64_t ticket)
{
    ldri_budget *b = h->budget;
    pthread_mutex_lock(&b->lock);
    int taken = take(h, bytes, ticket);
    b->serving += (uint64_t)taken;
    int others = b->serving != b->next_ticket;
    pthread_mutex_unlock(&b->lock);
    if (taken && others) ldri_event_signal(&b->event, UINT32_MAX);
    return taken;
}

int ldri_hold_set(ldri_hold *h, uint64_t bytes)
{
    ldri_budget *b = h->budget;
    assert(bytes <= b->limit);
    ldri_hold_release(h);
    pthread_mutex_lock(&b->lock);
    uint64_t ticket = b->next_ticket;
    int taken = take(h, bytes, ticket); /* only if nobody waits */
    b->next_ticket += (uint64_t)!taken;
    pthread_mutex_unlock(&b->lock);
    while (!taken) {
        uint32_t asleep = ldri_event_announce(&b->event);
        taken = take_turn(h, bytes, ticket);
        if (taken || atomic_load_explicit(b->stop, memory_order_acquire)) {
            ldri_event_retract(&b->event);
            return taken; /* a turn that is not taken is never served: everybody stops */
        }
        ldri_event_sleep(&b->event, asleep, UINT64_MAX);
    }
    return 1;
}

int ldri_hold_grow(ldri_hold *h, uint64_t bytes)
{
    if (bytes <= h->bytes) return 1;
    ldri_budget *b = h->budget;
    pthread_mutex_lock(&b->lock);
    int taken = take(h, bytes - h->bytes, b->next_ticket);
    pthread_mutex_unlock(&b->lock);
    return taken;
}

void ldri_hold_release(ldri_hold *h)
{
    if (!h->bytes) return;
    ldri_budget *b = h->budget;
    pthread_mutex_lock(&b->lock);
    assert(b->used >= h->bytes);
    b->used -= h->bytes;
    h->bytes = 0;
    int others = b->serving != b->next_ticket;
    pthread_mutex_unlock(&b->lock);
    if (others) ldri_event_signal(&b->event, UINT32_MAX);
}
