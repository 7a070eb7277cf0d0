#!/bin/bash
# Real programs under an open window of the host heap: what they print and write is compared with what they do without us,
# and each must leave complete reports. `make real`, or `test/real/run.sh [PROGRAM...]` after `make build`.
# What is not installed is skipped by name. PYTHON: the interpreter of the Python suites. It takes some minutes.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd -P)
work=$(mktemp -d) || exit 1
chmod 755 "$work" # the database runs as another user
cp -r "$root/build/bin" "$root/build/lib64" "$work" || exit 1
trap 'rm -rf "$work"' EXIT
python=$(${PYTHON:-python3} -c 'import sys, test.test_json; print(sys.executable)' 2>/dev/null)
postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
export LC_ALL=C HOME=$work/home npm_config_update_notifier=false
mkdir "$HOME"

# Each program is a function that runs in an empty directory and leaves there what is to be equal. "$@" goes before the
# program: nothing, or the tool.

gcc_() {
    local source
    for source in "$root"/native/unwind/*.c "$root"/native/hostheap/*.c; do
        "$@" gcc -std=gnu17 -D_GNU_SOURCE -O2 -I"$root"/native/{include,agent,unwind} -I"$root/native/hostheap" \
            -I"$root/native/pyframes" -c "$source" -o "$(basename "$source" .c).o" || return
    done >out 2>err
}

git_() {
    git clone -q --no-hardlinks "$root" clone &&
        "$@" git -C clone -c pack.threads=1 gc --quiet --prune=now >out 2>err &&
        (cd clone/.git/objects/pack && sha256sum -- *.pack *.idx) >packs && git -C clone fsck >fsck 2>&1
    local status=$?
    rm -rf clone
    return $status
}

python_() {
    "$@" "$python" -m test test_json test_re test_dict test_list test_set test_bytes test_unicode test_collections test_heapq \
        test_itertools test_functools test_struct test_array test_decimal test_pickle test_zlib test_csv \
        test_subprocess test_ctypes test_gc test_weakref >out 2>err
    local status=$?
    # Times, the load, and what says where a test that takes long is.
    sed -i -E '/^([0-9]+:[0-9]+:[0-9]+ |Total duration|test_[a-z]+ (passed|failed).* in |[0-9]+ slowest|- test_)/d' out
    sed -i -E '/^Using random seed/d' out
    return $status
}

sqlite_() {
    "$@" sqlite3 table.db >out 2>err <<'SQL'
create table t(id integer primary key, k integer, v text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)
    insert into t select i, i * 2654435761 % 1000003, printf('row %d of %x', i, i * 40503) from n;
create index by_k on t(k);
select count(*), sum(k), max(v), sum(length(v)) from t;
select k % 7, count(*), group_concat(substr(v, 1, 4)) from (select * from t order by k limit 1000) group by 1;
update t set v = upper(v) where k % 3 = 0;
delete from t where k % 5 = 0;
select count(*), sum(k), min(v) from t;
pragma integrity_check;
SQL
}

# npm's packer is a large program in JavaScript; the script beside it has threads.
node_() {
    mkdir package
    printf '{"name": "real", "version": "1.0.0", "files": ["*.js"]}' >package/package.json
    for i in {1..200}; do
        printf 'module.exports = %d;\n' "$i" >"package/$i.js"
    done
    (cd package && "$@" npm pack --offline --json --loglevel=error) >packed 2>packed.err || return
    rm -rf package
    "$@" node >out 2>err - <<'JS'
const { Worker } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib');
const work = `const { parentPort, workerData: n } = require('worker_threads');
    const rows = Array.from({ length: 20000 }, (_, i) => ({ i, text: 'row ' + (i * n) % 9973, list: [i, i * n] }));
    parentPort.postMessage(JSON.stringify(rows.sort((a, b) => a.text < b.text ? -1 : a.text > b.text ? 1 : a.i - b.i)));`;
Promise.all([1, 2, 3, 4].map(n => new Promise((resolve, reject) =>
    new Worker(work, { eval: true, workerData: n }).on('message', resolve).on('error', reject)))).then(texts => {
    for (const text of texts) {
        const back = zlib.gunzipSync(zlib.gzipSync(text, { level: 6 }));
        console.log(crypto.createHash('sha256').update(back).digest('hex'), JSON.parse(back).length);
    }
});
JS
}

redis_() {
    local socket=$PWD/socket status=1 server
    "$@" redis-server --port 0 --unixsocket "$socket" --save '' --enable-debug-command yes --dir "$PWD" \
        --dbfilename dump >log 2>&1 &
    server=$!
    for _ in {1..200}; do
        redis-cli -s "$socket" ping >/dev/null 2>&1 && break
        sleep 0.1
    done
    redis-benchmark -s "$socket" -q -n 20000 -c 20 -P 4 -t set,get,incr,lpush,rpop,sadd,hset,mset >/dev/null &&
        redis-cli -s "$socket" bgsave >/dev/null &&
        redis-cli -s "$socket" dbsize >out && redis-cli -s "$socket" debug digest >>out && status=0
    redis-cli -s "$socket" shutdown nosave >/dev/null 2>&1
    wait "$server" || status=1
    rm -f log socket dump temp-*
    return $status
}

as_postgres() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"; else "$@"; fi
}

postgres_() {
    local data=$PWD/data status=1 server db=(-h "$PWD/data" -p 5999 -U real)
    mkdir "$data" && { [ "$(id -u)" != 0 ] || chown postgres "$data" "$work/reports"; }
    as_postgres "$postgres/initdb" -D "$data" -U real -A trust --no-sync >/dev/null 2>init.err || return
    as_postgres "$@" "$postgres/postgres" -D "$data" -p 5999 -k "$data" -c listen_addresses= -c fsync=off >log 2>&1 &
    server=$!
    for _ in {1..300}; do
        "$postgres/pg_isready" "${db[@]}" -q && break
        sleep 0.1
    done
    "$postgres/pgbench" "${db[@]}" -i -q postgres >/dev/null 2>&1 &&
        "$postgres/pgbench" "${db[@]}" -c 4 -j 2 -t 300 --random-seed=7 postgres >/dev/null 2>bench.err &&
        "$postgres/psql" "${db[@]}" -Atc 'select count(*), sum(abalance) from pgbench_accounts' \
            -c 'select count(*), sum(delta) from pgbench_history' postgres >out && status=0
    kill -INT "$(head -n 1 "$data/postmaster.pid")"
    wait "$server" || status=1
    rm -rf "$data" log
    return $status
}

# Its allocator is its own, and its reports say that; what is to be the same is the page. The browser says on its standard
# error what it does not find here, with times.
chromium_() {
    cat >page.html <<'HTML'
<!doctype html><title>page</title><body><script>
const rows = Array.from({ length: 5000 }, (_, i) => ({ i, text: 'row ' + (i * 7919) % 9973 }));
rows.sort((a, b) => a.text < b.text ? -1 : 1);
document.body.innerHTML = rows.slice(0, 200).map(r => `<p>${r.i} ${r.text}</p>`).join('');
</script>
HTML
    "$@" chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/page.html" \
        >out 2>/dev/null
    local status=$?
    rm -rf profile
    grep -q '<p>0 row 0</p>' out || return 1
    return $status
}

missing() { # what a program needs and is not there
    case $1 in
    gcc | git) command -v "$1" ;;
    python) echo "$python" ;;
    sqlite) command -v sqlite3 ;;
    node) command -v node && command -v npm ;;
    redis) command -v redis-server && command -v redis-benchmark ;;
    postgres) [ -n "$postgres" ] && echo "$postgres" ;;
    chromium) command -v chromium ;;
    *) false ;;
    esac | grep -q . && return 1
    return 0
}

failed=0 seconds=()
[ $# -gt 0 ] || set -- gcc git sqlite node redis postgres python chromium
for name; do
    if missing "$name"; then
        echo "SKIPPED $name: not installed, or no such program here"
        continue
    fi
    reports=$work/reports
    rm -rf "$work/run" "$reports"
    mkdir "$work/run" "$reports"
    for way in native tool; do
        tool=()
        [ $way = native ] || tool=("$work/bin/msmemscope" --analysis=host-leaks --output-path="$reports" --)
        mkdir "$work/run/dir" && cd "$work/run/dir" || exit 1
        began=$EPOCHREALTIME
        "${name}_" "${tool[@]}"
        echo "status $?" >status
        seconds[${#seconds[@]}]=$(echo "$EPOCHREALTIME - $began" | bc)
        cd / && mv "$work/run/dir" "$work/run/$way" # the same place for both
    done
    find "$work/run/tool" -type f -exec sed -i '/^\[msmemscope\]/d' {} +
    mapfile -t overviews < <(find "$reports" -name 'leak_overview_*.txt')
    unusable=$(cat "${overviews[@]:-/dev/null}" | grep '^  Data  *:' | grep -v 'passed nothing on$' | grep -cv ': complete$')
    if ! difference=$(diff -r "$work/run/native" "$work/run/tool"); then
        echo "FAILED $name: differs from its run without us:"
        head -n 30 <<<"$difference"
        failed=1
    elif [ ${#overviews[@]} = 0 ] || [ "$unusable" != 0 ] || ! grep -qx 'status 0' "$work/run/native/status"; then
        echo "FAILED $name: ${#overviews[@]} report(s), $unusable of them not complete, $(cat "$work/run/native/status")"
        failed=1
    else
        echo "ok $name: ${#overviews[@]} report(s); ${seconds[-2]} s without, ${seconds[-1]} s with us"
    fi
done
exit $failed
