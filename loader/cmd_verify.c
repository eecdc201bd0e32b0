/* A batch's digest is SHA-256 over its images, in their type and layout, then its labels (int64,
 * little endian), then, with mixup or cutmix, mix_labels (likewise) and mix_lambda (float32, little
 * endian); an epoch's is SHA-256 over the digests of its batches, 32 bytes each.  What is printed
 * depends on the options that say what is loaded, and on nothing else. */
#include "loader/cmd.h"

#include <inttypes.h>
#include <string.h>

#include "loader/host_images.h"
#include "loader/json.h"
#include "loader/sha256.h"

#define BAD_SHOWN 20

static void add_little_endian(ldri_sha256 *h, uint64_t value, unsigned n_bytes)
{
    uint8_t bytes[8];
    for (unsigned k = 0; k < n_bytes; k++) bytes[k] = (uint8_t)(value >> (8 * k));
    ldri_sha256_add(h, bytes, n_bytes);
}

static void digest_batch(const ldr_batch *b, const void *images, uint8_t digest[LDRI_SHA256_BYTES])
{
    ldri_sha256 h;
    ldri_sha256_begin(&h);
    ldri_sha256_add(&h, images, b->count * ldri_image_bytes(b));
    for (uint32_t i = 0; i < b->count; i++)
        add_little_endian(&h, (uint64_t)b->labels_host[i], sizeof *b->labels_host);
    for (uint32_t i = 0; b->mix_labels_host && i < b->count; i++)
        add_little_endian(&h, (uint64_t)b->mix_labels_host[i], sizeof *b->mix_labels_host);
    for (uint32_t i = 0; b->mix_lambda_host && i < b->count; i++) {
        uint32_t bits;
        memcpy(&bits, &b->mix_lambda_host[i], sizeof bits);
        add_little_endian(&h, bits, sizeof bits);
    }
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
    ldri_host_images copy = {0};
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
            const void *images;
            s = ldri_host_images_get(ld, b, &copy, &images);
            if (s >= 0) {
                digest_batch(b, images, digest);
                ldri_sha256_add(&epoch, digest, sizeof digest);
                written = print_digest(cli->json, b->epoch, b->index, digest);
            }
            ldr_status released = ldr_release(ld, b, NULL);
            if (s >= 0) s = released;
        } else {
            break;
        }
    }
    ldri_cmd_list_bad(stderr, "ldr: bad: ", ld, BAD_SHOWN);
    int status = ldri_cmd_outcome(ld, s);
    if (!written && status == 0) status = 1;
    ldri_host_images_free(&copy);
    ldri_cmd_close(&ld);
    return status;
}
