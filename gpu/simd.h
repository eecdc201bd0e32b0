/* simd.h - which vector instructions are used, chosen when a back end is opened.
 *
 * Every level gives the same bytes; the tests compare them.  The environment variable LDR_SIMD
 * (none, avx2, avx512, auto) forces a level, for tests and for hunting a fault. */
#ifndef LDR_SIMD_H
#define LDR_SIMD_H

#include "gpu/colour_cpu.h"
#include "gpu/erase_cpu.h"
#include "gpu/normalise.h"
#include "gpu/resample.h"

typedef enum ldri_simd {
    LDRI_SIMD_NONE,   /* plain C */
    LDRI_SIMD_AVX2,   /* with FMA and F16C: Intel from 2013, AMD from 2015 */
    LDRI_SIMD_AVX512, /* with BW, VL, VBMI and VNNI: Intel from 2019, AMD from 2022 */
    LDRI_SIMD_COUNT
} ldri_simd;

ldri_simd ldri_simd_best(void);   /* that this machine can do */
ldri_simd ldri_simd_wanted(void); /* the best, or what LDR_SIMD asks for if that is less */
const char *ldri_simd_name(ldri_simd level);

/* level <= ldri_simd_best().  Static tables. */
const ldri_resample_kernels *ldri_simd_resample(ldri_simd level);
const ldri_normalise_kernels *ldri_simd_normalise(ldri_simd level);
const ldri_colour_kernels *ldri_simd_colour(ldri_simd level);
const ldri_erase_kernels *ldri_simd_erase(ldri_simd level);

#endif
