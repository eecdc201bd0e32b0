#include "loader/arena.h"

#include <assert.h>

/* Only the numbers themselves are shared through `state`; pixels are published by the batch's
 * counter (worker.c, W1).  Relaxed order is enough here. */

void ldri_arena_init(ldri_arena *a, size_t capacity_bytes, size_t final_bytes)
{
    assert(final_bytes % LDRI_ARENA_UNIT == 0);
    assert(capacity_bytes >= LDRI_ARENA_SKEW);
    size_t units = (capacity_bytes - LDRI_ARENA_SKEW) / LDRI_ARENA_UNIT;
    a->capacity = units > UINT32_MAX ? UINT32_MAX : (uint32_t)units;
    a->final = (uint32_t)(final_bytes / LDRI_ARENA_UNIT);
    atomic_init(&a->state, 0);
}

void ldri_arena_reset(ldri_arena *a, uint32_t samples)
{
    assert((uint64_t)samples * a->final <= a->capacity);
    atomic_store_explicit(&a->state, samples, memory_order_relaxed);
}

int ldri_arena_take_crop(ldri_arena *a, size_t bytes, size_t *offset)
{
    uint64_t units = ((uint64_t)bytes + LDRI_ARENA_UNIT - 1) / LDRI_ARENA_UNIT;
    uint64_t old = atomic_load_explicit(&a->state, memory_order_relaxed);
    for (;;) {
        uint64_t used = old >> 32, unsettled = (uint32_t)old;
        assert(unsettled > 0);
        if (units > a->capacity || used + units + unsettled * a->final > a->capacity) return 0;
        if (atomic_compare_exchange_weak_explicit(&a->state, &old, old + (units << 32),
                                                  memory_order_relaxed, memory_order_relaxed)) {
            *offset = (size_t)used * LDRI_ARENA_UNIT + LDRI_ARENA_SKEW;
            return 1;
        }
    }
}

size_t ldri_arena_take_final(ldri_arena *a)
{
    uint64_t add = ((uint64_t)a->final << 32) - 1; /* final more used, one less unsettled */
    uint64_t old = atomic_fetch_add_explicit(&a->state, add, memory_order_relaxed);
    assert((uint32_t)old > 0 && (old >> 32) + a->final <= a->capacity);
    return (size_t)(old >> 32) * LDRI_ARENA_UNIT + LDRI_ARENA_SKEW;
}

void ldri_arena_settle(ldri_arena *a)
{
    uint64_t old = atomic_fetch_sub_explicit(&a->state, 1, memory_order_relaxed);
    assert((uint32_t)old > 0);
    (void)old;
}

size_t ldri_arena_used(const ldri_arena *a)
{
    size_t units = (size_t)(atomic_load_explicit(&a->state, memory_order_relaxed) >> 32);
    return units ? units * LDRI_ARENA_UNIT + LDRI_ARENA_SKEW : 0;
}
