/* x86.h - whether the vector levels are built.  -DLDRI_X86=0 leaves plain C only, as elsewhere. */
#ifndef LDR_X86_H
#define LDR_X86_H

#ifndef LDRI_X86
#if defined(__x86_64__) && defined(__GNUC__)
#define LDRI_X86 1
#else
#define LDRI_X86 0
#endif
#endif

#endif
