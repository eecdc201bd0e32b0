/* DESIGN
 *
 * THE RING.  push_at and pop_at count claims and run free; position p lives in cell p & mask.  The
 * cell's sequence says whose turn it is:
 *
 *     sequence == p           the pusher that claims p may write the cell
 *     sequence == p + 1       the popper that claims p may read it
 *     sequence == p + cells   released: the pusher of the next lap may write it
 *
 * A claim is a compare-and-swap on push_at or pop_at and orders nothing by itself; all data goes
 * through the sequence (P1/C1 forward, C2/P2 back).  A stale position is harmless: its sequence
 * does not fit, or the compare-and-swap fails.
 *
 * A push never meets a full ring: at most n objects exist, those in the ring are among them, and
 * there are 2n cells or more.  Its cell can still be taken, when a popper of the lap before has
 * claimed it and was stopped before it released it while other poppers went on.  That popper needs
 * the CPU and nothing else, so push yields until it has run.
 *
 * THE EVENT.  Announcing is a read-modify-write (RMW) on `waiters`, and so is the look that
 * signal takes.  One variable has one modification order, so of a waiter's RMW W and a publisher's
 * RMW P one is second:
 *
 *     P second: P reads a count with this waiter in it, so it bumps the epoch and wakes.  W is a
 *               release and P an acquire, and RMWs in between carry the release sequence on, so the
 *               waiter's reading of the ticket, before W, happens before the bump, after P: the
 *               ticket cannot be the new epoch.  Either the kernel compares and refuses to sleep,
 *               or the waiter is in its queue when the wake comes, for the kernel makes comparing
 *               and queueing one step against a wake.
 *     W second: W is an acquire of P's release, so everything before the signal happens before the
 *               waiter's second try, which finds it (or finds that others took it).
 *
 * So no waiter sleeps on what was published before it looked.  The classical form is a plain store
 * or load on each side and a sequentially consistent fence between publishing and looking, and
 * between announcing and trying; RMWs on one variable do the same, cost the same, and are known to
 * ThreadSanitizer, which does not know fences.
 *
 * A pop can answer NULL with finished pushes in the ring when an earlier cell is not finished, or
 * is but its push does not happen before this pop.  Then the RMW of that cell's pusher is second to
 * ours, and it wakes.  So the second try may be any pop.
 *
 * WHO GETS A WAKE.  FUTEX_WAKE is the only thing that can be spent, and the kernel spends it on
 * threads in its queue only: a thread that leaves the queue by a wake returns 0 from the wait, even
 * if its deadline passed or a signal came at the same time, and one that leaves by deadline or
 * signal has spent none.  So a waiter that retracts, that finds the epoch changed, or that gives up
 * cannot swallow a wake meant for a sleeper; it was counted in `waiters`, which at worst makes the
 * publisher call the kernel for nothing.  The other way round, who sleeps now but announced itself
 * after P has found the ring empty after what P published, so if it takes P's wake, none was
 * needed. Those who announced themselves before P are at most as many as P read: waking min(n,
 * waiters) reaches all of them when n does not limit.  A wake that comes late (the publisher was
 * stopped after the bump) can only be one too many.  A woken thread that finds nothing announces
 * itself anew.
 *
 * The epoch is 32 bits: a ticket would repeat after 2^32 wakes while one waiter stands between
 * announcing and sleeping, each a system call; that is a quarter of an hour of nothing else at the
 * least, and then it must hit the one value.
 *
 * Who sleeps where: threads sleep in ldri_event_sleep and nowhere else here.  There is no lock.
 * Stopping is the owner's flag, part of try(), and a signal to all. */
