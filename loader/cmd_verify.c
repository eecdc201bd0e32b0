/* A batch's digest is SHA-256 over its images, in their type and layout, then its labels (int64,
 * little endian); an epoch's is SHA-256 over the digests of its batches, 32 bytes each.  What is
 * printed depends on the options that say what is loaded, and on nothing else. */
#include "loader/cmd.h"

#include <inttypes.h>

#include "loader/json.h"
#include "loader/sha256.h"

#define BAD_SHOWN 20

static void add_labels(ldri_sha256 *h, const int64_t *labels, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t bytes[8];
        for (int k = 0; k < 8; k++) bytes[k] = (uint8_t)((uint64_t)labels[i] >> (8 * k));
        ldri_sha256_add(h, bytes, sizeof bytes);
    }
}

static void digest_batch(const ldr_batch *b, uint8_t digest[LDRI_SHA256_BYTES])
{
    static const size_t value_bytes[] = {
        [LDR_F32] = 4, [LDR_F16] = 2, [LDR_BF16] = 2, [LDR_U8] = 1};
    ldri_sha256 h;
    ldri_sha256_begin(&h);
    ldri_sha256_add(&h, b->images,
                    (size_t)b->count * 3 * b->height * b->width * value_bytes[b->dtype]);
    add_labels(&h, b->labels_host, b->count);
    ldri_sha256_end(&h, digest);
}

/* batch: UINT64_MAX for the epoch's own line. */
static int print_digest(int json, uint64_t epoch, uint64_t batch,
                        const uint8_t digest[LDRI_SHA256_BYTES])
{
    char hex[2 * LDRI_SHA256_BYTES + 1];
    ldri_sha256_hex(hex, digest);
    if (json) {
        ldri_json j = {.file = stdout};
        ldri_json_open(&j, NULL, '{');
        ldri_json_uint(&j, "epoch", epoch);
        if (batch != UINT64_MAX) ldri_json_uint(&j, "batch", batch);
        ldri_json_string(&j, "sha256", hex);
        ldri_json_close(&j);
    } else if (batch != UINT64_MAX) {
        printf("epoch %" PRIu64 " batch %" PRIu64 "  %s\n", epoch, batch, hex);
    } else {
        printf("epoch %" PRIu64 "  %s\n", epoch, hex);
    }
    return ldri_cmd_stdout_works(1);
}

int ldri_cmd_verify(const ldri_cli *cli)
{
    ldr *ld;
    ldr_error err;
    ldr_options o = cli->options;
    o.source = cli->args[0];
    if (ldri_cmd_open(&ld, &o, &err) < 0) return ldri_cmd_failed(&err);

    ldri_sha256 epoch;
    uint8_t digest[LDRI_SHA256_BYTES];
    uint64_t n_ended = 0;
    int written = 1;
    ldr_status s = LDR_OK;
    ldri_sha256_begin(&epoch);
    while (written && s >= 0) {
        const ldr_batch *b;
        s = ldr_next(ld, NULL, -1, &b);
        if (s == LDR_END) {
            ldri_sha256_end(&epoch, digest);
            written = print_digest(cli->json, o.first_epoch + n_ended, UINT64_MAX, digest);
            ldri_sha256_begin(&epoch);
            if (++n_ended == o.epochs) break;
        } else if (s == LDR_OK) {
            digest_batch(b, digest);
            ldri_sha256_add(&epoch, digest, sizeof digest);
            written = print_digest(cli->json, b->epoch, b->index, digest);
            s = ldr_release(ld, b, NULL);
        } else {
            break;
        }
    }
    ldri_cmd_list_bad(stderr, "ldr: bad: ", ld, BAD_SHOWN);
    int status = ldri_cmd_outcome(ld, s);
    if (!written && status == 0) status = 1;
    ldri_cmd_close(&ld);
    return status;
}
