/* stub_cudart.h - a CUDA runtime without a device, for tests of what is enqueued and in which
 * order.
 *
 * A stream is a list of what was asked of it.  Nothing runs when it is asked for: only when
 * somebody waits, or when the policy says so, and then in any order that streams and events allow.
 * Device memory is ordinary memory, poisoned when it is made.  So a wait that is missing, or memory
 * that is used again too early, shows in the bytes. */
#ifndef LDR_STUB_CUDART_H
#define LDR_STUB_CUDART_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#define STUB_POISON 0xA5

typedef enum stub_policy {
    STUB_LATE,    /* nothing before somebody waits for it, and then only what that needs */
    STUB_COPIES,  /* copies as soon as they may, kernels as late as they may */
    STUB_KERNELS, /* the other way round */
    STUB_RANDOM,
    STUB_N_POLICIES
} stub_policy;

/* Forgets everything; no stream may have work left. */
void stub_reset(stub_policy policy, uint32_t seed);

/* devices: how many there are; major, minor: their compute capability. */
void stub_devices(int devices, int major, int minor);

/* Lets kernels be fused (stub_kernels.c): 0 after stub_reset. */
void stub_fuse(int may);
int stub_may_fuse(void);

/* Work for a stream: run(copy of arg) when its turn comes.  NULL: the default stream. */
cudaError_t stub_enqueue(cudaStream_t stream, void (*run)(void *arg), const void *arg,
                         size_t bytes);

/* Runs all that is left, on all streams. */
void stub_drain(void);

/* Since stub_reset. */
size_t stub_smallest_copy(void); /* to the device, of those that others followed in their stream */
size_t stub_largest_copy(void);
uint32_t stub_blocks(void); /* device and pinned memory blocks, streams, events that exist */
size_t stub_device_bytes(void);

#endif
