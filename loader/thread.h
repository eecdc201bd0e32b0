/* thread.h - how the library starts and ends its own threads. */
#ifndef LDR_THREAD_H
#define LDR_THREAD_H

#include <pthread.h>

#include "loader/status.h"

typedef struct ldri_thread { /* the caller's; stays in place until joined; all zero: not started */
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
    int nice_more;
    char name[16];
    int started;
} ldri_thread;

/* Starts run(arg) on a new thread: its own stack of 1 MiB and some, named `name` (cut to 15 bytes),
 * signals blocked (but for those that its own faults raise), default floating-point environment,
 * `nice_more` added to the nice value it inherits (0: left alone; a refusal is harmless).
 * LDR_E_NOMEM: the system gave no thread; errno says why, *t is as join accepts it. */
ldr_status ldri_thread_start(ldri_thread *t, const char *name, void (*run)(void *arg), void *arg,
                             int nice_more);

/* Blocks until run has returned.  Does nothing for a thread that was not started or was joined. */
void ldri_thread_join(ldri_thread *t);

#endif
