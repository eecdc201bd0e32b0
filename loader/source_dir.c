/* source_dir.c - lists a directory of class folders (what counts as what: source.h).
 *
 * One directory is open at a time, and it is read to its end before anything below it: depth costs
 * memory, not descriptors or C stack.  Its names go on a stack of names, are sorted as they would
 * compare inside the full path (directories with '/' behind them), and are then taken in that
 * order; so the list comes out sorted and the table is written once.  Directories are opened by
 * their path from the source, which is why a path is limited to 4,095 bytes.
 *
 * With follow_links the links to directories met on the way are put aside and followed when all
 * that is really there has been listed: turning the option on adds samples and moves none to
 * another class. */
#include "loader/source_table.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4095 };

typedef enum kind { PICTURE, DIRECTORY, DIRECTORY_LINK } kind;

typedef struct entry { /* one name of a directory that is being listed */
    uint64_t key;      /* its first 8 bytes behind what all names of the directory share */
    union {
        size_t at;        /* of its kind and name in walk.names */
        const char *name; /* while a directory is being sorted */
    } u;
} entry;

typedef struct frame { /* a directory that is being listed */
    size_t first, next, end;
    size_t names_at;      /* walk.names above this are its own */
    size_t parent_length; /* of walk.path, to go back to */
} frame;

typedef struct directory_id {
    dev_t dev;
    ino_t ino;
    int used;
} directory_id;

typedef struct put_aside { /* a link to a directory below a class */
    size_t path_at, length;
    uint32_t class_id;
} put_aside;

typedef struct walk {
    ldri_source *s;
    ldr_error *err;
    int follow_links;
    int links_now; /* all that is really there has been listed */
    uint32_t class_id;
    size_t path_length; /* 0, or up to and with the '/' behind a directory */
    char *names;
    size_t names_used, names_capacity;
    entry *entries;
    size_t n_entries, entries_capacity;
    frame *frames;
    size_t n_frames, frames_capacity;
    directory_id *seen; /* hash table, half full at most: not to be listed through a link */
    size_t n_seen, seen_capacity;
    put_aside *links;
    size_t n_links, links_capacity;
    char *link_paths;
    size_t link_paths_used, link_paths_capacity;
    char path[PATH_BYTES + 1];
} walk;

static ldr_status out_of_memory(walk *w)
{
    return ldri_error_set(w->err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE,
                          "out of memory for the list of samples");
}

static ldr_status fail_at(walk *w, int code, const char *what)
{
    char root[200], path[200];
    ldri_printable_path(root, sizeof root, w->s->root);
    w->path[w->path_length] = 0;
    ldri_printable_path(path, sizeof path, w->path);
    return ldri_error_set(w->err, code == ENOMEM ? LDR_E_NOMEM : LDR_E_IO, code, LDR_NO_SAMPLE,
                          "cannot %s %s%s%s: %s", what, root, w->path_length ? "/" : "", path,
                          strerror(code));
}

/* --- directories that were listed ------------------------------------------------------------- */

static size_t id_slot(const walk *w, dev_t dev, ino_t ino)
{
    uint64_t h = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9E3779B97F4A7C15u;
    size_t slot = (size_t)(h >> 20) & (w->seen_capacity - 1);
    while (w->seen[slot].used && (w->seen[slot].dev != dev || w->seen[slot].ino != ino)) {
        slot = (slot + 1) & (w->seen_capacity - 1);
    }
    return slot;
}

static int was_seen(const walk *w, const struct stat *st)
{
    return w->seen[id_slot(w, st->st_dev, st->st_ino)].used;
}

static ldr_status remember(walk *w, const struct stat *st)
{
    if (2 * (w->n_seen + 1) > w->seen_capacity) {
        size_t old_capacity = w->seen_capacity;
        directory_id *old = w->seen;
        size_t capacity = old_capacity ? 2 * old_capacity : 64;
        directory_id *seen = calloc(capacity, sizeof *seen);
        if (!seen) return out_of_memory(w);
        w->seen = seen;
        w->seen_capacity = capacity;
        for (size_t i = 0; i < old_capacity; i++) {
            if (old[i].used) seen[id_slot(w, old[i].dev, old[i].ino)] = old[i];
        }
        free(old);
    }
    directory_id *id = &w->seen[id_slot(w, st->st_dev, st->st_ino)];
    w->n_seen += !id->used;
    *id = (directory_id){st->st_dev, st->st_ino, 1};
    return LDR_OK;
}

