#!/usr/bin/env bash
# Builds nothing: runs the samples as their own comments say, on pictures that a sample draws.
set -u
S=$BUILD/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
ok() { echo "ok $1"; }
fail() { echo "FAIL $*"; }

"$S/draw_photos" photos 24 1 96 || fail draw_photos
tar --format=ustar -cf photos.tar -C photos .
(cd photos && find . -type f -printf '%p\t%h\n') >photos.list
out=$("$S/fetch_tar" photos.tar photos.list 2>&1)
[[ $out == *"24 files in photos.tar"*"24 images of 8 classes"* ]] && ok fetch_tar || fail fetch_tar "$out"
printf './none.jpg\tcat\n' >none.list
out=$("$S/fetch_tar" photos.tar none.list 2>&1)
[[ $? = 1 && $out == *none.jpg* ]] && ok fetch_tar_missing_member || fail fetch_tar_missing_member "$out"

out=$(LDR_DEBUG=debug,stage "$S/log_lines" photos 2>&1)
[[ $out == *"DEBUG loader: batch 0 of epoch 0: 24 images"* ]] && ok log_debug || fail log_debug "$out"
out=$("$S/log_lines" photos 2>&1)
[[ -z $out ]] && ok log_quiet || fail log_quiet "$out"

one=$("$S/after" photos 2>&1)
[[ $one == "24 images, "*" solarized, sum of values "* && $one != *" 0 solarized"* ]] && ok after || fail after "$one"
[[ $("$S/after" photos 2>&1) == "$one" ]] && ok after_again || fail after_again "differs"