#include "loader/queue.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Tests include this file with LDRI_QUEUE_TEST defined; they stop and delay threads at these. */
#ifdef LDRI_QUEUE_TEST
enum {
    AT_PUSH_READ,     /* position read, its cell not looked at yet */
    AT_PUSH_CLAIMS,   /* it is the cell's turn, about to claim it */
    AT_PUSH_CLAIMED,  /* cell claimed, object not in it yet */
    AT_PUSH_WAITS,    /* the cell is still being released, one lap behind */
    AT_POP_READ,      /* position read, its cell not looked at yet */
    AT_POP_CLAIMS,    /* it is the cell's turn, about to claim it */
    AT_POP_CLAIMED,   /* cell claimed, not released yet */
    AT_TICKET_READ,   /* ticket read, not announced yet */
    AT_ANNOUNCED,     /* announced, second try to come */
    AT_SLEEP,         /* second try failed, about to sleep */
    AT_WOKEN,         /* out of the kernel, still counted as a waiter */
    AT_RETRACT,       /* second try succeeded, still counted as a waiter */
    AT_SIGNAL,        /* published, has not looked for waiters yet */
    AT_SIGNAL_LOOKED, /* saw waiters, epoch not bumped yet */
    AT_SIGNAL_BUMPED, /* epoch bumped, about to call the kernel */
    N_TEST_POINTS
};
extern void (*ldri_queue_test_hook)(int point);
#define TEST_POINT(point) (ldri_queue_test_hook ? ldri_queue_test_hook(point) : (void)0)
#else
#define TEST_POINT(point) ((void)0)
#endif

_Static_assert(sizeof(long) == 8 && sizeof(time_t) == 8,
               "SYS_futex takes two 64-bit words of time");

ldr_status ldri_ring_init(ldri_ring *r, size_t n_objects)
{
    if (n_objects > SIZE_MAX / 4 / sizeof(ldri_ring_cell)) return LDR_E_NOMEM;
    size_t n_cells = LDRI_CACHE_LINE / sizeof(ldri_ring_cell);
    while (n_cells < 2 * n_objects) n_cells *= 2;
    ldri_ring_cell *cells = aligned_alloc(LDRI_CACHE_LINE, n_cells * sizeof *cells);
    if (!cells) return LDR_E_NOMEM;
    for (size_t i = 0; i < n_cells; i++) {
        atomic_init(&cells[i].sequence, i);
        cells[i].object = NULL;
    }
    r->cells = cells;
    r->mask = n_cells - 1;
    atomic_init(&r->push_at, 0);
    atomic_init(&r->pop_at, 0);
    return LDR_OK;
}

void ldri_ring_destroy(ldri_ring *r)
{
    free(r->cells);
    r->cells = NULL;
}

void ldri_ring_push(ldri_ring *r, void *object)
{
    assert(object);
    uint64_t at = atomic_load_explicit(&r->push_at, memory_order_relaxed);
    ldri_ring_cell *cell;
    for (;;) {
        TEST_POINT(AT_PUSH_READ);
        cell = &r->cells[at & r->mask];
        /* P2: acquire; pairs with C2.  The popper of the lap before has read the cell before it is
         * written again. */
        uint64_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        if (sequence == at) {
            TEST_POINT(AT_PUSH_CLAIMS);
            /* Relaxed: a claim hands over no data. */
            if (atomic_compare_exchange_weak_explicit(&r->push_at, &at, at + 1,
                                                      memory_order_relaxed, memory_order_relaxed))
                break;
            continue; /* `at` is now the current value */
        }
        if ((int64_t)(sequence - at) < 0) {
            TEST_POINT(AT_PUSH_WAITS);
            sched_yield();
        }
        at = atomic_load_explicit(&r->push_at, memory_order_relaxed);
    }
    TEST_POINT(AT_PUSH_CLAIMED);
    cell->object = object;
    /* P1: release; pairs with C1.  The cell's content, and the object's, is visible before its
     * sequence. */
    atomic_store_explicit(&cell->sequence, at + 1, memory_order_release);
}

void *ldri_ring_pop(ldri_ring *r)
{
    uint64_t at = atomic_load_explicit(&r->pop_at, memory_order_relaxed);
    ldri_ring_cell *cell;
    for (;;) {
        TEST_POINT(AT_POP_READ);
        cell = &r->cells[at & r->mask];
        /* C1: acquire; pairs with P1.  What the pusher wrote is seen once its sequence is. */
        uint64_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        if (sequence == at + 1) {
            TEST_POINT(AT_POP_CLAIMS);
            /* Relaxed: a claim hands over no data. */
            if (atomic_compare_exchange_weak_explicit(&r->pop_at, &at, at + 1, memory_order_relaxed,
                                                      memory_order_relaxed))
                break;
            continue;
        }
        if ((int64_t)(sequence - (at + 1)) < 0) return NULL;
        at = atomic_load_explicit(&r->pop_at, memory_order_relaxed);
    }
    TEST_POINT(AT_POP_CLAIMED);
    void *object = cell->object;
    /* C2: release; pairs with P2.  The cell was read before the next lap may write it. */
    atomic_store_explicit(&cell->sequence, at + r->mask + 1, memory_order_release);
    return object;
}

