/* The options of the command, one table for parsing, help and the manual page. */
#include "loader/cli.h"

#include <string.h>

#define EPOCHS      (LDRI_VERB_RUN | LDRI_VERB_VERIFY | LDRI_VERB_PLAN | LDRI_VERB_PREVIEW)
#define LOADING     (EPOCHS | LDRI_VERB_BENCH)   /* open a loader */
#define LISTING     (LOADING | LDRI_VERB_DOCTOR) /* list a source */
#define DECODING    (LISTING | LDRI_VERB_DECODE)
#define FIELD(name) offsetof(ldri_cli, options.name)

/* In the order of the enums of loader.h. */
static const char *const view_names[] = {"eval", "train", "squash", NULL};
static const char *const filter_names[] = {"bilinear", "bicubic", "nearest", "random", NULL};
static const char *const dtype_names[] = {"f32", "f16", "bf16", "u8", NULL};
static const char *const layout_names[] = {"nchw", "nhwc", NULL};
static const char *const order_names[] = {"bytes", "natural", NULL};
static const char *const device_names[] = {"auto", "cpu", "cuda", NULL};
static const char *const erase_names[] = {"const", "rand", "pixel", NULL};
static const char *const on_bad_names[] = {"replace", "stop", "mark", NULL};

#define CHOICE(names) .kind = LDRI_CLI_CHOICE, .choices = names
#define LIST(n)       .kind = LDRI_CLI_F32, .n_values = n

