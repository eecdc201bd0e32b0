/* DESIGN.  SIGINT and SIGTERM are blocked in all threads; one thread waits for them.  The first one
 * aborts the loader that is guarded, and the main thread comes out of ldr_next, sums up and ends.
 * With no loader to abort (listing, decoding, writing) and at the second signal the process ends at
 * once; only a half-written file is removed first.  `lock` guards the loader's life against abort:
 * ldr_abort is called with it held because the main thread takes the guard away before it closes.
 */
#include "loader/cmd.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ldr *guarded;          /* under lock */
static const char *temporary; /* under lock: of the file that is being written */
static atomic_int stopped;

static void *signal_thread(void *arg)
{
    sigset_t *set = arg;
    for (;;) {
        int number;
        if (sigwait(set, &number) != 0) continue;
        pthread_mutex_lock(&lock);
        int again = atomic_exchange(&stopped, number) != 0;
        if (again || !guarded) {
            if (temporary) unlink(temporary);
            _exit(128 + number);
        }
        ldr_abort(guarded);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

void ldri_cmd_signals_start(void)
{
    static sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) return; /* signals then kill, as usual */
    /* A shell starts background commands of a script with SIGINT ignored. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (pthread_create(&thread, NULL, signal_thread, &set) == 0) {
        pthread_detach(thread);
    } else {
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    }
}

int ldri_cmd_stopped(void)
{
    return atomic_load(&stopped);
}

void ldri_cmd_guard(ldr *ld)
{
    pthread_mutex_lock(&lock);
    guarded = ld;
    pthread_mutex_unlock(&lock);
}

int ldri_cmd_make_temporary(char *path_template)
{
    pthread_mutex_lock(&lock);
    int fd = mkstemp(path_template);
    if (fd >= 0) temporary = path_template;
    pthread_mutex_unlock(&lock);
    return fd;
}

int ldri_cmd_rename_temporary(const char *from, const char *target)
{
    pthread_mutex_lock(&lock);
    int result = rename(from, target);
    if (result == 0) temporary = NULL;
    pthread_mutex_unlock(&lock);
    return result;
}

void ldri_cmd_remove_temporary(const char *path)
{
    pthread_mutex_lock(&lock);
    unlink(path);
    temporary = NULL;
    pthread_mutex_unlock(&lock);
}
