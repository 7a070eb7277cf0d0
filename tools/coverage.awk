# Lines of a Go cover profile: a line counts when a block with statements covers it, and is reached when any such block
# was run. Prints a figure for each package and the total; fails below -v minimum=PERCENT.
# A row is  file:line.column,line.column statements count
/^mode:/ { next }
{
    split($1, place, ":")
    split(place[2], edge, /[.,]/)
    file = place[1]
    for (line = edge[1]; line <= edge[3]; line++) {
        key = file ":" line
        if (!(key in seen)) seen[key] = 0
        if ($3 > 0) seen[key] = 1
    }
}
END {
    for (key in seen) {
        package = key
        sub(/\/[^\/]*$/, "", package)
        lines[package]++
        reached[package] += seen[key]
        all++
        hit += seen[key]
    }
    if (!all) { print "coverage: the profile is empty"; exit 1 }
    for (package in lines)
        printf "coverage: %5.1f %% of %5d lines  %s\n", 100 * reached[package] / lines[package], lines[package], package | "sort -k7"
    close("sort -k7")
    printf "coverage: %5.1f %% of %5d lines of Go, at least %s %% wanted\n", 100 * hit / all, all, minimum
    exit 100 * hit / all < minimum
}