/* The source and the directories above it: a link to one of them leads back to where it stands. */
static ldr_status remember_ancestors(walk *w)
{
    char up[3 * 256 + 2] = ".";
    struct stat above = {0};
    for (int level = 0; level < 256; level++) {
        struct stat st;
        if (fstatat(w->s->root_fd, up, &st, 0) < 0) break; /* not searchable: that far, then */
        if (level && st.st_dev == above.st_dev && st.st_ino == above.st_ino) break; /* "/" */
        ldr_status status = remember(w, &st);
        if (status < 0) return status;
        above = st;
        memcpy(up + 3 * level, "../", 4);
    }
    return LDR_OK;
}

/* --- one directory ---------------------------------------------------------------------------- */

static int has_picture_name(const char *name, size_t length)
{
    static const char endings[][6] = {".jpg", ".jpeg", ".png", ".jpe", ".jfif"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]), k = 0;
        if (length < n) continue;
        const char *tail = name + length - n;
        while (k < n && (tail[k] | (k ? 0x20 : 0)) == endings[i][k]) k++;
        if (k == n) return 1;
    }
    return 0;
}

static void pass_over_link(walk *w, const char *path)
{
    ldri_source_counts *c = &w->s->counts;
    if (!c->directory_links++) {
        ldri_printable_path(c->first_directory_link, sizeof c->first_directory_link, path);
    }
}

static void pass_over_unlistable(walk *w)
{
    ldri_source_counts *c = &w->s->counts;
    if (!c->unlistable++) {
        w->path[w->path_length - 1] = 0;
        ldri_printable_path(c->first_unlistable, sizeof c->first_unlistable, w->path);
        w->path[w->path_length - 1] = '/';
    }
}

/* Names the link `name` of the directory that is being read. */
static void pass_over_link_here(walk *w, const char *name, size_t length)
{
    if (w->path_length + length <= PATH_BYTES) {
        memcpy(w->path + w->path_length, name, length + 1);
        pass_over_link(w, w->path);
    } else {
        w->s->counts.directory_links++;
    }
}

/* Puts a name on the stack.  The '/' behind a directory makes it sort as it does inside a path. */
static ldr_status push_name(walk *w, kind what, const char *name, size_t length)
{
    size_t bytes = length + 3;
    if (w->names_used + bytes > w->names_capacity) {
        char *names = ldri_table_reserve(w->names, &w->names_capacity, w->names_used + bytes, 1);
        if (!names) return out_of_memory(w);
        w->names = names;
    }
    if (w->n_entries >= w->entries_capacity) {
        entry *entries =
            ldri_table_reserve(w->entries, &w->entries_capacity, w->n_entries + 1, sizeof *entries);
        if (!entries) return out_of_memory(w);
        w->entries = entries;
    }
    char *to = w->names + w->names_used;
    *to++ = (char)what;
    memcpy(to, name, length);
    to += length;
    if (what != PICTURE) *to++ = '/';
    *to++ = 0;
    w->entries[w->n_entries++].u.at = w->names_used;
    w->names_used = (size_t)(to - w->names);
    return LDR_OK;
}

/* A link: what it leads to decides.  One that cannot be followed is listed by its name; opening it
 * will tell the cause. */
static ldr_status sort_link(walk *w, int fd, const char *name, size_t length)
{
    int picture = has_picture_name(name, length);
    struct stat st;
    if (fstatat(fd, name, &st, 0) < 0 || S_ISREG(st.st_mode)) {
        if (picture) return push_name(w, PICTURE, name, length);
        w->s->counts.other++;
        return LDR_OK;
    }
    if (S_ISDIR(st.st_mode)) {
        int stands_for_class = w->path_length == 0;
        if (stands_for_class ? !was_seen(w, &st) : w->follow_links) {
            return push_name(w, DIRECTORY_LINK, name, length);
        }
        pass_over_link_here(w, name, length);
        return LDR_OK;
    }
    if (picture) {
        w->s->counts.special++;
    } else {
        w->s->counts.other++;
    }
    return LDR_OK;
}

static ldr_status sort_name(walk *w, int fd, const struct dirent *d)
{
    const char *name = d->d_name;
    if (name[0] == '.') {
        if (name[1] == 0 || (name[1] == '.' && name[2] == 0)) return LDR_OK;
        w->s->counts.hidden++;
        return LDR_OK;
    }
    size_t length = strlen(name);
    int type = d->d_type;
    if (type == DT_UNKNOWN) { /* some file systems do not say */
        struct stat st;
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT) return LDR_OK; /* went away since */
            type = DT_REG;                      /* opening it will tell */
        } else {
            type = S_ISREG(st.st_mode)   ? DT_REG
                   : S_ISDIR(st.st_mode) ? DT_DIR
                   : S_ISLNK(st.st_mode) ? DT_LNK
                                         : DT_FIFO;
        }
    }
    if (type == DT_DIR) return push_name(w, DIRECTORY, name, length);
    if (type == DT_LNK) return sort_link(w, fd, name, length);
    if (!has_picture_name(name, length)) {
        w->s->counts.other++;
        return LDR_OK;
    }
    if (type != DT_REG) {
        w->s->counts.special++;
        return LDR_OK;
    }
    return push_name(w, PICTURE, name, length);
}

