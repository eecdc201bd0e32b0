#!/usr/bin/env bash
# Writes the manual page ldr(1), in roff, from the command's own help texts.
# usage: man.sh LDR >ldr.1
set -euo pipefail
ldr=$1
version=$("$ldr" --version | cut -d' ' -f2)

roff() { # text as it stands: backslashes, and dots and quotes that begin a line, mean something to roff
    sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\&&/" -e 's/-/\\-/g'
}
block() { printf '.nf\n%s\n.fi\n' "$(roff)"; }

printf '.TH LDR 1 "" "ldr %s" "User Commands"\n' "$version"
printf '.SH NAME\nldr \\- load images for training\n'
printf '.SH SYNOPSIS\n.B ldr\n.I VERB\n\\&... [options]\n'
printf '.SH DESCRIPTION\n'
"$ldr" --help | sed 1,2d | block
for verb in $("$ldr" --help | sed -n 's/^  \([a-z]*\) [A-Z[].*/\1/p'); do
    [ "$verb" = help ] && continue
    printf '.SH %s\n' "${verb^^}"
    "$ldr" "$verb" --help | block
done
printf '.SH OPTIONS\n'
"$ldr" help options | block
printf '.SH ENVIRONMENT\n'
printf '.TP\n.B LDR_DEBUG\nLEVEL[,SUBSYSTEM...]: what is logged beside warnings. '
printf 'Levels: error, warn, info, debug; subsystems: source, memory, decode, stage, wait.\n'
printf '.TP\n.B LDR_SIMD\nnone, avx2, avx512 or auto: which instructions are used; the bytes are the same.\n'
printf '.TP\n.B LDR_WATCHDOG\nSeconds after which a wait for a batch is reported; 10 by default, 0: never.\n'
printf '.SH EXAMPLES\n'
printf 'ldr run photos/train\nldr preview photos/train -o contact.png\nldr verify photos/train --threads 3\n' | block
