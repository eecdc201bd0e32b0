/* SHA-256 against the vectors of FIPS 180-4's examples and NIST's CAVP, in both implementations,
 * and cut into pieces. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loader/sha256.h"

typedef void (*begin_function)(ldri_sha256 *);
static const begin_function begins[] = {ldri_sha256_begin, ldri_sha256_begin_plain};

static void assert_digest(const void *bytes, size_t n, const char *expected)
{
    for (size_t k = 0; k < 2; k++) {
        ldri_sha256 h;
        uint8_t digest[LDRI_SHA256_BYTES];
        char hex[65];
        begins[k](&h);
        ldri_sha256_add(&h, bytes, n);
        ldri_sha256_end(&h, digest);
        assert_string_equal(ldri_sha256_hex(hex, digest), expected);
    }
}

static void short_vectors(void **state)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char four_blocks[] = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                                      "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
    assert_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest(two_blocks, strlen(two_blocks),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(four_blocks, strlen(four_blocks),
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    assert_digest("\xbd", 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
}

static void million_a(void **state)
{
    char *a = malloc(1000000);
    assert_non_null(a);
    memset(a, 'a', 1000000);
    assert_digest(a, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(a);
}

/* Every length up to four blocks: both implementations agree, whole or in pieces of every size. */
static void pieces_and_lengths(void **state)
{
    uint8_t bytes[257];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 + 3);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint8_t whole[LDRI_SHA256_BYTES];
        ldri_sha256 h;
        ldri_sha256_begin_plain(&h);
        ldri_sha256_add(&h, bytes, n);
        ldri_sha256_end(&h, whole);
        for (size_t step = 1; step <= 130; step += 3) {
            uint8_t digest[LDRI_SHA256_BYTES];
            ldri_sha256_begin(&h);
            for (size_t at = 0; at < n; at += step) {
                ldri_sha256_add(&h, bytes + at, n - at < step ? n - at : step);
            }
            ldri_sha256_add(&h, NULL, 0);
            ldri_sha256_end(&h, digest);
            assert_memory_equal(digest, whole, sizeof whole);
        }
    }
}

static void speed_is_reported(void **state)
{
    size_t n = 16u << 20;
    uint8_t *bytes = calloc(1, n);
    assert_non_null(bytes);
    for (size_t k = 0; k < 2; k++) {
        ldri_sha256 h;
        uint8_t digest[LDRI_SHA256_BYTES];
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        begins[k](&h);
        for (int i = 0; i < 4; i++) ldri_sha256_add(&h, bytes, n);
        ldri_sha256_end(&h, digest);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        printf("%s: %.0f MB/s\n", k ? "plain C" : "best", 4e-6 * (double)n / seconds);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_vectors),
        cmocka_unit_test(million_a),
        cmocka_unit_test(pieces_and_lengths),
        cmocka_unit_test(speed_is_reported),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
