/* read.h - a file's bytes into a buffer that is kept from file to file. */
#ifndef LDR_READ_H
#define LDR_READ_H

#include "loader/status.h"

typedef struct ldri_buffer { /* zeroed: empty */
    uint8_t *bytes;
    size_t n, capacity;
} ldri_buffer;

/* Makes room for at least n bytes; what was there is lost.  LDR_E_NOMEM leaves the buffer as it
 * was. */
ldr_status ldri_buffer_reserve(ldri_buffer *b, size_t n);
void ldri_buffer_free(ldri_buffer *b);

/* Gives an unusually large block back, so that one huge picture does not stay in memory for ever.
 */
void ldri_buffer_trim(ldri_buffer *b, size_t keep);

/* Reads the regular file `path`, relative to dir_fd (or AT_FDCWD), whole.  Never blocks on a FIFO
 * or device.  A large file is looked at before it is read: what is neither JPEG nor PNG is refused
 * after its first bytes.  On failure *why tells the cause; NONE for a lack of memory or
 * descriptors, and for an I/O error that stayed through three tries. */
ldr_status ldri_read_file(int dir_fd, const char *path, const ldri_limits *limits, ldri_buffer *buf,
                          ldri_failure *why);

#endif
