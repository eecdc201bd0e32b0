#include "loader/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decode/decode.h"

/* Files larger than this are sniffed before they are read. */
#define LOOK_FIRST_ABOVE ((size_t)1 << 20)
#define LOOK_BYTES       4096
#define MAP_BYTES        ((size_t)4 << 20)
#define IO_TRIES         3

/* Large blocks come from the system and go back to it.  The C library would keep what is freed, in a
 * heap for each thread, and a cap on what pictures take would be no cap on the process. */
static uint8_t *take_block(size_t n)
{
    if (n < MAP_BYTES) return malloc(n);
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void give_block(uint8_t *p, size_t n)
{
    if (n < MAP_BYTES) {
        free(p);
    } else {
        munmap(p, n); /* cannot fail for what mmap gave */
    }
}

ldr_status ldri_buffer_reserve(ldri_buffer *b, size_t n)
{
    if (n <= b->capacity) return LDR_OK;
    ldri_buffer_free(b); /* first: both at once would be more than was asked for */
    size_t capacity = n + (n < MAP_BYTES ? n / 4 + 65536 : 0);
    b->bytes = take_block(capacity);
    if (!b->bytes) return LDR_E_NOMEM;
    b->capacity = capacity;
    return LDR_OK;
}

void ldri_buffer_free(ldri_buffer *b)
{
    if (b->bytes) give_block(b->bytes, b->capacity);
    *b = (ldri_buffer){0};
}

void ldri_buffer_trim(ldri_buffer *b, size_t keep)
{
    if (b->capacity > keep) ldri_buffer_free(b);
}

/* What an errno of open or read says about the file.  EIO is not here: it is tried again first. */
static ldr_status file_error(ldri_failure *why, int e)
{
    switch (e) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return ldri_failure_set(why, LDR_E_IO, LDR_CAUSE_MISSING, e, "%s", strerror(e));
    case ENOMEM:
        return ldri_failure_set(why, LDR_E_NOMEM, LDR_CAUSE_NONE, e, "%s", strerror(e));
    case EMFILE:
    case ENFILE:
        return ldri_failure_set(why, LDR_E_IO, LDR_CAUSE_NONE, e,
                                "%s: raise the limit on open files (ulimit -n)", strerror(e));
    case EIO:
        return ldri_failure_set(why, LDR_E_IO, LDR_CAUSE_NONE, e, "%s, %d times", strerror(e),
                                IO_TRIES);
    default:
        return ldri_failure_set(why, LDR_E_IO, LDR_CAUSE_UNREADABLE, e, "%s", strerror(e));
    }
}

/* The first n bytes of a file, or all if it is shorter by now. */
static ldr_status read_start(int fd, size_t n, ldri_buffer *buf, ldri_failure *why)
{
    if (ldri_buffer_reserve(buf, n) < 0) {
        return ldri_failure_set(why, LDR_E_NOMEM, LDR_CAUSE_NONE, ENOMEM,
                                "out of memory for %zu bytes of the file", n);
    }
    buf->n = 0;
    while (buf->n < n) {
        ssize_t r = pread(fd, buf->bytes + buf->n, n - buf->n, (off_t)buf->n);
        if (r == 0) break;
        if (r > 0) {
            buf->n += (size_t)r;
        } else if (errno != EINTR) {
            return file_error(why, errno);
        }
    }
    if (buf->n == 0) {
        return ldri_failure_set(why, LDR_E_FORMAT, LDR_CAUSE_EMPTY, 0, "the file is empty");
    }
    return LDR_OK;
}

ldr_status ldri_admit(const ldri_admission *admission, size_t bytes, ldri_failure *why)
{
    ldr_status s = admission ? admission->admit(admission->arg, bytes) : LDR_OK;
    if (s == LDR_E_LIMIT) {
        return ldri_failure_set(why, s, LDR_CAUSE_LIMIT, 0, "%zu bytes, more than decode_limit",
                                bytes);
    }
    if (s < 0) return ldri_failure_set(why, s, LDR_CAUSE_NONE, 0, "the loader stops");
    return LDR_OK;
}

static ldr_status read_open_file(int fd, const ldri_limits *limits, const ldri_admission *admission,
                                 ldri_buffer *buf, ldri_failure *why)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return file_error(why, errno);
    if (!S_ISREG(st.st_mode)) {
        return ldri_failure_set(why, LDR_E_IO, LDR_CAUSE_UNREADABLE, 0, "not a regular file");
    }
    size_t size = (size_t)st.st_size;
    if (size > limits->max_file) {
        return ldri_failure_set(why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, 0,
                                "%zu bytes, more than max_file %zu", size, limits->max_file);
    }
    if (size > LOOK_FIRST_ABOVE) {
        const char *name;
        ldr_status s = read_start(fd, LOOK_BYTES, buf, why);
        if (s < 0) return s;
        if (ldri_sniff(buf->bytes, buf->n, &name) == LDRI_FORMAT_UNKNOWN) {
            return ldri_failure_set(why, LDR_E_FORMAT, LDR_CAUSE_FORMAT, 0, "%s%s, not JPEG or PNG",
                                    name[0] ? "this is " : "unknown", name);
        }
    }
    /* Some file systems say 0 for files that have bytes: ask for a page all the same. */
    if (!size) size = LOOK_BYTES;
    ldr_status s = ldri_admit(admission, size, why);
    if (s < 0) return s;
    return read_start(fd, size, buf, why);
}

ldr_status ldri_read_file(int dir_fd, const char *path, const ldri_limits *limits,
                          const ldri_admission *admission, ldri_buffer *buf, ldri_failure *why)
{
    ldr_status s = LDR_E_IO;
    for (int try = 0; try < IO_TRIES; try++) {
        buf->n = 0;
        int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) {
            if (errno == EINTR) {
                try--;
                continue;
            }
            s = file_error(why, errno);
        } else {
            s = read_open_file(fd, limits, admission, buf, why);
            close(fd);
        }
        if (s >= 0 || why->detail != EIO) return s;
    }
    return s;
}

void ldri_read_ahead(int dir_fd, const char *path)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED); /* a hint */
    close(fd);
}
