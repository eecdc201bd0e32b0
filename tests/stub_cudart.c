#include "tests/stub_cudart.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what there is --------------------------------------------------------------------------- */

typedef enum op_kind { OP_COPY, OP_FILL, OP_CALL, OP_RECORD, OP_WAIT } op_kind;

typedef struct op {
    struct op *next;
    op_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    int value;
    cudaEvent_t event;
    uint64_t number; /* of the record */
    void (*run)(void *arg);
    _Alignas(16) uint8_t arg[]; /* of run */
} op;

struct CUevent_st {
    struct CUevent_st *next; /* of those that were destroyed while a stream had work with them */
    uint64_t recorded, completed; /* numbers of records */
    int device;
};

struct CUstream_st {
    struct CUstream_st *next;
    op *first, **end;
    int device;
    size_t last_copy; /* bytes, 0: none since the last record */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct CUstream_st *streams;
static struct CUstream_st default_stream;
static struct CUevent_st *destroyed;
static stub_policy policy;
static uint64_t random_state;
static int n_devices = 1, capability[2] = {9, 0}, may_fuse;
static size_t smallest_copy, largest_copy, device_bytes;
static uint32_t n_blocks;
static _Thread_local int current;

static uint32_t roll(uint32_t n) /* 0 .. n - 1 */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static void begin(void)
{
    pthread_mutex_lock(&lock);
    if (!default_stream.end) {
        default_stream.end = &default_stream.first;
        default_stream.next = streams;
        streams = &default_stream;
    }
}

static cudaError_t end(cudaError_t e)
{
    pthread_mutex_unlock(&lock);
    return e;
}

/* --- running --------------------------------------------------------------------------------- */

static int may_run(const struct CUstream_st *s)
{
    const op *o = s->first;
    return o && (o->kind != OP_WAIT || o->event->completed >= o->number);
}

static void run_first(struct CUstream_st *s)
{
    op *o = s->first;
    assert(may_run(s));
    switch (o->kind) {
    case OP_COPY:
        memcpy(o->to, o->from, o->bytes);
        break;
    case OP_FILL:
        memset(o->to, o->value, o->bytes);
        break;
    case OP_CALL:
        o->run(o->arg);
        break;
    case OP_RECORD:
        if (o->event->completed < o->number) o->event->completed = o->number;
        break;
    case OP_WAIT:
        break;
    }
    s->first = o->next;
    if (!s->first) s->end = &s->first;
    free(o);
}

static int run_any(void) /* one, of a stream drawn at random; 0: none can */
{
    uint32_t n = 0;
    for (struct CUstream_st *s = streams; s; s = s->next) n += (uint32_t)may_run(s);
    if (n == 0) return 0;
    uint32_t which = roll(n);
    for (struct CUstream_st *s = streams; s; s = s->next) {
        if (may_run(s) && which-- == 0) {
            run_first(s);
            return 1;
        }
    }
    return 0;
}

static int is_eager(const op *o)
{
    if (o->kind == OP_CALL) return policy == STUB_KERNELS;
    if (o->kind == OP_COPY || o->kind == OP_FILL) return policy == STUB_COPIES;
    return 1;
}

/* What the device has done by the time of a call. */
static void pass_time(void)
{
    if (policy == STUB_RANDOM) {
        for (uint32_t n = roll(4); n > 0 && run_any(); n--) continue;
    } else if (policy != STUB_LATE) {
        for (int any = 1; any;) {
            any = 0;
            for (struct CUstream_st *s = streams; s; s = s->next) {
                if (!may_run(s) || !is_eager(s->first)) continue;
                run_first(s);
                any = 1;
            }
        }
    }
}

static struct CUstream_st *stream_of_record(cudaEvent_t event, uint64_t number)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        for (op *o = s->first; o; o = o->next)
            if (o->kind == OP_RECORD && o->event == event && o->number == number) return s;
    return NULL;
}

static void run_until(cudaEvent_t event, uint64_t number)
{
    while (event->completed < number) {
        if (policy == STUB_RANDOM) {
            int ran = run_any();
            assert(ran); /* else a wait for what was never recorded */
            continue;
        }
        struct CUstream_st *s = stream_of_record(event, number);
        assert(s);
        if (!may_run(s)) run_until(s->first->event, s->first->number);
        run_first(s);
    }
}

static void run_stream(struct CUstream_st *s)
{
    while (s->first) {
        if (policy == STUB_RANDOM) {
            run_any();
            continue;
        }
        if (!may_run(s)) run_until(s->first->event, s->first->number);
        run_first(s);
    }
}

static op *append(cudaStream_t stream, op_kind kind, size_t arg_bytes)
{
    struct CUstream_st *s = stream ? stream : &default_stream;
    op *o = calloc(1, sizeof *o + arg_bytes);
    assert(o);
    o->kind = kind;
    *s->end = o;
    s->end = &o->next;
    return o;
}

/* --- for tests ------------------------------------------------------------------------------- */

void stub_reset(stub_policy p, uint32_t seed)
{
    begin();
    for (struct CUstream_st *s = streams; s; s = s->next) assert(!s->first);
    policy = p;
    random_state = seed * 2654435761u + 1;
    n_devices = 1;
    capability[0] = 9;
    capability[1] = 0;
    may_fuse = 0;
    smallest_copy = SIZE_MAX;
    largest_copy = 0;
    end(cudaSuccess);
}

