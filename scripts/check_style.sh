#!/bin/sh
# check_style.sh: what the house style can check by itself: lengths, banned calls, first comments, unfinished words.
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() {
    echo "$*"
    bad=1
}

sources=$(find src include tools tests examples \( -name '*.c' -o -name '*.h' \) | sort)
for file in $sources; do
    lines=$(wc -l <"$file")
    [ "$lines" -gt 800 ] && complain "$file: $lines lines, more than 800"
    head -c 2 "$file" | grep -q '^/\*' || complain "$file: begins without a comment that says what it is"
done

# shellcheck disable=SC2086
awk '
    FNR == 1 { start = 0 }
    length($0) > 120 && !/https?:/ && FILENAME !~ /iq_tables|unicode/ { print FILENAME ":" FNR ": " length($0) " columns, more than 120"; bad = 1 }
    /\t/ { print FILENAME ":" FNR ": a tab"; bad = 1 }
    /[ ]$/ { print FILENAME ":" FNR ": blanks at the end of the line"; bad = 1 }
    /^[A-Za-z].*\) \{$/ { start = FNR; name = $0 }
    /^}/ && start { if (FNR - start > 70) { print FILENAME ":" start ": a function of " FNR - start " lines, more than 70"; bad = 1 } start = 0 }
    END { exit bad }
' $sources || bad=1

# The library never prints, exits or reads the environment; memory comes from base/ or is charged to a Budget.
grep -nE '(^|[^a-z_])(printf|fprintf|puts|exit|abort|getenv|system|popen)\(' -r src --include='*.c' && complain "src: the library neither prints nor exits nor reads the environment"
grep -nE '(^|[^a-z_])(malloc|calloc|realloc|strdup|free)\(' -r src --include='*.c' |
    grep -vE '^src/(base|os|text|api)/' && complain "src: memory comes from an Arena, th_mem_alloc or th_vm_alloc"
grep -nE '(TODO|FIXME|XXX|HACK)' -r src tools include tests scripts --include='*.[ch]' | grep -v 'XXXXXX"' && complain "unfinished by its own words"
git ls-files | grep -vE '\.(gguf|bin|logits)$|^tests/fuzz/corpus/' | xargs grep -nIE '(^|[^a-z.])/(work|root|home/[a-z]+)/' -- 2>/dev/null | grep -v 'check_style.sh' && complain "paths of one machine"
git ls-files | while read -r file; do
    [ -f "$file" ] && [ "$(wc -c <"$file")" -gt 2097152 ] && echo "$file: more than 2 MB"
done | grep . && bad=1
[ "$bad" -eq 0 ] && echo "style: ok"
exit "$bad"
