/* The host arena's allocator: no place overlaps another, nothing is refused that was promised. */
#include "loader/arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"

enum { FINAL = 32 * 5, SKEW = LDRI_ARENA_SKEW, SAMPLES = 64, THREADS = 8 };

typedef struct taken {
    size_t offset, bytes;
} taken;

typedef struct shared {
    ldri_arena arena;
    _Atomic uint32_t next;
    uint64_t seed;
    taken crops[SAMPLES], finals[SAMPLES];
    int is_final[SAMPLES], has_crop[SAMPLES];
} shared;

/* What a worker does with one sample: a crop if there is room; sometimes it fails there and goes on
 * to a final. */
static void take_sample(shared *s, uint32_t i)
{
    uint64_t state = helper_hash(s->seed * 1000 + i);
    size_t bytes = 1 + (size_t)helper_below(&state, 1000);
    s->has_crop[i] = ldri_arena_take_crop(&s->arena, bytes, &s->crops[i].offset);
    s->crops[i].bytes = bytes;
    int failed = helper_below(&state, 4) == 0;
    if (s->has_crop[i] && !failed) {
        ldri_arena_settle(&s->arena);
    } else {
        s->is_final[i] = 1;
        s->finals[i] = (taken){ldri_arena_take_final(&s->arena), FINAL};
    }
}

static void *taker(void *arg)
{
    shared *s = arg;
    for (uint32_t i; (i = atomic_fetch_add(&s->next, 1)) < SAMPLES;) take_sample(s, i);
    return NULL;
}

static void check_places(const shared *s, size_t capacity)
{
    uint8_t *owner = calloc(capacity, 1);
    size_t end = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        assert_true(s->has_crop[i] || s->is_final[i]);
        for (int k = 0; k < 2; k++) {
            if (k == 0 ? !s->has_crop[i] : !s->is_final[i]) continue;
            taken t = k == 0 ? s->crops[i] : s->finals[i];
            assert_int_equal(t.offset % LDRI_ARENA_UNIT, SKEW);
            assert_true(t.offset + t.bytes <= capacity);
            for (size_t b = t.offset; b < t.offset + t.bytes; b++) {
                assert_int_equal(owner[b], 0);
                owner[b] = 1;
            }
            if (t.offset + t.bytes > end) end = t.offset + t.bytes;
        }
    }
    assert_int_equal(ldri_arena_used(&s->arena), (end - SKEW + 31) / 32 * 32 + SKEW);
    free(owner);
}

static void places_do_not_overlap(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 300; seed++) {
        shared s = {.seed = seed};
        size_t capacity = SAMPLES * FINAL + SKEW + 16 * (size_t)(helper_hash(seed) % 2000);
        ldri_arena_init(&s.arena, capacity, FINAL);
        ldri_arena_reset(&s.arena, SAMPLES);
        pthread_t t[THREADS];
        for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, taker, &s);
        for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
        check_places(&s, capacity);
    }
}

static void smallest_arena_holds_every_final(void **unused)
{
    (void)unused;
    ldri_arena a;
    size_t offset;
    ldri_arena_init(&a, SAMPLES * FINAL + SKEW, FINAL);
    ldri_arena_reset(&a, SAMPLES);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        assert_false(ldri_arena_take_crop(&a, 16, &offset));
        assert_int_equal(ldri_arena_take_final(&a), i * FINAL + SKEW);
    }
    assert_int_equal(ldri_arena_used(&a), SAMPLES * FINAL + SKEW);
}

static void crops_fit_while_the_debt_is_covered(void **unused)
{
    (void)unused;
    ldri_arena a;
    size_t offset;
    ldri_arena_init(&a, 3 * FINAL + 32 + SKEW, FINAL);
    ldri_arena_reset(&a, 2);
    assert_true(ldri_arena_take_crop(&a, FINAL + 17, &offset)); /* rounded up to FINAL + 32 */
    assert_false(ldri_arena_take_crop(&a, 16, &offset));        /* two finals are still owed */
    ldri_arena_settle(&a);
    assert_true(ldri_arena_take_crop(&a, FINAL, &offset));
    assert_int_equal(offset, FINAL + 32 + SKEW);
    assert_int_equal(ldri_arena_take_final(&a),
                     2 * FINAL + 32 + SKEW); /* the second failed in its crop */
}

static void a_crop_beyond_all_numbers_is_refused(void **unused)
{
    (void)unused;
    ldri_arena a;
    size_t offset;
    ldri_arena_init(&a, (size_t)1 << 40, FINAL); /* more than 2^32 units: the rest is not used */
    ldri_arena_reset(&a, 1);
    assert_false(ldri_arena_take_crop(&a, SIZE_MAX - 100, &offset));
    assert_false(ldri_arena_take_crop(&a, (size_t)1 << 37, &offset));
    assert_true(ldri_arena_take_crop(&a, (size_t)1 << 36, &offset));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_do_not_overlap),
        cmocka_unit_test(smallest_arena_holds_every_final),
        cmocka_unit_test(crops_fit_while_the_debt_is_covered),
        cmocka_unit_test(a_crop_beyond_all_numbers_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
