/* backend_cuda.h - the back end that augments on an NVIDIA GPU. */
#ifndef LDR_BACKEND_CUDA_H
#define LDR_BACKEND_CUDA_H

#include "loader/backend.h"

extern const ldri_backend_ops ldri_backend_cuda;

/* Whether a device is there that the kernels run on.  LDR_OK, or LDR_E_CUDA with the reason in *err
 * (may be NULL). */
ldr_status ldri_backend_cuda_works(ldr_error *err);

#endif
