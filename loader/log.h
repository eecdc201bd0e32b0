/* log.h - lines for whoever watches: the caller's sink, or standard error.
 *
 * Warnings always go out.  LDR_DEBUG=LEVEL[,SUBSYSTEM...] lets more through: LEVEL is error, warn,
 * info, debug or 0 .. 3, SUBSYSTEM one or more of source, memory, decode, stage, wait (none: all).
 * Never called with a lock held. */
#ifndef LDR_LOG_H
#define LDR_LOG_H

#include "loader/status.h"

typedef enum ldri_subsystem {
    LDRI_LOG_SOURCE = 1,
    LDRI_LOG_MEMORY = 2,
    LDRI_LOG_DECODE = 4,
    LDRI_LOG_STAGE = 8,
    LDRI_LOG_WAIT = 16
} ldri_subsystem;

typedef struct ldri_log { /* see ldri_log_init */
    ldr_log_fn fn;
    void *user;
    int level;           /* of a line in `subsystems` that is still let through */
    unsigned subsystems; /* ldri_subsystem bits */
} ldri_log;

/* debug: the value of LDR_DEBUG, or NULL.  What it does not understand lets nothing more through.
 */
void ldri_log_init(ldri_log *l, ldr_log_fn fn, void *user, const char *debug);

/* Would a line go out?  For callers that would have to prepare it. */
int ldri_log_wanted(const ldri_log *l, int level, ldri_subsystem subsystem);

void ldri_log_line(const ldri_log *l, int level, ldri_subsystem subsystem, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
