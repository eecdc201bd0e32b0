/* helper_cmocka.h - cmocka with the headers it wants before it. */
#ifndef LDR_HELPER_CMOCKA_H
#define LDR_HELPER_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
