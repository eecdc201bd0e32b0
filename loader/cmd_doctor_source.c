/* What `ldr doctor` finds about a source: what is listed, where it lies, whether a few of its files
 * can be read, and whether all of them fit into memory. */
#include "loader/cmd_doctor.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "decode/decode.h"
#include "loader/cmd.h"
#include "loader/queue.h"
#include "loader/read.h"
#include "loader/source.h"
#include "loader/status.h"

#define N_HEADERS 64   /* files whose first bytes are looked at */
#define N_SIZES   1000 /* files whose size is asked for */

/* --- listing --------------------------------------------------------------------------------- */

static void tell_list(ldri_doctor *d, const ldri_source *source, uint64_t ns)
{
    const ldri_source_counts *c = ldri_source_passed_over(source);
    char list[512] = "", help[640] = "";
    ldri_doctor_tell(d, LDRI_FINE, "source", NULL,
                     "%" PRIu64 " samples in %" PRIu32 " class%s, listed in %.1f ms",
                     ldri_source_count(source), ldri_source_class_count(source),
                     ldri_source_class_count(source) == 1 ? "" : "es", 1e-6 * (double)ns);
    ldri_cmd_add_count(list, sizeof list, c->hidden, "hidden");
    ldri_cmd_add_count(list, sizeof list, c->other, "without a picture's name");
    ldri_cmd_add_count(list, sizeof list, c->special, "not regular files");
    ldri_cmd_add_count(list, sizeof list, c->outside, "pictures outside class folders");
    ldri_cmd_add_count(list, sizeof list, c->empty_classes, "class folders without a picture");
    ldri_cmd_add_count(list, sizeof list, c->directory_links, "links to directories");
    ldri_cmd_add_count(list, sizeof list, c->unlistable, "directories that cannot be listed");
    ldri_cmd_add_count(list, sizeof list, c->too_long, "paths that are too long");
    if (c->unlistable) {
        snprintf(help, sizeof help, "check the permissions of %s", c->first_unlistable);
    } else if (c->directory_links) {
        snprintf(help, sizeof help, "--follow-links 1 enters %s", c->first_directory_link);
    } else if (c->outside) {
        snprintf(help, sizeof help, "move them into class folders");
    }
    if (list[0]) {
        ldri_level level = c->unlistable ? LDRI_WARN : help[0] ? LDRI_NOTE : LDRI_FINE;
        ldri_doctor_tell(d, level, "passed over", help, "%s", list);
    }
}

/* --- where it lies --------------------------------------------------------------------------- */

static const struct {
    unsigned long
        magic; /* statfs(2) and linux/magic.h; the others: the file systems' own sources */
    const char *name;
    int network;
} file_systems[] = {
    {0xef53, "ext2, 3 or 4", 0}, {0x58465342, "xfs", 0},       {0x9123683e, "btrfs", 0},
    {0x2fc12fc1, "zfs", 0},      {0xf2f52010, "f2fs", 0},      {0x01021994, "tmpfs", 0},
    {0x858458f6, "ramfs", 0},    {0x794c7630, "overlayfs", 0}, {0x73717368, "squashfs", 0},
    {0x5346544e, "ntfs", 0},     {0x4d44, "fat", 0},           {0x2011bab0, "exfat", 0},
    {0xe0f5e1e2, "erofs", 0},    {0x6969, "nfs", 1},           {0xff534d42, "cifs", 1},
    {0xfe534d42, "smb2", 1},     {0x517b, "smb", 1},           {0x00c36400, "ceph", 1},
    {0x0bd00bd0, "lustre", 1},   {0x47504653, "gpfs", 1},      {0x19830326, "beegfs", 1},
    {0x5346414f, "afs", 1},      {0x01021997, "9p", 1},        {0x65735546, "fuse", 1},
};

static void tell_file_system(ldri_doctor *d, const ldri_source *source)
{
    struct statfs fs;
    if (fstatfs(ldri_source_root_fd(source), &fs) != 0) return;
    unsigned long magic = (unsigned long)fs.f_type & 0xffffffff;
    for (size_t i = 0; i < sizeof file_systems / sizeof file_systems[0]; i++) {
        if (file_systems[i].magic != magic) continue;
        int network = file_systems[i].network;
        ldri_doctor_tell(d, network ? LDRI_NOTE : LDRI_FINE, "file system",
                         network ? "over a network or through a daemon: if `ldr run` says that "
                                   "read limits, raise threads or copy the files here"
                                 : NULL,
                         "%s", file_systems[i].name);
        return;
    }
    ldri_doctor_tell(d, LDRI_FINE, "file system", NULL, "type %#lx", magic);
}

/* --- its files ------------------------------------------------------------------------------- */

