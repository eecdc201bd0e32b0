#!/usr/bin/env bash
# Draws a small tree of pictures, loads it, writes a contact sheet.
# usage: demo.sh BUILD_DIR OUT_DIR
set -eu
build=$1 out=$2
tree=$out/photos

mkdir -p "$out"
if [ ! -d "$tree" ]; then
    rm -rf "$tree.part"
    "$build/samples/draw_photos" "$tree.part" 96 1 320
    mv "$tree.part" "$tree" # whole or not at all
fi

echo "\$ ldr run $tree --epochs 10 --batch 32"
"$build/ldr" run "$tree" --epochs 10 --batch 32
echo
echo "\$ ldr preview $tree -o $out/contact.png"
"$build/ldr" preview "$tree" -o "$out/contact.png"
