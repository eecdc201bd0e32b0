/* sha256.h - SHA-256 (FIPS 180-4), for the digests of `ldr verify`.
 *
 *     ldri_sha256_begin(&h);
 *     ldri_sha256_add(&h, bytes, n);            any number of times
 *     ldri_sha256_end(&h, digest);              32 bytes; h is used up
 */
#ifndef LDR_SHA256_H
#define LDR_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define LDRI_SHA256_BYTES 32

typedef struct ldri_sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64]; /* the first n_bytes % 64 are waiting for the rest of their block */
    void (*blocks)(uint32_t state[8], const uint8_t *bytes, size_t n_blocks);
} ldri_sha256;

/* Takes the processor's SHA instructions where there are any; the environment's LDR_SIMD=none
 * forbids them. */
void ldri_sha256_begin(ldri_sha256 *h);
void ldri_sha256_begin_plain(ldri_sha256 *h); /* in C alone; the same digests */
void ldri_sha256_add(ldri_sha256 *h, const void *bytes, size_t n_bytes);
void ldri_sha256_end(ldri_sha256 *h, uint8_t digest[LDRI_SHA256_BYTES]);

/* Digest as 64 lower case hexadecimal digits and a NUL.  Returns out. */
char *ldri_sha256_hex(char out[2 * LDRI_SHA256_BYTES + 1], const uint8_t digest[LDRI_SHA256_BYTES]);

#endif