static int by_key_then_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return strcmp(x->u.name, y->u.name);
}

/* Comparing 8 bytes as a number, taken where the names begin to differ, saves most calls of strcmp
 * and the cache misses that go with them. */
static void sort_entries(walk *w, size_t first)
{
    size_t n = w->n_entries - first;
    entry *e = w->entries + first;
    if (n < 2) return;
    for (size_t i = 0; i < n; i++) e[i].u.name = w->names + e[i].u.at + 1;
    size_t shared = strlen(e[0].u.name);
    for (size_t i = 1; i < n; i++) {
        size_t k = 0;
        while (k < shared && e[i].u.name[k] == e[0].u.name[k]) k++;
        shared = k;
    }
    int sorted = 1;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *from = (const unsigned char *)e[i].u.name + shared;
        uint64_t key = 0;
        int k = 0;
        for (; k < 8 && from[k]; k++) key = key << 8 | from[k];
        e[i].key = k ? key << 8 * (8 - k) : 0;
        sorted = sorted && (i == 0 || e[i - 1].key < e[i].key);
    }
    if (!sorted) qsort(e, n, sizeof *e, by_key_then_name);
    for (size_t i = 0; i < n; i++) e[i].u.at = (size_t)(e[i].u.name - w->names) - 1;
}

/* Opens the directory w->path.  *out is NULL if it is passed over. */
static ldr_status open_directory(walk *w, int through_link, DIR **out)
{
    *out = NULL;
    int fd;
    if (w->path_length) w->path[w->path_length - 1] = 0;
    do {
        fd = openat(w->s->root_fd, w->path_length ? w->path : ".",
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK |
                        (through_link ? 0 : O_NOFOLLOW));
    } while (fd < 0 && errno == EINTR);
    int code = errno;
    if (w->path_length) w->path[w->path_length - 1] = '/';
    if (fd < 0) {
        /* No permission, or it went away or turned into something else since its name was read.
         * Anything else (descriptors, memory, the disk) would change the list by chance. */
        if (w->path_length && (code == EACCES || code == EPERM || code == ENOENT ||
                               code == ENOTDIR || code == ELOOP)) {
            pass_over_unlistable(w);
            return LDR_OK;
        }
        return fail_at(w, code, "list");
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        code = errno;
        close(fd);
        return fail_at(w, code, "list");
    }
    *out = dir;
    return LDR_OK;
}

/* Reads the directory w->path and makes a frame of it; on failure or if it is passed over w->path
 * goes back to parent_length.  *listed tells. */
static ldr_status enter(walk *w, int through_link, size_t parent_length, int *listed)
{
    *listed = 0;
    frame f = {.first = w->n_entries,
               .next = w->n_entries,
               .names_at = w->names_used,
               .parent_length = parent_length};
    frame *frames =
        ldri_table_reserve(w->frames, &w->frames_capacity, w->n_frames + 1, sizeof *frames);
    if (!frames) return out_of_memory(w);
    w->frames = frames;
    DIR *dir;
    ldr_status status = open_directory(w, through_link, &dir);
    if (status < 0) return status;
    if (!dir) {
        w->path_length = parent_length;
        return LDR_OK;
    }
    if (w->follow_links) {
        struct stat st;
        if (fstat(dirfd(dir), &st) < 0) {
            status = fail_at(w, errno, "list");
            goto close_dir;
        }
        if (w->links_now && was_seen(w, &st)) {
            if (through_link) {
                w->path[w->path_length - 1] = 0;
                pass_over_link(w, w->path);
            }
            w->path_length = parent_length;
            goto close_dir;
        }
        status = remember(w, &st);
        if (status < 0) goto close_dir;
    }
    for (;;) {
        errno = 0;
        struct dirent *d = readdir(dir);
        if (!d) {
            if (errno) status = fail_at(w, errno, "list");
            break;
        }
        status = sort_name(w, dirfd(dir), d);
        if (status < 0) break;
    }
    if (status < 0) goto close_dir;
    sort_entries(w, f.first);
    f.end = w->n_entries;
    w->frames[w->n_frames++] = f;
    *listed = 1;
close_dir:
    closedir(dir); /* it was only read: a failure to close says nothing about the list */
    return status;
}

