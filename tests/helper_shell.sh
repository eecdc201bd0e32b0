# helper_shell.sh - for check_*.sh: sourced first.  Goes to a new empty folder that is removed at
# the end, and defines how checks report: `ok NAME`, `FAIL NAME why`, `skip NAME
# reason`.  Wants LDR (the command) and BUILD (the build folder).
set -u
ldr=$LDR
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

ok() { echo "ok $1"; }
fail() { # NAME WHY
    echo "FAIL $1 $2"
    failed=1
}
skip() { echo "skip $1 $2"; }

same() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then ok "$1"; else fail "$1" "expected '$2', got '$3'"; fi
}

differ() { # NAME A B
    if [ -n "$3" ] && [ "$2" != "$3" ]; then ok "$1"; else fail "$1" "both are '$3'"; fi
}

# Runs a command that must fail: with this status, one line on standard error that contains WORD,
# nothing on standard output.
refused() { # NAME STATUS WORD COMMAND...
    local name=$1 status=$2 word=$3
    shift 3
    "$@" >refused.out 2>refused.err
    local got=$?
    if [ $got != "$status" ]; then
        fail "$name" "status $got instead of $status"
    elif [ "$(wc -l <refused.err)" != 1 ]; then
        fail "$name" "$(wc -l <refused.err) lines on standard error"
    elif ! grep -q "^ldr: .*$word" refused.err; then
        fail "$name" "no '$word' in: $(cat refused.err)"
    elif [ -s refused.out ]; then
        fail "$name" "something on standard output"
    else
        ok "$name"
    fi
}

python() { # NAME PROGRAM FILE: a check of a document; the program fails with an assertion
    if ! command -v python3 >/dev/null; then
        skip "$1" "no python3"
    elif why=$(python3 -c "import json, sys
$2" "$3" 2>&1); then
        ok "$1"
    else
        fail "$1" "$(echo "$why" | tail -n 1)"
    fi
}

help_fits() { # NAME [VERB]
    "$ldr" ${2:-} --help >help.txt 2>help.err
    if [ $? != 0 ] || [ -s help.err ] || [ ! -s help.txt ]; then
        fail "$1" "no help"
    elif [ "$(wc -l <help.txt)" -gt 24 ] || grep -q '.\{81\}' help.txt; then
        fail "$1" "does not fit 24 lines of 80 columns"
    else
        ok "$1"
    fi
}