/* Sample number i of n spread evenly over the list. */
static uint64_t spread_out(uint64_t count, uint64_t i, uint64_t n)
{
    return (uint64_t)((double)count / (double)n * (double)i);
}

typedef struct headers {                  /* of the files that were looked at */
    uint64_t n, jpegs, pngs, bad, failed; /* failed: not the files' fault */
    double pixels;
    char first[700]; /* what was wrong with the first */
} headers;

static void look_at(const ldri_source *source, uint64_t sample, ldri_decoder *decoder,
                    const ldri_limits *limits, ldri_buffer *file, headers *h)
{
    ldri_image_info info;
    ldri_failure why;
    char path[256];
    const char *name = ldri_source_name(source, sample);
    ldr_status s = ldri_read_file(ldri_source_root_fd(source), name, limits, NULL, file, &why);
    if (s >= 0) s = ldri_decode_begin(decoder, file->bytes, file->n, &info, &why);
    ldri_decode_end(decoder);
    h->n++;
    if (s >= 0) {
        *(info.format == LDRI_FORMAT_PNG ? &h->pngs : &h->jpegs) += 1;
        h->pixels += (double)info.width * info.height;
        return;
    }
    if (!h->first[0]) {
        snprintf(h->first, sizeof h->first, "%s: %s", ldri_printable_path(path, sizeof path, name),
                 why.text);
    }
    *(why.cause == LDR_CAUSE_NONE ? &h->failed : &h->bad) += 1;
}

static void tell_headers(ldri_doctor *d, const ldri_source *source, const ldr_options *o)
{
    const ldri_limits limits = {o->max_pixels, o->max_scans, o->max_file};
    uint64_t count = ldri_source_count(source), n = count < N_HEADERS ? count : N_HEADERS;
    ldri_decoder *decoder = NULL;
    ldri_buffer file = {0};
    headers h = {0};
    if (ldri_decoder_open(&decoder, &limits) < 0) return;
    for (uint64_t i = 0; i < n; i++) {
        look_at(source, spread_out(count, i, n), decoder, &limits, &file, &h);
    }
    ldri_buffer_free(&file);
    ldri_decoder_close(&decoder);

    uint64_t good = h.jpegs + h.pngs;
    char help[800] = "";
    if (good < h.n) snprintf(help, sizeof help, "%s; `ldr run` lists bad files", h.first);
    d->broken |= good == 0;
    ldri_doctor_tell(d, good == h.n ? LDRI_FINE : LDRI_WARN, "headers", help,
                     "%" PRIu64 " of %" PRIu64 " looked at are good: %" PRIu64 " JPEG, %" PRIu64
                     " PNG, %.2f Mpixel on average",
                     good, h.n, h.jpegs, h.pngs, good ? 1e-6 * h.pixels / (double)good : 0.0);
}

static void tell_size(ldri_doctor *d, const ldri_source *source)
{
    uint64_t count = ldri_source_count(source), n = count < N_SIZES ? count : N_SIZES, found = 0;
    double bytes = 0, available = ldri_doctor_available_bytes();
    char text[32], room[32];
    for (uint64_t i = 0; i < n; i++) {
        struct stat st;
        const char *name = ldri_source_name(source, spread_out(count, i, n));
        if (fstatat(ldri_source_root_fd(source), name, &st, 0) != 0 || !S_ISREG(st.st_mode))
            continue;
        bytes += (double)st.st_size;
        found++;
    }
    if (found == 0) return;
    bytes *= (double)count / (double)found;
    ldri_doctor_bytes(text, sizeof text, bytes);
    ldri_doctor_bytes(room, sizeof room, available);
    const char *about = n < count ? "about " : "";
    if (available <= 0) {
        ldri_doctor_tell(d, LDRI_FINE, "size", NULL, "%s%s", about, text);
    } else if (bytes < 0.9 * available) {
        ldri_doctor_tell(d, LDRI_FINE, "size", NULL,
                         "%s%s: fits into memory (%s available), epochs after the first need not "
                         "read the disk",
                         about, text, room);
    } else {
        ldri_doctor_tell(
            d, LDRI_NOTE, "size",
            "fast local storage, or more memory, if `ldr run` says that read limits",
            "%s%s: does not fit into memory (%s available), every epoch reads it again", about,
            text, room);
    }
}

void ldri_doctor_source(ldri_doctor *d, const ldr_options *o)
{
    ldri_source *source = NULL;
    ldr_error err;
    uint64_t start = ldri_now_ns();
    if (ldri_source_open(&source, o, &err) < 0) {
        d->broken = 1;
        ldri_doctor_tell(d, LDRI_WARN, "source", NULL, "%s", err.message);
        return;
    }
    tell_list(d, source, ldri_now_ns() - start);
    tell_file_system(d, source);
    tell_headers(d, source, o);
    tell_size(d, source);
    ldri_source_close(&source);
}