static void leave(walk *w)
{
    const frame *f = &w->frames[--w->n_frames];
    w->n_entries = f->first;
    w->names_used = f->names_at;
    w->path_length = f->parent_length;
}

/* --- the tree --------------------------------------------------------------------------------- */

static ldr_status put_link_aside(walk *w)
{
    put_aside *links =
        ldri_table_reserve(w->links, &w->links_capacity, w->n_links + 1, sizeof *links);
    if (!links) return out_of_memory(w);
    w->links = links;
    char *paths = ldri_table_reserve(w->link_paths, &w->link_paths_capacity,
                                     w->link_paths_used + w->path_length, 1);
    if (!paths) return out_of_memory(w);
    w->link_paths = paths;
    memcpy(paths + w->link_paths_used, w->path, w->path_length);
    links[w->n_links++] = (put_aside){w->link_paths_used, w->path_length, w->class_id};
    w->link_paths_used += w->path_length;
    return LDR_OK;
}

/* Appends to w->path.  0: the path would be too long, which is counted. */
static int append(walk *w, const char *name, size_t length)
{
    if (w->path_length + length > PATH_BYTES) {
        w->s->counts.too_long++;
        return 0;
    }
    memcpy(w->path + w->path_length, name, length);
    w->path_length += length;
    return 1;
}

static ldr_status take(walk *w, const entry *e)
{
    const char *name = w->names + e->u.at + 1;
    kind what = (kind)name[-1];
    size_t length = strlen(name), parent_length = w->path_length;
    if (what == PICTURE) {
        if (parent_length + length > PATH_BYTES) {
            w->s->counts.too_long++;
            return LDR_OK;
        }
        ldr_status status = ldri_table_add(w->s, w->path, parent_length, name, length, w->class_id);
        return status < 0 ? out_of_memory(w) : LDR_OK;
    }
    if (!append(w, name, length)) return LDR_OK;
    if (what == DIRECTORY_LINK) {
        ldr_status status = put_link_aside(w);
        w->path_length = parent_length;
        return status;
    }
    int listed;
    return enter(w, 0, parent_length, &listed);
}

/* Lists all below w->path (which goes back to parent_length) as samples of w->class_id. */
static ldr_status list_tree(walk *w, int through_link, size_t parent_length, int *listed)
{
    size_t outside = w->n_frames;
    ldr_status status = enter(w, through_link, parent_length, listed);
    while (status >= 0 && w->n_frames > outside) {
        frame *f = &w->frames[w->n_frames - 1];
        if (f->next == f->end) {
            leave(w);
        } else {
            status = take(w, &w->entries[f->next++]);
        }
    }
    return status;
}

static ldr_status list_links(walk *w)
{
    ldr_status status = LDR_OK;
    w->links_now = 1;
    /* More may be put aside meanwhile. */
    for (size_t i = 0; i < w->n_links && status >= 0; i++) {
        const put_aside *link = &w->links[i];
        memcpy(w->path, w->link_paths + link->path_at, link->length);
        w->path_length = link->length;
        w->class_id = link->class_id;
        int listed;
        status = list_tree(w, 1, 0, &listed);
    }
    return status;
}

