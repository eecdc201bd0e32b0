/* The plan: permutations, shards of ranks, padding, replacements.  Vectors were computed by a
 * second program, written from the description in plan.h alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "loader/plan.h"
#include "loader/rng.h"

static ldri_plan plan_of(uint64_t n, uint64_t seed, uint32_t batch, int keep_last, int rank,
                         int world)
{
    ldr_options o;
    ldr_options_init(&o);
    o.seed = seed;
    o.batch = batch;
    o.keep_last = (uint32_t)keep_last;
    o.rank = rank;
    o.world = world;
    ldri_plan p;
    ldr_error err = {0};
    if (ldri_plan_init(&p, &o, n, &err) != LDR_OK) fail_msg("%s", err.message);
    return p;
}

static uint64_t fnv(uint64_t h, uint64_t v) /* FNV-1a over 8 bytes, little endian */
{
    for (int i = 0; i < 8; i++) h = (h ^ (v >> 8 * i & 255)) * 0x100000001b3u;
    return h;
}

static void philox_gives_the_published_vectors(void **state)
{
    const struct {
        uint32_t c[4], k[2], out[4];
    } v[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
             {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
              {0xffffffff, 0xffffffff},
              {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
             {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
              {0xa4093822, 0x299f31d0},
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (int i = 0; i < 3; i++) {
        ldri_words w =
            ldri_philox(v[i].c[0], v[i].c[1], v[i].c[2], v[i].c[3], v[i].k[0], v[i].k[1]);
        assert_memory_equal(w.w, v[i].out, sizeof w.w);
    }
    /* The same call through the layout of keys and counters. */
    ldri_words w =
        ldri_draw(0x299f31d0a4093822u, 0x13198a2e, 0x85a308d3243f6a88u, 0, 0x37, 0x07344);
    assert_memory_equal(w.w, v[2].out, sizeof w.w);
}

static void words_become_values(void **state)
{
    assert_true(ldri_unit(0) == 0.0 && ldri_unit(0x80000000u) == 0.5);
    assert_true(ldri_unit(UINT32_MAX) == 1.0 - 0x1p-32);
    assert_true(ldri_uniform(0x40000000u, 2.0, 6.0) == 3.0);
    assert_int_equal(ldri_choice(0, 7), 0);
    assert_int_equal(ldri_choice(UINT32_MAX, 7), 6);
    assert_int_equal(ldri_choice(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
    assert_int_equal(ldri_choice(0x80000000u, 10), 5);
    assert_int_equal(ldri_choice(12345, 1), 0);
    assert_true(ldri_gate(0x7fffffff, 0.5) && !ldri_gate(0x80000000u, 0.5));
    assert_true(ldri_gate(UINT32_MAX, 1.0) && !ldri_gate(0, 0.0));
    assert_true(ldri_gate(UINT32_MAX, 2.0) && !ldri_gate(0, -1.0));
    assert_true(ldri_gate(0, 0x1p-32) && !ldri_gate(1, 0x1p-32));
    assert_true(ldri_gate(UINT32_MAX - 1, 1.0 - 0x1p-32) && !ldri_gate(UINT32_MAX, 1.0 - 0x1p-32));
}

static void order_gives_the_recorded_vectors(void **state)
{
    const struct {
        uint64_t n, seed, epoch, n_values, values[7];
    } v[] = {
        {1, 42, 3, 1, {0}},
        {2, 42, 3, 2, {0, 1}},
        {3, 42, 3, 3, {0, 2, 1}},
        {5, 42, 3, 5, {1, 3, 2, 4, 0}},
        {7, 42, 3, 7, {1, 3, 2, 5, 6, 4, 0}},
        {1000, 0x0123456789abcdefu, 1, 6, {1, 78, 709, 359, 535, 573}},
        {1281167, 0x0123456789abcdefu, 1, 6, {332200, 20675, 1271113, 879862, 236326, 166439}},
        {((uint64_t)1 << 33) + 5,
         0x0123456789abcdefu,
         1,
         6,
         {1593106107, 7878541283, 2618470474, 865724275, 124912815, 1413383910}},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        ldri_plan p = plan_of(v[i].n, v[i].seed, 1, 1, 0, 1);
        for (uint64_t k = 0; k < v[i].n_values; k++) {
            assert_int_equal(ldri_plan_order(&p, v[i].epoch, k), v[i].values[k]);
        }
    }
    ldri_plan p = plan_of(1000, 42, 1, 1, 0, 1);
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        for (uint64_t k = 0; k < 1000; k++) h = fnv(h, ldri_plan_order(&p, epoch, k));
    }
    assert_int_equal(h, 0x82e97a867955a7c5u);
}

static void each_epoch_is_a_permutation(void **state)
{
    const uint64_t sizes[] = {1,  2,  3,  4,   5,   6,   15,   16,     17,
                              63, 64, 65, 255, 256, 257, 1000, 1281167};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t n = sizes[i];
        uint8_t *seen = calloc(n, 1);
        assert_non_null(seen);
        uint64_t n_epochs = n <= 1000 ? 20 : 1;
        for (uint64_t epoch = 0; epoch < n_epochs; epoch++) {
            ldri_plan p = plan_of(n, 7 + i, 64, 1, 0, 1);
            memset(seen, 0, n);
            for (uint64_t k = 0; k < n; k++) {
                uint64_t sample = ldri_plan_order(&p, epoch, k);
                if (sample >= n || seen[sample]++) {
                    fail_msg("n %llu seed %llu epoch %llu: position %llu gives %llu again",
                             (unsigned long long)n, (unsigned long long)(7 + i),
                             (unsigned long long)epoch, (unsigned long long)k,
                             (unsigned long long)sample);
                }
            }
        }
        free(seen);
    }
}

static void orders_differ_by_seed_and_epoch(void **state)
{
    ldri_plan a = plan_of(1000, 1, 1, 1, 0, 1), b = plan_of(1000, 2, 1, 1, 0, 1);
    ldri_plan c = plan_of(1000, (uint64_t)1 << 32 | 1, 1, 1, 0, 1);
    int by_epoch = 0, by_seed = 0, by_high_seed = 0, by_list = 0;
    for (uint64_t k = 0; k < 1000; k++) {
        by_epoch += ldri_plan_order(&a, 0, k) == ldri_plan_order(&a, 1, k);
        by_seed += ldri_plan_order(&a, 0, k) == ldri_plan_order(&b, 0, k);
        by_high_seed += ldri_plan_order(&a, 0, k) == ldri_plan_order(&c, 0, k);
        by_list += ldri_plan_order(&a, 0, k) == k;
    }
    /* Two random permutations agree in 1 place on average; more than 9 has probability 1e-7. */
    assert_in_range(by_epoch, 0, 9);
    assert_in_range(by_seed, 0, 9);
    assert_in_range(by_high_seed, 0, 9);
    assert_in_range(by_list, 0, 9);
    a.shuffle = 0;
    for (uint64_t k = 0; k < 1000; k++) assert_int_equal(ldri_plan_order(&a, 5, k), k);
}

/* A list sorted by class must come out mixed. */
static void first_batch_shows_all_classes(void **state)
{
    int all = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        ldri_plan p = plan_of(20 * 500, seed, 256, 1, 0, 1);
        for (uint64_t epoch = 0; epoch < 5; epoch++) {
            int count[20] = {0}, classes = 0;
            for (uint32_t k = 0; k < 256; k++) {
                ldri_pick pick;
                ldri_plan_pick(&p, epoch, 0, k, &pick);
                count[pick.sample / 500]++;
            }
            double chi = 0; /* 12.8 expected of each class, 19 degrees of freedom */
            for (int c = 0; c < 20; c++) {
                classes += count[c] > 0;
                chi += (count[c] - 12.8) * (count[c] - 12.8) / 12.8;
            }
            all += classes == 20;
            if (classes < 19 || chi > 60) { /* P(chi2_19 > 60) = 4e-6 */
                fail_msg("seed %llu epoch %llu: %d classes, chi2 %.1f", (unsigned long long)seed,
                         (unsigned long long)epoch, classes, chi);
            }
        }
    }
    assert_in_range(all, 49, 50); /* a class is missing in one batch of 25,000 */
}

/* Counts of (place, sample) over many epochs, both cut into 20 parts: chi2 with 19 x 19 = 361
 * degrees of freedom, mean 361 (for n = 20 as for more), deviation 27.  6 deviations. */
static void positions_are_uniform(void **state)
{
    const struct {
        uint64_t n, n_epochs;
    } runs[] = {{20, 4000}, {1000, 100}, {10000, 20}};
    for (size_t r = 0; r < 3; r++) {
        uint64_t n = runs[r].n, part = n / 20;
        ldri_plan p = plan_of(n, 12345, 1, 1, 0, 1);
        static uint32_t count[20][20];
        memset(count, 0, sizeof count);
        for (uint64_t epoch = 0; epoch < runs[r].n_epochs; epoch++) {
            for (uint64_t k = 0; k < n; k++)
                count[k / part][ldri_plan_order(&p, epoch, k) / part]++;
        }
        double expected = (double)(runs[r].n_epochs * part) / 20.0, chi = 0;
        for (int a = 0; a < 20; a++) {
            for (int b = 0; b < 20; b++) {
                chi += (count[a][b] - expected) * (count[a][b] - expected) / expected;
            }
        }
        /* Without replacement the variance of a cell is larger by n / (n - 1). */
        chi *= (double)(n - 1) / (double)n;
        if (chi < 361 - 6 * 27 || chi > 361 + 6 * 27) {
            fail_msg("n %llu seed 12345: chi2 %.1f", (unsigned long long)n, chi);
        }
    }
}

/* Neighbours in the list must not stay neighbours: counts of (sample at k+1 - sample at k) mod n in
 * 20 parts, chi2 with 19 degrees of freedom. */
static void neighbours_part(void **state)
{
    const uint64_t n = 10000;
    ldri_plan p = plan_of(n, 99, 1, 1, 0, 1);
    double count[20] = {0}, chi = 0;
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        uint64_t last = ldri_plan_order(&p, epoch, 0);
        for (uint64_t k = 1; k < n; k++) {
            uint64_t now = ldri_plan_order(&p, epoch, k);
            count[(now + n - last) % n / (n / 20)]++;
            last = now;
        }
    }
    double expected = 20.0 * (double)(n - 1) / 20.0;
    for (int i = 0; i < 20; i++) chi += (count[i] - expected) * (count[i] - expected) / expected;
    if (chi > 60) fail_msg("seed 99: chi2 %.1f", chi);
}

/* keep_last 1: all ranks have the same batches, together each sample once and the repeats named. */
static void kept_shards_cover_all(void **state)
{
    const uint64_t sizes[] = {1, 2, 3, 5, 7, 64, 1000, 1001, 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int world = 1; world <= 8; world++) {
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                uint64_t n = sizes[i], n_batches = 0, repeats = 0, real = 0;
                static uint32_t times[1024];
                memset(times, 0, sizeof times);
                for (int rank = 0; rank < world; rank++) {
                    ldri_plan p = plan_of(n, 5, 16, 1, rank, world);
                    if (rank == 0) n_batches = p.n_batches;
                    assert_int_equal(p.n_batches, n_batches);
                    assert_int_equal(p.per_rank, (n + (uint64_t)world - 1) / (uint64_t)world);
                    uint64_t total = 0;
                    for (uint64_t b = 0; b < p.n_batches; b++) {
                        uint32_t count = ldri_plan_batch_count(&p, b), padded = 0;
                        assert_true(count >= 1 && count <= 16);
                        assert_true(count == 16 || b == p.n_batches - 1);
                        for (uint32_t k = 0; k < count; k++) {
                            ldri_pick pick;
                            ldri_plan_pick(&p, epoch, b, k, &pick);
                            assert_int_equal(pick.position,
                                             (uint64_t)rank + (b * 16 + k) * (uint64_t)world);
                            assert_true(pick.sample < n);
                            if (pick.position >= n) {
                                padded++;
                                assert_int_equal(pick.sample,
                                                 ldri_plan_order(&p, epoch, pick.position % n));
                                continue;
                            }
                            assert_int_equal(padded, 0); /* repeats are last */
                            times[pick.sample]++;
                            real++;
                        }
                        assert_int_equal(ldri_plan_batch_padded(&p, b), padded);
                        repeats += padded;
                        total += count;
                    }
                    assert_int_equal(total, p.per_rank);
                }
                assert_int_equal(real, n);
                assert_int_equal(real + repeats,
                                 (n + (uint64_t)world - 1) / (uint64_t)world * (uint64_t)world);
                for (uint64_t s = 0; s < n; s++) assert_int_equal(times[s], 1);
            }
        }
    }
}

