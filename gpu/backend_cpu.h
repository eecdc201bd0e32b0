/* backend_cpu.h - the back end that augments in the workers and keeps everything in ordinary
 * memory. */
#ifndef LDR_BACKEND_CPU_H
#define LDR_BACKEND_CPU_H

#include "loader/backend.h"

extern const ldri_backend_ops ldri_backend_cpu;

#endif