/* The source is one class: it is named after its last component. */
static ldr_status list_as_one_class(walk *w, const frame *top)
{
    const char *root = w->s->root;
    char *real = NULL;
    size_t end = strlen(root);
    while (end > 1 && root[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && root[start - 1] != '/') start--;
    if (start == end || strncmp(root + start, ".", end - start) == 0 ||
        strncmp(root + start, "..", end - start) == 0) {
        real = realpath(root, NULL); /* "." and ".." say nothing */
        if (real && strrchr(real, '/')[1]) {
            start = (size_t)(strrchr(real, '/') + 1 - real);
            end = strlen(real);
            root = real;
        }
    }
    if (start == end) { /* the root of the file system has no other name */
        root = "/";
        start = 0;
        end = 1;
    }
    ldr_status status = ldri_table_add_class(w->s, root + start, end - start, &w->class_id);
    free(real);
    if (status < 0) return out_of_memory(w);
    for (size_t i = top->first; i < top->end && status >= 0; i++) {
        if (w->names[w->entries[i].u.at] == PICTURE) status = take(w, &w->entries[i]);
    }
    return status;
}

static ldr_status no_pictures(walk *w)
{
    const ldri_source_counts *c = &w->s->counts;
    char root[200];
    ldri_printable_path(root, sizeof root, w->s->root);
    if (c->unlistable) {
        return ldri_error_set(w->err, LDR_E_IO, 0, LDR_NO_SAMPLE,
                              "%s: no picture found, and %llu directories cannot be listed (first: "
                              "%.100s): check their permissions",
                              root, (unsigned long long)c->unlistable, c->first_unlistable);
    }
    if (c->directory_links) {
        return ldri_error_set(w->err, LDR_E_IO, 0, LDR_NO_SAMPLE,
                              "%s: no picture found, and %llu links to directories were not "
                              "followed (first: %.100s): set follow_links",
                              root, (unsigned long long)c->directory_links,
                              c->first_directory_link);
    }
    return ldri_error_set(w->err, LDR_E_IO, 0, LDR_NO_SAMPLE,
                          "%s: no picture found (%llu other files, %llu hidden names): give a "
                          "directory with .jpg .jpeg .jpe .jfif or .png files, or class folders of "
                          "them",
                          root, (unsigned long long)c->other, (unsigned long long)c->hidden);
}

static ldr_status list_source(walk *w, ldr_order order)
{
    ldri_source *s = w->s;
    int listed;
    ldr_status status = remember_ancestors(w);
    if (status < 0) return status;
    status = enter(w, 1, 0, &listed);
    if (status < 0) return status;
    assert(listed);
    const frame top = w->frames[0];
    uint64_t n_pictures = 0, n_listed = 0;
    for (size_t i = top.first; i < top.end; i++) {
        const char *name = w->names + w->entries[i].u.at + 1;
        kind what = (kind)name[-1];
        if (what == PICTURE) {
            n_pictures++;
            continue;
        }
        size_t length = strlen(name);
        if (!append(w, name, length)) continue;
        status = ldri_table_add_class(s, name, length - 1, &w->class_id);
        if (status < 0) return out_of_memory(w);
        status = list_tree(w, what == DIRECTORY_LINK, 0, &listed);
        if (status < 0) return status;
        n_listed += (uint64_t)listed;
    }
    int linked = w->n_links > 0;
    status = list_links(w);
    if (status < 0) return status;

    uint64_t n_empty = n_listed;
    for (size_t i = 0; i < s->n_classes; i++) n_empty -= s->classes[i].n_samples > 0;
    s->counts.empty_classes = n_empty;
    if (s->n_samples) {
        s->counts.outside = n_pictures;
    } else if (n_pictures) {
        status = list_as_one_class(w, &top);
        if (status < 0) return status;
    } else {
        return no_pictures(w);
    }
    status = ldri_table_finish(s, order, !linked);
    return status < 0 ? out_of_memory(w) : LDR_OK;
}

static ldr_status open_root(walk *w)
{
    int fd;
    do {
        /* O_PATH: what is listed, and what may not be, is told in one place, enter(). */
        fd = open(w->s->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0) {
        w->s->root_fd = fd;
        /* Listing and opening files need different rights of the source itself. */
        if (faccessat(fd, ".", R_OK | X_OK, AT_EACCESS) == 0 || errno != EACCES) return LDR_OK;
    }
    int code = errno;
    char root[256];
    ldri_printable_path(root, sizeof root, w->s->root);
    switch (code) {
    case ENOENT:
        return ldri_error_set(w->err, LDR_E_IO, code, LDR_NO_SAMPLE,
                              "%s: no such directory or list: check the path", root);
    case ENOTDIR:
        return ldri_error_set(
            w->err, LDR_E_IO, code, LDR_NO_SAMPLE,
            "%s: not a directory: give a directory of class folders or pictures, or a list", root);
    case EACCES:
        return ldri_error_set(w->err, LDR_E_IO, code, LDR_NO_SAMPLE,
                              "%s: permission denied: the directory must be readable and "
                              "searchable (r-x)",
                              root);
    default:
        return ldri_error_set(w->err, code == ENOMEM ? LDR_E_NOMEM : LDR_E_IO, code, LDR_NO_SAMPLE,
                              "%s: cannot be opened: %s", root, strerror(code));
    }
}

ldr_status ldri_source_list_directory(ldri_source *s, const ldr_options *o, ldr_error *err)
{
    walk *w = calloc(1, sizeof *w);
    if (!w) {
        return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE,
                              "out of memory for the list of samples");
    }
    w->s = s;
    w->err = err;
    w->follow_links = o->follow_links != 0;
    ldr_status status = open_root(w);
    if (status >= 0) status = list_source(w, o->class_order);
    free(w->names);
    free(w->entries);
    free(w->frames);
    free(w->seen);
    free(w->links);
    free(w->link_paths);
    free(w);
    return status;
}
