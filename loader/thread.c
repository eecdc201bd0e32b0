/* DESIGN
 *
 * The struct is complete before pthread_create, which orders it before the new thread; nobody
 * writes it afterwards but join.  There is no other shared state, no lock and no waiting but join.
 * How a thread is told to end is the business of who started it. */
#include "loader/thread.h"

#include <assert.h>
#include <errno.h>
#include <fenv.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)1 << 20)

static int add_tls(struct dl_phdr_info *module, size_t size, void *total)
{
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &module->dlpi_phdr[i];
        if (p->p_type == PT_TLS) *(size_t *)total += p->p_memsz + p->p_align;
    }
    return 0;
}

/* glibc takes a thread's static thread-local storage out of its stack, and a process with large
 * libraries in it may have a lot: so that is added, and what the system needs for itself. */
static size_t stack_bytes(void)
{
    size_t total = STACK_BYTES;
    dl_iterate_phdr(add_tls, &total);
    long least = sysconf(_SC_THREAD_STACK_MIN);
    total += least > 0 ? (size_t)least : 0;
    return (total + 0xffff) & ~(size_t)0xffff;
}

static void *begin(void *arg)
{
    ldri_thread *t = arg;
    pthread_setname_np(pthread_self(), t->name); /* for people only */
    /* A new thread inherits its creator's rounding and exceptions; pixels must not. */
    if (fesetenv(FE_DFL_ENV) != 0) assert(0);
    if (t->nice_more != 0) {
        /* On Linux a nice value is a thread's.  Relative, so that a process that was started with
         * nice stays behind the others.  -1 can be a value: errno tells. */
        id_t tid = (id_t)syscall(SYS_gettid);
        errno = 0;
        int now = getpriority(PRIO_PROCESS, tid);
        if (errno == 0) setpriority(PRIO_PROCESS, tid, now + t->nice_more);
    }
    t->run(t->arg);
    return NULL;
}

ldr_status ldri_thread_start(ldri_thread *t, const char *name, void (*run)(void *arg), void *arg,
                             int nice_more)
{
    *t = (ldri_thread){.run = run, .arg = arg, .nice_more = nice_more};
    snprintf(t->name, sizeof t->name, "%s", name);
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error) goto done;
    error = pthread_attr_setstacksize(&attr, stack_bytes());
    if (error) goto destroy_attr;

    /* Blocked before the thread exists, so that no signal of the process ever lands on it.  A fault
     * of its own must still reach the program's crash handler. */
    sigset_t blocked, before;
    sigfillset(&blocked);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
    error = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (error) goto destroy_attr;
    t->started = 1;
    error = pthread_create(&t->id, &attr, begin, t);
    if (error) t->started = 0;
    int unblocked = pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert(unblocked == 0);
    (void)unblocked;
destroy_attr:
    pthread_attr_destroy(&attr);
done:
    if (error) errno = error;
    return error ? LDR_E_NOMEM : LDR_OK;
}

void ldri_thread_join(ldri_thread *t)
{
    if (!t->started) return;
    int error = pthread_join(t->id, NULL);
    assert(error == 0);
    (void)error;
    t->started = 0;
}
