/* backends.c - which back ends this build has. */
#include "loader/backend.h"

#include "gpu/backend_cpu.h"
#include "gpu/backend_cuda.h"
#include "gpu/simd.h"

/* LDR_CUDA comes from the Makefile: the CUDA files are part of the build. */
static const ldri_backend_ops *find_cuda(ldr_error *err)
{
#if LDR_CUDA
    return ldri_backend_cuda_works(err) < 0 ? NULL : &ldri_backend_cuda;
#else
    ldri_error_set(err, LDR_E_UNSUPPORTED, 0, LDR_NO_SAMPLE,
                   "this build has no CUDA: use device cpu, or build with nvcc on the PATH");
    return NULL;
#endif
}

const ldri_backend_ops *ldri_backend_find(ldr_device device, ldr_error *err)
{
    const ldri_backend_ops *ops = NULL;
    switch (device) {
    case LDR_DEVICE_AUTO:
        ops = find_cuda(NULL);
        return ops ? ops : &ldri_backend_cpu;
    case LDR_DEVICE_CPU:
        return &ldri_backend_cpu;
    case LDR_DEVICE_CUDA:
        return find_cuda(err);
    }
    ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                   "device %d is unknown: use auto, cpu or cuda", (int)device);
    return NULL;
}

const char *ldri_backend_simd(const char **best)
{
    *best = ldri_simd_name(ldri_simd_best());
    return ldri_simd_name(ldri_simd_wanted());
}