/* clang-format off */
const ldri_cli_option ldri_cli_options[] = {
    {.name = "view", CHOICE(view_names), .verbs = LOADING,
     .offset = FIELD(view), .early = 1, .essential = 1,
     .help = "how a picture is cut"},
    {.name = "image-size", .kind = LDRI_CLI_U32, .verbs = LOADING,
     .offset = FIELD(width), .n_targets = 2, .early = 1, .essential = 1,
     .help = "width and height of an image in pixels"},
    {.name = "batch", .kind = LDRI_CLI_U32, .verbs = LOADING,
     .offset = FIELD(batch), .essential = 1,
     .help = "images in a batch"},
    {.name = "epochs", .kind = LDRI_CLI_U64, .verbs = EPOCHS,
     .offset = FIELD(epochs), .essential = 1,
     .help = "how many epochs; 0: until interrupted"},
    {.name = "epoch", .kind = LDRI_CLI_U64, .verbs = LOADING,
     .offset = FIELD(first_epoch), .essential = 1,
     .help = "the first epoch"},
    {.name = "seed", .kind = LDRI_CLI_U64, .verbs = LOADING, .offset = FIELD(seed), .essential = 1,
     .help = "what order and augmentation are drawn from"},
    {.name = "shuffle", .kind = LDRI_CLI_SWITCH, .verbs = LOADING,
     .offset = FIELD(shuffle), .essential = 1,
     .help = "1: a new order each epoch; 0: the list's"},
    {.name = "dtype", CHOICE(dtype_names), .verbs = LOADING,
     .offset = FIELD(dtype), .essential = 1,
     .help = "type of a value"},
    {.name = "layout", CHOICE(layout_names), .verbs = LOADING,
     .offset = FIELD(layout), .essential = 1,
     .help = "planes or pixels"},
    {.name = "device", CHOICE(device_names), .verbs = LOADING,
     .offset = FIELD(device), .essential = 1,
     .help = "where images are made"},
    {.name = "threads", .kind = LDRI_CLI_U32, .verbs = LOADING,
     .offset = FIELD(threads), .essential = 1,
     .help = "workers; 0: a worker for each CPU"},
    {.name = "depth", .kind = LDRI_CLI_U32, .verbs = LOADING,
     .offset = FIELD(depth), .essential = 1,
     .help = "batches in flight"},
    {.name = "on-bad", CHOICE(on_bad_names), .verbs = LOADING,
     .offset = FIELD(on_bad), .essential = 1,
     .help = "bad files"},
    {.name = "probe", .kind = LDRI_CLI_FLAG, .verbs = LDRI_VERB_PLAN,
     .offset = offsetof(ldri_cli, probe), .essential = 1,
     .help = "plan: read headers, to tell the crop boxes"},
    {.name = "output", .letter = 'o', .kind = LDRI_CLI_TEXT, .verbs = LDRI_VERB_PREVIEW,
     .offset = offsetof(ldri_cli, output), .essential = 1,
     .help = "preview: where the PNG goes"},
    {.name = "rounds", .kind = LDRI_CLI_U32, .verbs = LDRI_VERB_BENCH,
     .offset = offsetof(ldri_cli, rounds), .essential = 1,
     .help = "bench: how often each stage is measured"},
    {.name = "seconds", .kind = LDRI_CLI_F64, .verbs = LDRI_VERB_BENCH,
     .offset = offsetof(ldri_cli, seconds), .essential = 1,
     .help = "bench: length of a round"},
    {.name = "json", .kind = LDRI_CLI_FLAG, .verbs = DECODING,
     .offset = offsetof(ldri_cli, json), .essential = 1,
     .help = "JSON, and nothing else, on standard output"},
    {.name = "width", .kind = LDRI_CLI_U32, .verbs = LOADING, .offset = FIELD(width),
     .help = "pixels; overrides --image-size"},
    {.name = "height", .kind = LDRI_CLI_U32, .verbs = LOADING, .offset = FIELD(height),
     .help = "pixels; overrides --image-size"},
    {.name = "filter", CHOICE(filter_names), .verbs = LOADING, .offset = FIELD(filter),
     .help = "resize"},
    {.name = "scale", LIST(2), .verbs = LOADING, .offset = FIELD(scale),
     .help = "train: area of a crop, share of the picture's"},
    {.name = "ratio", LIST(2), .verbs = LOADING, .offset = FIELD(ratio),
     .help = "train: width / height of a crop"},
    {.name = "crop-pct", .kind = LDRI_CLI_F64, .verbs = LOADING, .offset = FIELD(crop_pct),
     .help = "eval, squash: the crop's share of a side"},
    {.name = "hflip", LIST(1), .verbs = LOADING, .offset = FIELD(hflip),
     .help = "probability of a left-right flip; train's"},
    {.name = "vflip", LIST(1), .verbs = LOADING, .offset = FIELD(vflip),
     .help = "probability of an upside-down flip"},
    {.name = "brightness", LIST(1), .verbs = LOADING, .offset = FIELD(brightness),
     .help = "v: factor drawn in max(0, 1-v) to 1+v"},
    {.name = "contrast", LIST(1), .verbs = LOADING, .offset = FIELD(contrast),
     .help = "likewise"},
    {.name = "saturation", LIST(1), .verbs = LOADING, .offset = FIELD(saturation),
     .help = "likewise"},
    {.name = "hue", LIST(1), .verbs = LOADING, .offset = FIELD(hue),
     .help = "v: shift drawn in -v to v turns; up to 0.5"},
    {.name = "jitter-prob", LIST(1), .verbs = LOADING, .offset = FIELD(jitter_prob),
     .help = "probability of these four, in an order drawn"},
    {.name = "grayscale-prob", LIST(1), .verbs = LOADING, .offset = FIELD(grayscale_prob),
     .help = "probability of an image in grey"},
    {.name = "mixup-alpha", LIST(1), .verbs = LOADING, .offset = FIELD(mixup_alpha),
     .help = "pairs blended, weight ~ Beta(v, v)"},
    {.name = "cutmix-alpha", LIST(1), .verbs = LOADING, .offset = FIELD(cutmix_alpha),
     .help = "pairs swap a box, area ~ Beta(v, v)"},
    {.name = "mix-prob", LIST(1), .verbs = LOADING, .offset = FIELD(mix_prob),
     .help = "probability that a batch is mixed"},
    {.name = "mix-switch-prob", LIST(1), .verbs = LOADING, .offset = FIELD(mix_switch_prob),
     .help = "of cutmix, where both are on"},
    {.name = "mix-pair", .kind = LDRI_CLI_SWITCH, .verbs = LOADING, .offset = FIELD(mix_pair),
     .help = "1: a draw for each pair, not one a batch"},
    {.name = "erase-prob", LIST(1), .verbs = LOADING, .offset = FIELD(erase_prob),
     .help = "probability of erased boxes in an image"},
    {.name = "erase-area", LIST(2), .verbs = LOADING, .offset = FIELD(erase_area),
     .help = "area of the boxes, share of an image"},
    {.name = "erase-aspect", LIST(1), .verbs = LOADING, .offset = FIELD(erase_aspect),
     .help = "v: height / width in v to 1/v"},
    {.name = "erase-mode", CHOICE(erase_names), .verbs = LOADING, .offset = FIELD(erase_mode),
     .help = "filled with"},
    {.name = "erase-count", .kind = LDRI_CLI_U32, .n_values = 2, .verbs = LOADING,
     .offset = FIELD(erase_count),
     .help = "boxes, from .. to; at most 8"},
    {.name = "mean", LIST(3), .verbs = LOADING, .offset = FIELD(mean),
     .help = "taken from R,G,B in 0..1"},
    {.name = "std", LIST(3), .verbs = LOADING, .offset = FIELD(std),
     .help = "what R,G,B are then divided by"},
    {.name = "class-order", CHOICE(order_names), .verbs = LISTING, .offset = FIELD(class_order),
     .help = "how names are sorted"},
    {.name = "follow-links", .kind = LDRI_CLI_SWITCH, .verbs = LISTING,
     .offset = FIELD(follow_links),
     .help = "1: links to deeper directories too"},
    {.name = "first-epoch", .kind = LDRI_CLI_U64, .verbs = LOADING, .offset = FIELD(first_epoch),
     .help = "the same as --epoch"},
    {.name = "keep-last", .kind = LDRI_CLI_SWITCH, .verbs = LOADING, .offset = FIELD(keep_last),
     .help = "0: drop an epoch's incomplete last batch"},
    {.name = "rank", .kind = LDRI_CLI_I32, .verbs = LOADING, .offset = FIELD(rank),
     .help = "this process, of"},
    {.name = "world", .kind = LDRI_CLI_I32, .verbs = LOADING, .offset = FIELD(world),
     .help = "so many that share each epoch"},
    {.name = "pinned-limit", .kind = LDRI_CLI_BYTES, .verbs = LOADING,
     .offset = FIELD(pinned_limit),
     .help = "memory of host arenas, all together; 0: no limit"},
    {.name = "decode-limit", .kind = LDRI_CLI_BYTES, .verbs = LOADING,
     .offset = FIELD(decode_limit),
     .help = "memory for pictures being decoded, all workers"},
    {.name = "device-id", .kind = LDRI_CLI_I32, .verbs = LOADING, .offset = FIELD(device_id),
     .help = "which GPU"},
    {.name = "device-limit", .kind = LDRI_CLI_BYTES, .verbs = LOADING,
     .offset = FIELD(device_limit),
     .help = "memory of the GPU; 0: no limit"},
    {.name = "max-pixels", .kind = LDRI_CLI_U64, .verbs = DECODING, .offset = FIELD(max_pixels),
     .help = "a larger picture is bad"},
    {.name = "max-scans", .kind = LDRI_CLI_U32, .verbs = DECODING, .offset = FIELD(max_scans),
     .help = "a progressive JPEG with more is bad"},
    {.name = "max-file", .kind = LDRI_CLI_BYTES, .verbs = DECODING, .offset = FIELD(max_file),
     .help = "a larger file is bad"},
    {.name = NULL}};
/* clang-format on */

_Static_assert(sizeof(ldr_view) == sizeof(unsigned), "enums are stored as unsigned");
_Static_assert(offsetof(ldr_options, height) == offsetof(ldr_options, width) + sizeof(uint32_t),
               "--image-size sets two neighbours");

void ldri_cli_defaults(ldri_cli *cli)
{
    memset(cli, 0, sizeof *cli);
    ldr_options_init(&cli->options);
    ldr_options_train(&cli->options, 224);
    cli->rounds = 7;
    cli->seconds = 0.5;
}
