/* device_calls.h - how often the device's library was called; for the command. */
#ifndef LDR_DEVICE_CALLS_H
#define LDR_DEVICE_CALLS_H

#include "loader/loader.h"

/* each(user, function, count) for every function that was called.  None on the CPU. */
void ldri_device_calls(const ldr *ld, void (*each)(void *user, const char *name, uint64_t n),
                       void *user);

#endif
