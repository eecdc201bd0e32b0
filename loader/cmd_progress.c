#include "loader/cmd.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "loader/queue.h"

#define BAR_WIDTH   24
#define INTERVAL_NS 100000000u

void ldri_cmd_progress_start(ldri_cmd_progress *p, uint64_t batches_per_epoch, uint64_t epochs)
{
    memset(p, 0, sizeof *p);
    p->on = isatty(STDERR_FILENO);
    p->start_ns = ldri_now_ns();
    p->batches_per_epoch = batches_per_epoch;
    p->epochs = epochs;
}

void ldri_cmd_progress_draw(ldri_cmd_progress *p, uint64_t batches, uint64_t images)
{
    if (!p->on) return;
    uint64_t now = ldri_now_ns();
    if (now - p->drawn_ns < INTERVAL_NS) return;
    p->drawn_ns = now;

    double seconds = 1e-9 * (double)(now - p->start_ns);
    uint64_t in_epoch = batches % p->batches_per_epoch;
    if (in_epoch == 0 && batches > 0) in_epoch = p->batches_per_epoch;
    uint64_t epoch = batches > 0 ? (batches - 1) / p->batches_per_epoch : 0;
    unsigned filled = (unsigned)((double)in_epoch / (double)p->batches_per_epoch * BAR_WIDTH);
    char bar[BAR_WIDTH + 1], of[24] = "", eta[40] = "";
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', filled);
    bar[BAR_WIDTH] = 0;
    if (p->epochs > 0) {
        double total = (double)p->epochs * (double)p->batches_per_epoch;
        double left = batches > 0 ? seconds * (total / (double)batches - 1) : 0;
        snprintf(of, sizeof of, "/%" PRIu64, p->epochs);
        if (left < 360000) {
            uint64_t s = (uint64_t)(left + 0.5);
            snprintf(eta, sizeof eta, "  eta %" PRIu64 ":%02u", s / 60, (unsigned)(s % 60));
        }
    }
    /* Erases to the end of the line, for what a longer line left there. */
    fprintf(stderr, "\r[%s] epoch %" PRIu64 "%s  %.0f images/s%s\033[K", bar, epoch + 1, of,
            seconds > 0 ? (double)images / seconds : 0.0, eta);
}

void ldri_cmd_progress_clear(ldri_cmd_progress *p)
{
    if (p->on && p->drawn_ns > 0) fputs("\r\033[K", stderr);
    p->drawn_ns = 0;
}
