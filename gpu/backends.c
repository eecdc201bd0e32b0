/* backends.c - which back ends this build has. */
#include "loader/backend.h"

#include "gpu/backend_cpu.h"
#include "gpu/simd.h"

const ldri_backend_ops *ldri_backend_find(ldr_device device, ldr_error *err)
{
    switch (device) {
    case LDR_DEVICE_AUTO:
    case LDR_DEVICE_CPU:
        return &ldri_backend_cpu;
    }
    ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "device %d is unknown: use auto or cpu",
                   (int)device);
    return NULL;
}

const char *ldri_backend_simd(const char **best)
{
    *best = ldri_simd_name(ldri_simd_best());
    return ldri_simd_name(ldri_simd_wanted());
}