/* keep_last 0: only full batches, no sample twice, no repeat. */
static void dropped_tails_leave_full_batches(void **state)
{
    const uint64_t n = 1001;
    for (int world = 1; world <= 8; world++) {
        static uint32_t times[1001];
        memset(times, 0, sizeof times);
        uint64_t taken = 0, want = n / (uint64_t)world / 16;
        for (int rank = 0; rank < world; rank++) {
            ldri_plan p = plan_of(n, 5, 16, 0, rank, world);
            assert_int_equal(p.n_batches, want);
            assert_int_equal(p.per_rank, want * 16);
            for (uint64_t b = 0; b < p.n_batches; b++) {
                assert_int_equal(ldri_plan_batch_count(&p, b), 16);
                assert_int_equal(ldri_plan_batch_padded(&p, b), 0);
                for (uint32_t k = 0; k < 16; k++) {
                    ldri_pick pick;
                    ldri_plan_pick(&p, 1, b, k, &pick);
                    assert_true(pick.position < n);
                    assert_int_equal(times[pick.sample]++, 0);
                    taken++;
                }
            }
        }
        assert_int_equal(taken, want * 16 * (uint64_t)world);
    }
}

static void too_few_samples_are_refused(void **state)
{
    ldr_options o;
    ldr_options_init(&o);
    o.batch = 64;
    o.keep_last = 0;
    o.world = 4;
    ldri_plan p, untouched;
    memset(&p, 0x33, sizeof p);
    untouched = p;
    ldr_error err = {0};
    assert_int_equal(ldri_plan_init(&p, &o, 255, &err), LDR_E_INVALID);
    assert_string_equal(err.message,
                        "no batch is full: 255 samples over 4 ranks are 63 each, batch "
                        "is 64: lower batch or set keep_last to 1");
    assert_memory_equal(&p, &untouched, sizeof p);
    assert_int_equal(ldri_plan_init(&p, &o, 0, &err), LDR_E_INVALID);
    assert_int_equal(ldri_plan_init(&p, &o, 3, NULL), LDR_E_INVALID); /* fewer than ranks */
    assert_int_equal(ldri_plan_init(&p, &o, 256, &err), LDR_OK);
    assert_int_equal(p.n_batches, 1);
}

