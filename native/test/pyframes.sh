#!/bin/bash
# pyframes.sh PROBE: runs test_pyframes.py under every Python from 3.8 on that this machine has.
set -u
probe=$1
here=$(dirname "$0")
declare -A seen
ran=0 failed=0
for python in /usr/bin/python3 $(compgen -c python3 | sort -u) "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
    version=$("$python" -c 'import sys; print(sys.version, sys.base_prefix) if sys.version_info >= (3, 8) and sys.implementation.name == "cpython" else 0' 2>&1) || continue
    [[ $version == [0-9].[0-9]*' '* && -z ${seen[$version]:-} ]] || continue
    seen[$version]=1
    echo "== $version"
    "$python" "$here/test_pyframes.py" "$probe" || failed=$((failed + 1))
    ran=$((ran + 1))
done
echo "pyframes: $ran interpreters, $failed failed"
[[ $ran -gt 0 && $failed -eq 0 ]]
