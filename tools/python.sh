#!/bin/sh
# tools/python.sh VERSION prints the path of an interpreter of that version, as 3.8; fails where none is installed. One of a version manager
# is found, too, where its link in PATH does not run because another version is chosen.
version=$1
for candidate in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python3; do
    if [ -x "$candidate" ] && "$candidate" -c '' 2>/dev/null; then
        echo "$candidate"
        exit
    fi
done
echo "python.sh: SKIPPED, no Python $version is installed" >&2
exit 1
