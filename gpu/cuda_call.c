#include "gpu/cuda_call.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ldri_cuda {
    _Atomic uint64_t counts[LDRI_CUDA_N_KINDS];
};

static const struct {
    const char *name, *function;
} kinds[LDRI_CUDA_N_KINDS] = {
#define NAMES(id, name, function) {name, function},
    LDRI_CUDA_KINDS(NAMES)
#undef NAMES
};

typedef enum verdict { GO, FAIL, SKIP } verdict;

/* The rule.  Who finds `active` 0, as every program but a test does, takes no lock. */
static struct {
    _Atomic int active;
    pthread_mutex_t lock;
    verdict what; /* this and the rest under lock */
    int any;
    const char *function; /* or all kinds of this function */
    ldri_cuda_kind kind;
    uint64_t at, seen;
} rule = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local cudaError_t pretended;

static void rule_set(verdict what, ldri_cuda_kind kind, const char *function, uint64_t at)
{
    pthread_mutex_lock(&rule.lock);
    rule.what = what;
    rule.any = kind == LDRI_CUDA_N_KINDS && !function;
    rule.function = function;
    rule.kind = kind;
    rule.at = at;
    rule.seen = 0;
    atomic_store(&rule.active, what != GO);
    pthread_mutex_unlock(&rule.lock);
}

void ldri_cuda_rule_fail(ldri_cuda_kind kind, uint64_t n)
{
    rule_set(FAIL, kind, NULL, n);
}

void ldri_cuda_rule_skip(ldri_cuda_kind kind, uint64_t n)
{
    rule_set(SKIP, kind, NULL, n);
}

void ldri_cuda_rule_none(void)
{
    rule_set(GO, LDRI_CUDA_N_KINDS, NULL, 0);
}

static void rule_of_environment(void)
{
    const char *text = getenv("LDR_CUDA_FAIL");
    if (!text || !*text) return;
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    uint64_t at = colon ? strtoull(colon + 1, NULL, 10) : 0;
    if (n == 3 && memcmp(text, "any", 3) == 0) rule_set(FAIL, LDRI_CUDA_N_KINDS, NULL, at);
    for (int k = 0; k < LDRI_CUDA_N_KINDS; k++) {
        if (strlen(kinds[k].name) == n && memcmp(kinds[k].name, text, n) == 0)
            rule_set(FAIL, (ldri_cuda_kind)k, NULL, at);
        else if (strlen(kinds[k].function) == n && memcmp(kinds[k].function, text, n) == 0)
            rule_set(FAIL, LDRI_CUDA_N_KINDS, kinds[k].function, at);
    }
}

static verdict judge(ldri_cuda_kind kind)
{
    pthread_mutex_lock(&rule.lock);
    int meant = rule.any || (rule.function ? strcmp(rule.function, kinds[kind].function) == 0
                                           : rule.kind == kind);
    verdict v = GO;
    if (meant && kind != LDRI_CUDA_LAST_ERROR) {
        rule.seen++;
        if (rule.at == 0 || rule.seen == rule.at) v = rule.what;
    }
    pthread_mutex_unlock(&rule.lock);
    return v;
}

int ldri_cuda_admits(ldri_cuda *c, ldri_cuda_kind kind)
{
    if (c) atomic_fetch_add_explicit(&c->counts[kind], 1, memory_order_relaxed);
    if (!atomic_load_explicit(&rule.active, memory_order_relaxed)) return 1;
    verdict v = judge(kind);
    int memory = kind == LDRI_CUDA_MALLOC || kind == LDRI_CUDA_HOST_ALLOC;
    pretended = v == SKIP ? cudaSuccess : memory ? cudaErrorMemoryAllocation : cudaErrorUnknown;
    return v == GO;
}

cudaError_t ldri_cuda_pretended(void)
{
    return pretended;
}

ldri_cuda *ldri_cuda_new(void)
{
    rule_of_environment();
    return calloc(1, sizeof(ldri_cuda));
}

void ldri_cuda_free(ldri_cuda *c)
{
    free(c);
}

uint64_t ldri_cuda_count(const ldri_cuda *c, ldri_cuda_kind kind)
{
    return atomic_load_explicit(&c->counts[kind], memory_order_relaxed);
}

void ldri_cuda_counts(const ldri_cuda *c, void (*each)(void *user, const char *name, uint64_t n),
                      void *user)
{
    for (int k = 0; k < LDRI_CUDA_N_KINDS;) {
        const char *function = kinds[k].function;
        uint64_t n = 0;
        for (; k < LDRI_CUDA_N_KINDS && strcmp(kinds[k].function, function) == 0; k++)
            n += ldri_cuda_count(c, (ldri_cuda_kind)k);
        if (n > 0) each(user, function, n);
    }
}

static const char *remedy(cudaError_t e)
{
    switch (e) {
    case cudaErrorMemoryAllocation:
        return "lower batch, depth or pinned_limit, or give other programs' memory back";
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorStubLibrary:
        return "use device cpu, or check the driver (nvidia-smi)";
    case cudaErrorInvalidDevice:
        return "check device_id (nvidia-smi -L)";
    case cudaErrorNoKernelImageForDevice:
        return "the device is older than this build supports (8.0)";
    case cudaErrorInvalidResourceHandle:
        return "a stream must belong to the loader's device";
    default:
        return "the context may be lost: start the program again";
    }
}

ldr_status ldri_cuda_error(ldri_cuda *c, ldri_cuda_kind kind, cudaError_t e, ldr_error *err)
{
    /* What was returned is reported; nobody shall meet it again in a later call. */
    (void)LDRI_CUDA(c, LDRI_CUDA_LAST_ERROR, cudaGetLastError());
    ldr_status s = e == cudaErrorMemoryAllocation ? LDR_E_NOMEM : LDR_E_CUDA;
    return ldri_error_set(err, s, (int)e, LDR_NO_SAMPLE, "%s: %s: %s", kinds[kind].function,
                          cudaGetErrorString(e), remedy(e));
}
