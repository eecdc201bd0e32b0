#include "loader/cmd.h"

#include <assert.h>

void ldri_cmd_waits_add(ldri_cmd_waits *w, uint64_t ns)
{
    size_t cell = (size_t)ns;
    if (ns >= 256) {
        unsigned power = 63 - (unsigned)__builtin_clzll(ns); /* 2^power <= ns */
        cell = 256 + (size_t)(power - 8) * 128 + (size_t)(ns >> (power - 7) & 127);
    }
    assert(cell < LDRI_WAIT_CELLS);
    w->cells[cell]++;
    w->n++;
    w->total_ns += ns;
    if (ns > w->max_ns) w->max_ns = ns;
}

/* The nearest rank: the smallest duration that `share` of all do not exceed, rounded up to its
 * cell's last value. */
uint64_t ldri_cmd_waits_percentile(const ldri_cmd_waits *w, double share)
{
    uint64_t below = 0, last = 0;
    for (size_t cell = 0; cell < LDRI_WAIT_CELLS; cell++) {
        below += w->cells[cell];
        if (below == 0 || (double)below < share * (double)w->n) continue;
        last = cell;
        if (cell >= 256) {
            unsigned power = 8 + (unsigned)(cell - 256) / 128;
            last = ((uint64_t)1 << power) + ((uint64_t)((cell - 256) % 128 + 1) << (power - 7)) - 1;
        }
        break;
    }
    return last < w->max_ns ? last : w->max_ns;
}
