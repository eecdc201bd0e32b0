/* cpus.h - how many CPUs this process may use. */
#ifndef LDR_CPUS_H
#define LDR_CPUS_H

#include <stdint.h>

/* The CPUs in the calling thread's affinity mask, or the control group's CPU quota (rounded up)
 * where that is smaller; at least 1.  Reads /proc and /sys; changes nothing. */
uint32_t ldri_cpus_allowed(void);

/* The smallest CPU quota, rounded up to whole CPUs, of the process's control group and those above
 * it, versions 1 and 2; 0: there is none, or none can be seen.  root_prefix is put before every
 * absolute path that is opened: "" but in tests. */
uint32_t ldri_cpus_quota(const char *root_prefix);

#endif
