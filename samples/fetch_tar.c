/* fetch_tar.c - the loader on pictures inside a tar archive: a custom fetch.
 *
 *     tar -cf photos.tar -C photos cat dog
 *     find photos -name '*.jpg' -printf '%P\t%h\n' >photos.list        # member<TAB>class
 *     fetch_tar photos.tar photos.list
 *
 * The archive is looked through once; afterwards each sample is one pread, from several threads at
 * once.
 */
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"

struct member { /* a file in the archive */
    char name[260];
    off_t at;
    size_t n;
};

struct archive {
    int fd;
    void *members; /* tree, by name */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

/* Reads the headers of a ustar archive: 512 bytes each, name at 0, size at 124, type at 156, prefix
 * at 345 (POSIX pax, "ustar Interchange Format"). */
static int read_index(struct archive *a)
{
    char header[512];
    off_t at = 0;
    int n = 0;
    while (pread(a->fd, header, sizeof header, at) == (ssize_t)sizeof header && header[0]) {
        struct member *m = calloc(1, sizeof *m);
        if (!m) return -1;
        snprintf(m->name, sizeof m->name, "%.155s%s%.100s", header + 345, header[345] ? "/" : "",
                 header);
        m->n = strtoull(header + 124, NULL, 8);
        m->at = at + 512;
        at = m->at + (off_t)((m->n + 511) / 512 * 512);
        int is_file = header[156] == '0' || header[156] == 0;
        struct member **found = is_file ? tsearch(m, &a->members, by_name) : NULL;
        n += is_file;
        if (!found || *found != m) free(m); /* no file, or there already */
    }
    return n;
}

/* Called from the workers, several at once: only reads what nobody changes. */
static int fetch(void *user, uint64_t sample, const char *name, void *buf, size_t *len)
{
    const struct archive *a = user;
    struct member key;
    (void)sample;
    snprintf(key.name, sizeof key.name, "%s", name);
    struct member **found = tfind(&key, &a->members, by_name);
    if (!found) return LDR_E_IO; /* a bad sample: the loader's on_bad says what to do */
    const struct member *m = *found;
    size_t room = *len;
    *len = m->n;
    if (m->n > room) return LDR_E_LIMIT; /* it is called again with room for *len */
    for (size_t got = 0; got < m->n;) {
        ssize_t r = pread(a->fd, (char *)buf + got, m->n - got, m->at + (off_t)got);
        if (r <= 0) return LDR_E_IO;
        got += (size_t)r;
    }
    return LDR_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: fetch_tar ARCHIVE LIST\n");
        return 2;
    }
    struct archive a = {.fd = open(argv[1], O_RDONLY)};
    int n = a.fd < 0 ? -1 : read_index(&a);
    if (n <= 0) {
        fprintf(stderr, "fetch_tar: %s: no files in this archive\n", argv[1]);
        return 1;
    }
    printf("%d files in %s\n", n, argv[1]);

    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 224);
    o.source = argv[2];
    o.batch = 16;
    o.fetch = fetch;
    o.fetch_user = &a;
    ldr *ld;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) {
        fprintf(stderr, "fetch_tar: %s\n", err.message);
        return 1;
    }
    const ldr_batch *b;
    ldr_status s;
    uint64_t images = 0;
    while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) {
        images += b->count;
        ldr_release(ld, b, NULL);
    }
    if (s < 0) {
        ldr_last_error(ld, &err);
        fprintf(stderr, "fetch_tar: %s\n", err.message);
    }
    printf("%llu images of %u classes\n", (unsigned long long)images, ldr_class_count(ld));
    ldr_close(&ld);
    tdestroy(a.members, free);
    close(a.fd);
    return s < 0;
}