void stub_devices(int devices, int major, int minor)
{
    begin();
    n_devices = devices;
    capability[0] = major;
    capability[1] = minor;
    end(cudaSuccess);
}

void stub_fuse(int may)
{
    begin();
    may_fuse = may;
    end(cudaSuccess);
}

int stub_may_fuse(void)
{
    begin();
    int may = may_fuse;
    end(cudaSuccess);
    return may;
}

cudaError_t stub_enqueue(cudaStream_t stream, void (*run)(void *arg), const void *arg, size_t bytes)
{
    begin();
    op *o = append(stream, OP_CALL, bytes);
    o->run = run;
    memcpy(o->arg, arg, bytes);
    pass_time();
    return end(cudaSuccess);
}

void stub_drain(void)
{
    begin();
    while (run_any()) continue;
    for (struct CUstream_st *s = streams; s; s = s->next) assert(!s->first);
    while (destroyed) {
        struct CUevent_st *e = destroyed;
        destroyed = e->next;
        free(e);
    }
    end(cudaSuccess);
}

size_t stub_smallest_copy(void)
{
    begin();
    size_t n = smallest_copy;
    end(cudaSuccess);
    return n;
}

size_t stub_largest_copy(void)
{
    begin();
    size_t n = largest_copy;
    end(cudaSuccess);
    return n;
}

uint32_t stub_blocks(void)
{
    begin();
    uint32_t n = n_blocks;
    end(cudaSuccess);
    return n;
}

size_t stub_device_bytes(void)
{
    begin();
    size_t n = device_bytes;
    end(cudaSuccess);
    return n;
}

/* --- the runtime ----------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
    begin();
    *count = n_devices;
    return end(n_devices > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    begin();
    if (device < 0 || device >= n_devices) return end(cudaErrorInvalidDevice);
    current = device;
    return end(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    begin();
    if (device < 0 || device >= n_devices) return end(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = capability[0];
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = capability[1];
        break;
    default:
        return end(cudaErrorInvalidValue);
    }
    return end(cudaSuccess);
}

static void *block(size_t bytes, size_t header)
{
    uint8_t *p = aligned_alloc(256, (bytes + header + 255) / 256 * 256);
    if (!p) return NULL;
    memset(p, STUB_POISON, bytes + header);
    n_blocks++;
    return p;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    begin();
    size_t *header = block(bytes, 256);
    if (!header) return end(cudaErrorMemoryAllocation);
    header[0] = bytes;
    device_bytes += bytes;
    *p = (uint8_t *)header + 256;
    return end(cudaSuccess);
}

cudaError_t cudaFree(void *p)
{
    begin();
    size_t *header = (size_t *)(void *)((uint8_t *)p - 256);
    device_bytes -= header[0];
    memset(header, STUB_POISON, 256 + header[0]);
    free(header);
    n_blocks--;
    return end(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    begin();
    *p = block(bytes, 0);
    return end(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *p)
{
    begin();
    free(p);
    n_blocks--;
    return end(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    begin();
    if (flags != cudaStreamNonBlocking) return end(cudaErrorInvalidValue); /* ours all are */
    struct CUstream_st *s = calloc(1, sizeof *s);
    assert(s);
    s->end = &s->first;
    s->device = current;
    s->next = streams;
    streams = s;
    n_blocks++;
    *out = s;
    return end(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    begin();
    run_stream(stream);
    struct CUstream_st **at = &streams;
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    free(stream);
    n_blocks--;
    return end(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    begin();
    run_stream(stream ? stream : &default_stream);
    return end(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    begin();
    if (!(flags & cudaEventDisableTiming)) return end(cudaErrorInvalidValue);
    cudaEvent_t e = calloc(1, sizeof *e);
    assert(e);
    e->device = current;
    n_blocks++;
    *out = e;
    return end(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    begin();
    event->next = destroyed; /* legal while work with it is left: it goes when that has run */
    destroyed = event;
    n_blocks--;
    return end(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    begin();
    int device = stream ? stream->device : current;
    if (device != event->device) return end(cudaErrorInvalidResourceHandle);
    op *o = append(stream, OP_RECORD, 0);
    o->event = event;
    o->number = ++event->recorded;
    if (stream) stream->last_copy = 0;
    pass_time();
    return end(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    begin();
    op *o = append(stream, OP_WAIT, 0);
    o->event = event;
    o->number = event->recorded; /* the last record at this time */
    pass_time();
    return end(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    begin();
    pass_time();
    return end(event->completed >= event->recorded ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    begin();
    run_until(event, event->recorded);
    return end(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    begin();
    assert(stream); /* never the default stream */
    op *o = append(stream, OP_COPY, 0);
    o->to = to;
    o->from = from;
    o->bytes = bytes;
    if (kind == cudaMemcpyHostToDevice) {
        if (stream->last_copy && stream->last_copy < smallest_copy)
            smallest_copy = stream->last_copy;
        if (bytes > largest_copy) largest_copy = bytes;
        stream->last_copy = bytes;
    }
    pass_time();
    return end(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    begin();
    assert(stream);
    op *o = append(stream, OP_FILL, 0);
    o->to = to;
    o->value = value;
    o->bytes = bytes;
    pass_time();
    return end(cudaSuccess);
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    default:
        return "unknown error";
    }
}