static void replacements_are_the_recorded_ones(void **state)
{
    const uint64_t want[16] = {961, 676, 485, 826, 297, 901, 212, 576,
                               688, 368, 327, 163, 321, 502, 544, 229};
    ldri_plan p = plan_of(1000, 42, 1, 1, 0, 1);
    for (uint32_t j = 0; j < 16; j++) {
        assert_int_equal(ldri_plan_replacement(&p, 3, 7, j), want[j]);
    }
    ldri_plan wide = plan_of(((uint64_t)1 << 33) + 5, 42, 1, 1, 0, 1);
    assert_int_equal(ldri_plan_replacement(&wide, 3, 7, 0), 8257938660);
    ldri_plan one = plan_of(1, 42, 1, 1, 0, 1);
    assert_int_equal(ldri_plan_replacement(&one, 3, 0, 15), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(words_become_values),
        cmocka_unit_test(order_gives_the_recorded_vectors),
        cmocka_unit_test(each_epoch_is_a_permutation),
        cmocka_unit_test(orders_differ_by_seed_and_epoch),
        cmocka_unit_test(first_batch_shows_all_classes),
        cmocka_unit_test(positions_are_uniform),
        cmocka_unit_test(neighbours_part),
        cmocka_unit_test(kept_shards_cover_all),
        cmocka_unit_test(dropped_tails_leave_full_batches),
        cmocka_unit_test(too_few_samples_are_refused),
        cmocka_unit_test(replacements_are_the_recorded_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