size_t ldri_ring_count(const ldri_ring *r)
{
    uint64_t popped = atomic_load_explicit(&r->pop_at, memory_order_relaxed);
    uint64_t pushed = atomic_load_explicit(&r->push_at, memory_order_relaxed);
    return pushed > popped ? (size_t)(pushed - popped) : 0;
}

void ldri_event_init(ldri_event *e)
{
    atomic_init(&e->epoch, 0);
    atomic_init(&e->waiters, 0);
}

uint32_t ldri_event_announce(ldri_event *e)
{
    /* Relaxed, but before E1: the release there keeps it in front of any bump that E2 leads to. */
    uint32_t ticket = atomic_load_explicit(&e->epoch, memory_order_relaxed);
    TEST_POINT(AT_TICKET_READ);
    /* E1: acquire and release; pairs with E2, both ways.  Second to E2 it sees what was published;
     * first, it is seen, and the ticket is older than the bump. */
    uint32_t before = atomic_fetch_add_explicit(&e->waiters, 1, memory_order_acq_rel);
    assert(before != UINT32_MAX);
    (void)before;
    TEST_POINT(AT_ANNOUNCED);
    return ticket;
}

/* Relaxed: who retracts tells nobody anything, and an RMW of any order carries on the release
 * sequences of E1 and E2. */
static void leave(ldri_event *e)
{
    uint32_t before = atomic_fetch_sub_explicit(&e->waiters, 1, memory_order_relaxed);
    assert(before != 0);
    (void)before;
}

void ldri_event_retract(ldri_event *e)
{
    TEST_POINT(AT_RETRACT);
    leave(e);
}

int ldri_event_sleep(ldri_event *e, uint32_t ticket, uint64_t deadline_ns)
{
    TEST_POINT(AT_SLEEP);
    int saved_errno = errno, late = 0;
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                .tv_nsec = (long)(deadline_ns % 1000000000)};
    /* The BITSET form takes an absolute time, of CLOCK_MONOTONIC. */
    if (syscall(SYS_futex, &e->epoch, FUTEX_WAIT_BITSET_PRIVATE, ticket,
                deadline_ns == UINT64_MAX ? NULL : &deadline, NULL, FUTEX_BITSET_MATCH_ANY) < 0) {
        /* EAGAIN: the epoch is no longer the ticket; EINTR: a signal handler ran. */
        assert(errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT);
        late = errno == ETIMEDOUT;
    }
    errno = saved_errno;
    TEST_POINT(AT_WOKEN);
    /* E4: acquire; pairs with E3.  Who was woken sees what the signal was for.  A signal that came
     * together with the deadline counts as a signal. */
    if (atomic_load_explicit(&e->epoch, memory_order_acquire) != ticket) late = 0;
    leave(e);
    return late;
}

void ldri_event_signal(ldri_event *e, uint32_t n)
{
    TEST_POINT(AT_SIGNAL);
    /* E2: acquire and release; pairs with E1, both ways.  An RMW although it changes nothing: a
     * plain load could be served before the publishing store is visible. */
    uint32_t waiters = atomic_fetch_add_explicit(&e->waiters, 0, memory_order_acq_rel);
    if (waiters == 0) return;
    TEST_POINT(AT_SIGNAL_LOOKED);
    /* E3: release; pairs with E4. */
    atomic_fetch_add_explicit(&e->epoch, 1, memory_order_release);
    TEST_POINT(AT_SIGNAL_BUMPED);
    if (n > waiters) n = waiters;
    if (n > INT_MAX) n = INT_MAX;
    /* Cannot fail: the address is good, and it returns how many it woke. */
    syscall(SYS_futex, &e->epoch, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

uint64_t ldri_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
