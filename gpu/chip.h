/* chip.h - the few instructions of a GPU that the kernels are written with, and the same in C.
 *
 * The kernels' parts (strip.h, tint.h, finish.h) are inline functions of one thread's work on top
 * of these, so that a CPU can run them too, and a test compares them with the CPU back end without
 * a GPU. */
#ifndef LDR_CHIP_H
#define LDR_CHIP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "gpu/normalise.h" /* ldri_f16_bits, ldri_bf16_bits */
#include "loader/rng.h"    /* LDRI_HD */

/* 16 bytes that move as one. */
typedef struct ldri_four {
    uint32_t x, y, z, w;
} __attribute__((aligned(16))) ldri_four;

typedef struct ldri_two {
    uint32_t x, y;
} __attribute__((aligned(8))) ldri_two;

#ifdef __CUDA_ARCH__
#define LDRI_UNROLL _Pragma("unroll")
#define LDRI_ROLLED _Pragma("unroll 1")
#else
#define LDRI_UNROLL
#define LDRI_ROLLED
#endif

/* c + the sum of the four products of bytes.  b's are signed in _us. */
static LDRI_HD inline uint32_t ldri_dot_uu(uint32_t a, uint32_t b, uint32_t c)
{
#ifdef __CUDA_ARCH__
    return __dp4a(a, b, c);
#else
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255u) * (b >> i & 255u);
    return c;
#endif
}

static LDRI_HD inline uint32_t ldri_dot_us(uint32_t a, uint32_t b, uint32_t c)
{
#ifdef __CUDA_ARCH__
    uint32_t d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#else
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255u) * (uint32_t)(int8_t)(b >> i & 255u);
    return c;
#endif
}

/* c + two products: the 16-bit halves of a with bytes 0 and 1 of b, or with bytes 2 and 3. */
static LDRI_HD inline uint32_t ldri_dot_low(uint32_t a, uint32_t b, uint32_t c)
{
#ifdef __CUDA_ARCH__
    return __dp2a_lo(a, b, c);
#else
    return c + (a & 0xffffu) * (b & 255u) + (a >> 16) * (b >> 8 & 255u);
#endif
}

static LDRI_HD inline uint32_t ldri_dot_high(uint32_t a, uint32_t b, uint32_t c)
{
#ifdef __CUDA_ARCH__
    return __dp2a_hi(a, b, c);
#else
    return c + (a & 0xffffu) * (b >> 16 & 255u) + (a >> 16) * (b >> 24);
#endif
}

/* Four bytes out of the eight of b:a; nibble i of the selector says which becomes byte i. */
static LDRI_HD inline uint32_t ldri_permute(uint32_t a, uint32_t b, uint32_t selector)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(a, b, selector);
#else
    uint64_t from = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++)
        out |= (uint32_t)(from >> 8 * (selector >> 4 * i & 7u) & 255u) << 8 * i;
    return out;
#endif
}

/* The low word of high:low >> shift, for shift below 32. */
static LDRI_HD inline uint32_t ldri_funnel(uint32_t low, uint32_t high, uint32_t shift)
{
#ifdef __CUDA_ARCH__
    return __funnelshift_r(low, high, shift);
#else
    return (uint32_t)(((uint64_t)high << 32 | low) >> shift);
#endif
}

static LDRI_HD inline uint32_t ldri_to_byte(int32_t v)
{
    return (uint32_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Four integers, each brought into 0 .. 255, as the bytes of a word. */
static LDRI_HD inline uint32_t ldri_pack_bytes(int32_t a, int32_t b, int32_t c, int32_t d)
{
#ifdef __CUDA_ARCH__
    uint32_t upper, out;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(upper) : "r"(d), "r"(c), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(b), "r"(a), "r"(upper));
    return out;
#else
    return ldri_to_byte(a) | ldri_to_byte(b) << 8 | ldri_to_byte(c) << 16 | ldri_to_byte(d) << 24;
#endif
}

/* The top bytes of four words as one. */
static LDRI_HD inline uint32_t ldri_pack_tops(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return ldri_permute(ldri_permute(a, b, 0x73), ldri_permute(c, d, 0x73), 0x5410);
}

static LDRI_HD inline uint32_t ldri_float_bits(float v)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(v);
#else
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
#endif
}

static LDRI_HD inline float ldri_bits_float(uint32_t u)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(u);
#else
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
#endif
}

/* t + 2^23 rounded towards zero, for 0 <= t < 2^23: the bits are those of 2^23, plus t truncated.
 * A conversion instruction takes four times as long. */
#define LDRI_BIAS      8388608.0f
#define LDRI_BIAS_BITS 0x4B000000u
static LDRI_HD inline float ldri_truncate_biased(float t)
{
#ifdef __CUDA_ARCH__
    return __fadd_rz(t, LDRI_BIAS);
#else
    return (float)(uint32_t)t + LDRI_BIAS;
#endif
}

/* 1 / v, off by up to two units in the last place: only for quotients that are truncated at a
 * distance from whole numbers that makes the error vanish. */
#ifndef LDRI_ROUGH_ERROR
#define LDRI_ROUGH_ERROR 0 /* a test sets it, in units in the last place */
#endif
static LDRI_HD inline float ldri_rough_reciprocal(float v)
{
#ifdef __CUDA_ARCH__
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
#else
    return ldri_bits_float(ldri_float_bits(1.0f / v) + (uint32_t)(LDRI_ROUGH_ERROR));
#endif
}

/* Loads of memory that nobody writes while the kernel runs, and a store of what is not read again
 * soon. */
static LDRI_HD inline uint32_t ldri_load(const uint32_t *p)
{
#ifdef __CUDA_ARCH__
    return __ldg(p);
#else
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
#endif
}

static LDRI_HD inline ldri_four ldri_load_four(const uint32_t *p) /* p is a multiple of 16 */
{
    ldri_four v;
#ifdef __CUDA_ARCH__
    uint4 u = __ldg((const uint4 *)p);
    v.x = u.x, v.y = u.y, v.z = u.z, v.w = u.w;
#else
    memcpy(&v, p, sizeof v);
#endif
    return v;
}

static LDRI_HD inline void ldri_store_four(void *p, ldri_four v)
{
#ifdef __CUDA_ARCH__
    __stcs((uint4 *)p, make_uint4(v.x, v.y, v.z, v.w));
#else
    memcpy(p, &v, sizeof v);
#endif
}

static LDRI_HD inline void ldri_store_two(void *p, ldri_two v)
{
#ifdef __CUDA_ARCH__
    __stcs((uint2 *)p, make_uint2(v.x, v.y));
#else
    memcpy(p, &v, sizeof v);
#endif
}

/* Two floats as f16 or bf16, each rounded to nearest even: a low, b high. */
static LDRI_HD inline uint32_t ldri_half_pair(float a, float b)
{
#ifdef __CUDA_ARCH__
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(b), "f"(a));
    return d;
#else
    return ldri_f16_bits(a) | (uint32_t)ldri_f16_bits(b) << 16;
#endif
}

static LDRI_HD inline uint32_t ldri_bfloat_pair(float a, float b)
{
#ifdef __CUDA_ARCH__
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(b), "f"(a));
    return d;
#else
    return ldri_bf16_bits(a) | (uint32_t)ldri_bf16_bits(b) << 16;
#endif
}

#endif
