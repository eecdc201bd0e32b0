/* cuda_call.h - every call of the CUDA runtime passes here: counted by kind, and made to fail or
 * left out where a test says so.  C and C++; needs the CUDA headers.
 *
 *     cudaError_t e = LDRI_CUDA(calls, LDRI_CUDA_COPY, cudaMemcpyAsync(...));
 *
 * LDR_CUDA_FAIL=KIND[:N] makes the N-th call of a kind fail, without N every one.  KIND is a kind's
 * name, the name of a function of the runtime, or `any`. */
#ifndef LDR_CUDA_CALL_H
#define LDR_CUDA_CALL_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "loader/status.h"

/* Kinds of one function stand together. */
#define LDRI_CUDA_KINDS(X)                                                                         \
    X(DEVICE_COUNT, "device_count", "cudaGetDeviceCount")                                          \
    X(GET_DEVICE, "get_device", "cudaGetDevice")                                                   \
    X(SET_DEVICE, "set_device", "cudaSetDevice")                                                   \
    X(ATTRIBUTE, "attribute", "cudaDeviceGetAttribute")                                            \
    X(FUNCTION, "function", "cudaFuncSetAttribute")                                                \
    X(CLUSTERS, "clusters", "cudaOccupancyMaxActiveClusters")                                      \
    X(MALLOC, "malloc", "cudaMalloc")                                                              \
    X(FREE, "free", "cudaFree")                                                                    \
    X(HOST_ALLOC, "host_alloc", "cudaHostAlloc")                                                   \
    X(FREE_HOST, "free_host", "cudaFreeHost")                                                      \
    X(STREAM_MAKE, "stream_make", "cudaStreamCreateWithFlags")                                     \
    X(STREAM_FREE, "stream_free", "cudaStreamDestroy")                                             \
    X(STREAM_SYNC, "stream_sync", "cudaStreamSynchronize")                                         \
    X(EVENT_MAKE, "event_make", "cudaEventCreateWithFlags")                                        \
    X(EVENT_FREE, "event_free", "cudaEventDestroy")                                                \
    X(MEMSET, "memset", "cudaMemsetAsync")                                                         \
    X(COPY, "copy", "cudaMemcpyAsync")                                                             \
    X(COPY_BACK, "copy_back", "cudaMemcpyAsync")                                                   \
    X(WAIT_DONE, "wait_done", "cudaStreamWaitEvent")                                               \
    X(WAIT_COPIED, "wait_copied", "cudaStreamWaitEvent")                                           \
    X(WAIT_USED, "wait_used", "cudaStreamWaitEvent")                                               \
    X(WAIT_READY, "wait_ready", "cudaStreamWaitEvent")                                             \
    X(RECORD_COPIED, "record_copied", "cudaEventRecord")                                           \
    X(RECORD_DONE, "record_done", "cudaEventRecord")                                               \
    X(RECORD_READY, "record_ready", "cudaEventRecord")                                             \
    X(RECORD_USED, "record_used", "cudaEventRecord")                                               \
    X(QUERY_COPIED, "query_copied", "cudaEventQuery")                                              \
    X(SYNC_COPIED, "sync_copied", "cudaEventSynchronize")                                          \
    X(SYNC_USED, "sync_used", "cudaEventSynchronize")                                              \
    X(LAUNCH, "launch", "cudaLaunchKernelExC")                                                     \
    X(LAST_ERROR, "last_error", "cudaGetLastError")

typedef enum ldri_cuda_kind {
#define LDRI_CUDA_ENUM(id, name, function) LDRI_CUDA_##id,
    LDRI_CUDA_KINDS(LDRI_CUDA_ENUM)
#undef LDRI_CUDA_ENUM
        LDRI_CUDA_N_KINDS
} ldri_cuda_kind;

typedef struct ldri_cuda ldri_cuda; /* counts of one back end */

#ifdef __cplusplus
extern "C" {
#endif

ldri_cuda *ldri_cuda_new(void); /* NULL: out of memory */
void ldri_cuda_free(ldri_cuda *c);

/* Calls each(user, function, count) for each function of the runtime that was called. */
void ldri_cuda_counts(const ldri_cuda *c, void (*each)(void *user, const char *name, uint64_t n),
                      void *user);
uint64_t ldri_cuda_count(const ldri_cuda *c, ldri_cuda_kind kind);

/* Fills *err: "cudaMemcpyAsync: CUDA's text: what to do", clears the runtime's last error, and
 * returns LDR_E_CUDA (LDR_E_NOMEM where memory is short). */
ldr_status ldri_cuda_error(ldri_cuda *c, ldri_cuda_kind kind, cudaError_t e, ldr_error *err);

/* For tests, process-wide.  The n-th call of the kind from now on (0: every one; kind
 * LDRI_CUDA_N_KINDS: any) fails, or is left out and seems to succeed.  One rule at a time;
 * ldri_cuda_rule_none ends it. */
void ldri_cuda_rule_fail(ldri_cuda_kind kind, uint64_t n);
void ldri_cuda_rule_skip(ldri_cuda_kind kind, uint64_t n);
void ldri_cuda_rule_none(void);

/* For LDRI_CUDA: whether to make the call; what it is taken to have returned if not. */
int ldri_cuda_admits(ldri_cuda *c, ldri_cuda_kind kind);
cudaError_t ldri_cuda_pretended(void);

#ifdef __cplusplus
}
#endif

#define LDRI_CUDA(c, kind, call) (ldri_cuda_admits((c), (kind)) ? (call) : ldri_cuda_pretended())

#endif
