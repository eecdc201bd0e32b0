/* Source: FIPS 180-4, sections 4.1.2, 4.2.2, 5.3.3 and 6.2. */
#include "loader/sha256.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static inline uint32_t load_big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void blocks_plain(uint32_t state[8], const uint8_t *bytes, size_t n_blocks)
{
    for (; n_blocks > 0; n_blocks--, bytes += 64) {
        uint32_t w[16];
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (unsigned t = 0; t < 64; t++) {
            /* The message schedule needs only its last sixteen words. */
            if (t < 16) {
                w[t] = load_big_endian(bytes + 4 * t);
            } else {
                uint32_t x = w[(t + 1) & 15], y = w[(t + 14) & 15];
                w[t & 15] += (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[(t + 9) & 15] +
                             (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
            }
            uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) +
                          constants[t] + w[t & 15];
            uint32_t t2 =
                (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
            h = g;
            g = f;
            f = e;
            e = d + t1;
            d = c;
            c = b;
            b = a;
            a = t1 + t2;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
        state[5] += f;
        state[6] += g;
        state[7] += h;
    }
}

#if defined(__x86_64__)

/* The instructions hold the state as {A,B,E,F} and {C,D,G,H} and do two rounds each (Intel SDM,
 * SHA256RNDS2, SHA256MSG1, SHA256MSG2).  Four message words stand in one register; group i makes
 * the words of group i + 4 from groups i, i+1, i+2, i+3. */
__attribute__((target("sha,sse4.1"))) static void
blocks_sha_extensions(uint32_t state[8], const uint8_t *bytes, size_t n_blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *)state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

    for (; n_blocks > 0; n_blocks--, bytes += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++) {
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(bytes + 16 * i)), swap);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i words = w[i & 3];
            __m128i sum =
                _mm_add_epi32(words, _mm_loadu_si128((const __m128i *)(constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i < 12) {
                __m128i third = w[(i + 2) & 3], last = w[(i + 3) & 3];
                __m128i next = _mm_sha256msg1_epu32(words, w[(i + 1) & 3]);
                next = _mm_add_epi32(next, _mm_alignr_epi8(last, third, 4));
                w[i & 3] = _mm_sha256msg2_epu32(next, last);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }

    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static int has_sha_extensions(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1)) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

#endif

void ldri_sha256_begin_plain(ldri_sha256 *h)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, initial, sizeof initial);
    h->n_bytes = 0;
    h->blocks = blocks_plain;
}

void ldri_sha256_begin(ldri_sha256 *h)
{
    ldri_sha256_begin_plain(h);
#if defined(__x86_64__)
    const char *simd = getenv("LDR_SIMD");
    if (!(simd && strcmp(simd, "none") == 0) && has_sha_extensions()) {
        h->blocks = blocks_sha_extensions;
    }
#endif
}

void ldri_sha256_add(ldri_sha256 *h, const void *bytes, size_t n_bytes)
{
    const uint8_t *p = bytes;
    size_t waiting = h->n_bytes % 64;
    h->n_bytes += n_bytes;
    if (waiting > 0) {
        size_t n = 64 - waiting < n_bytes ? 64 - waiting : n_bytes;
        if (n > 0) memcpy(h->block + waiting, p, n);
        p += n;
        n_bytes -= n;
        if (waiting + n < 64) return;
        h->blocks(h->state, h->block, 1);
    }
    h->blocks(h->state, p, n_bytes / 64);
    if (n_bytes % 64 > 0) memcpy(h->block, p + n_bytes / 64 * 64, n_bytes % 64);
}

void ldri_sha256_end(ldri_sha256 *h, uint8_t digest[LDRI_SHA256_BYTES])
{
    uint8_t tail[72] = {0x80}; /* padding: a one bit, zeros, the length in bits */
    uint64_t n_bits = h->n_bytes * 8;
    size_t n_zeros = (119 - h->n_bytes % 64) % 64;
    for (int i = 0; i < 8; i++) tail[1 + n_zeros + i] = (uint8_t)(n_bits >> (56 - 8 * i));
    ldri_sha256_add(h, tail, 1 + n_zeros + 8);
    for (int i = 0; i < LDRI_SHA256_BYTES; i++) {
        digest[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

char *ldri_sha256_hex(char out[2 * LDRI_SHA256_BYTES + 1], const uint8_t digest[LDRI_SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < LDRI_SHA256_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * LDRI_SHA256_BYTES] = 0;
    return out;
}
