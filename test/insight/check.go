// Package insight applies to a database the rules by which MindStudio Insight takes a dump (spec/viewer.md 1.1 to 1.7), written from that
// description and not from our writer, so that the two can disagree. Check lists what Insight would refuse, drop or misread.
package insight

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

var fileName = regexp.MustCompile(`^(memscope|leaks)_dump_\d+\.db$`)

// columns as the import takes them, by position, with their declared types.
var columns = [][2]string{
	{"ID", "INTEGER"}, {"Event", "TEXT"}, {"Event Type", "TEXT"}, {"Name", "TEXT"}, {"Timestamp(ns)", "INTEGER"}, {"Process Id", "INTEGER"},
	{"Thread Id", "INTEGER"}, {"Device Id", "TEXT"}, {"Ptr", "TEXT"}, {"Attr", "TEXT"}, {"Call Stack(Python)", "TEXT"}, {"Call Stack(C)", "TEXT"},
}

// mostViolations bounds the list; a file that is wrong throughout says so soon.
const mostViolations = 50

type checker struct {
	conn       *sqlite.Conn
	violations []string
	ids        map[[2]string]bool
	live       map[string]int64 // size, by device, address and pool
	last       map[string]int64 // stamp, by the same
	born       map[string]bool  // allocation ids
	oldest     int64
	newest     int64
	shown      int // rows that the import keeps
}

// Check lists the violations in the database at path. An error says that it could not be read at all.
func Check(path string) ([]string, error) {
	c := &checker{ids: map[[2]string]bool{}, live: map[string]int64{}, last: map[string]int64{}, born: map[string]bool{}}
	if !fileName.MatchString(filepath.Base(path)) {
		c.add("the name %s is not taken: want (memscope|leaks)_dump_<digits>.db", filepath.Base(path))
	}
	for _, suffix := range []string{"-wal", "-journal", "-shm"} {
		if _, err := os.Stat(path + suffix); err == nil {
			c.add("%s stands beside the file: the journal is not checkpointed", filepath.Base(path)+suffix)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o200 == 0 {
		c.add("the owner cannot write to the file, and Insight adds its tables to it")
	}
	// A database in write-ahead mode cannot be opened where nothing can be written, so this opens it as from such a place.
	c.conn, err = sqlite.OpenConn("file:"+path+"?immutable=1", sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	table := ""
	for _, name := range []string{"memscope_dump", "leaks_dump"} {
		if table == "" && c.one("SELECT count(*) FROM sqlite_master WHERE type='table' AND name='"+name+"'") == "1" {
			table = name
		}
	}
	if table == "" {
		return append(c.violations, "neither memscope_dump nor leaks_dump is there"), nil
	}
	c.schema(table)
	if len(c.violations) == 0 {
		c.events(table)
		c.traces()
		c.times()
	}
	return c.violations, nil
}

func (c *checker) add(format string, args ...any) {
	if len(c.violations) < mostViolations {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}

func (c *checker) each(sql string, row func(s *sqlite.Stmt)) {
	err := sqlitex.ExecuteTransient(c.conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error { row(s); return nil }})
	if err != nil {
		c.add("%s: %v", sql, err)
	}
}

func (c *checker) one(sql string) (text string) {
	c.each(sql, func(s *sqlite.Stmt) { text = s.ColumnText(0) })
	return text
}

func (c *checker) schema(table string) {
	n := 0
	c.each(`SELECT name, type FROM pragma_table_info('`+table+`') ORDER BY cid`, func(s *sqlite.Stmt) {
		switch {
		case n >= len(columns): // further columns are ignored
		case s.ColumnText(0) != columns[n][0]:
			c.add("column %d is %q, want %q", n+1, s.ColumnText(0), columns[n][0])
		case s.ColumnText(1) != columns[n][1]:
			c.add("column %q is declared %s, want %s", columns[n][0], s.ColumnText(1), columns[n][1])
		}
		n++
	})
	if n < len(columns)-2 {
		c.add("%d columns, want %d", n, len(columns))
	}
	indexed := map[string]bool{}
	c.each(`SELECT ii.name FROM pragma_index_list('`+table+`') il, pragma_index_info(il.name) ii WHERE ii.seqno = 0`,
		func(s *sqlite.Stmt) { indexed[s.ColumnText(0)] = true })
	for _, column := range []string{"Timestamp(ns)", "Event", "Device Id"} {
		if !indexed[column] {
			c.add("no index on %q", column)
		}
	}
	c.each(`SELECT name FROM sqlite_master WHERE name IN ('memory_allocation','memory_block','status_info')`, func(s *sqlite.Stmt) {
		c.add("table %s is Insight's own to make", s.ColumnText(0))
	})
}

var kinds = map[string]string{
	"MALLOC": "", "FREE": "", "ACCESS": "READ WRITE UNKNOWN", "OP_LAUNCH": "ATEN_START ATEN_END ATB_START ATB_END",
	"KERNEL_LAUNCH": "KERNEL_LAUNCH KERNEL_START KERNEL_END KERNEL_EXECUTE_START KERNEL_EXECUTE_END",
	"SYSTEM":        "ACL_INIT ACL_FINI START_TRACE STOP_TRACE STEP", "MSTX": "Mark Range_start Range_end", "SNAPSHOT": "SNAPSHOT",
	"OOM_DETAIL": "OOM_TRIGGER OOM_RECENT_ALLOC OOM_TOP_ALLOC",
}

var ptr = regexp.MustCompile(`^0x[0-9a-f]{16}$`)

func (c *checker) events(table string) {
	c.each(`SELECT * FROM "`+table+`" ORDER BY "Timestamp(ns)"`, func(s *sqlite.Stmt) {
		id, event, kind, device := s.ColumnText(0), s.ColumnText(1), s.ColumnText(2), s.ColumnText(7)
		at := "row " + id
		for _, i := range []int{0, 4} {
			if s.ColumnType(i) != sqlite.TypeInteger {
				c.add("%s: %s is %q, no integer", at, columns[i][0], s.ColumnText(i))
			}
		}
		for i := range 12 {
			if s.ColumnType(i) == sqlite.TypeNull {
				c.add("%s: %s is null", at, columns[i][0])
			}
		}
		key := [2]string{s.ColumnText(5), id}
		if c.ids[key] {
			c.add("%s: the ID is twice in process %s", at, key[0])
		}
		c.ids[key] = true
		stamp := s.ColumnInt64(4)
		if stamp <= 0 {
			c.add("%s: timestamp %d", at, stamp)
		}
		if c.oldest == 0 || stamp < c.oldest {
			c.oldest = stamp
		}
		c.newest = max(c.newest, stamp)
		types, known := kinds[event]
		if !known {
			c.add("%s: event %q", at, event)
		} else if types != "" && !strings.Contains(" "+types+" ", " "+kind+" ") {
			c.add("%s: event type %q of %s", at, kind, event)
		}
		if _, err := strconv.Atoi(device); err != nil && device != "cpu" && device != "N/A" {
			c.add("%s: device %q", at, device)
		}
		if device != "N/A" {
			c.shown++
		}
		block := event == "MALLOC" || event == "FREE"
		if address := s.ColumnText(8); block || event == "ACCESS" {
			if !ptr.MatchString(address) {
				c.add("%s: Ptr %q", at, address)
			}
		} else if address != "N/A" {
			c.add("%s: Ptr %q of %s", at, address, event)
		}
		attr := c.attr(at, s.ColumnText(9))
		if block {
			key := device + " " + s.ColumnText(8) + " " + kind
			if c.last[key] == stamp {
				c.add("%s: same time as the event before at its address", at)
			}
			c.last[key] = stamp
			c.block(at, event, key, attr)
		}
	})
}

// attr reads Attr: one object, and only strings in it, since Insight ignores everything else.
func (c *checker) attr(at, text string) map[string]string {
	if text == "" {
		return nil
	}
	var any map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &any); err != nil {
		c.add("%s: Attr is no JSON object: %v", at, err)
		return nil
	}
	out := map[string]string{}
	for k, raw := range any {
		var v string
		if err := json.Unmarshal(raw, &v); err != nil {
			c.add("%s: %s of Attr is %s, no string", at, k, raw)
		}
		out[k] = v
	}
	return out
}

// block follows blocks as the import does: an event that it would ignore is a violation.
func (c *checker) block(at, event, key string, attr map[string]string) {
	size, err := strconv.ParseInt(attr["size"], 10, 64)
	if err != nil || size < 0 {
		c.add("%s: size %q", at, attr["size"])
	}
	if id, err := strconv.ParseUint(attr["allocation_id"], 10, 64); err != nil || id == 0 {
		c.add("%s: allocation_id %q", at, attr["allocation_id"])
	}
	if event == "MALLOC" {
		if c.born[attr["allocation_id"]] {
			c.add("%s: allocation_id %s has two MALLOC", at, attr["allocation_id"])
		}
		c.born[attr["allocation_id"]] = true
	}
	live, there := c.live[key]
	switch {
	case event == "MALLOC" && there:
		c.add("%s: MALLOC of a live block, ignored", at)
	case event == "MALLOC":
		c.live[key] = size
	case !there:
		c.add("%s: FREE without a live block, ignored", at)
	default:
		if live != size {
			c.add("%s: FREE of %d bytes for a block of %d", at, size, live)
		}
		delete(c.live, key)
	}
}

func (c *checker) traces() {
	c.each(`SELECT name FROM sqlite_master WHERE type='table' AND name LIKE 'python\_trace\_%' ESCAPE '\'`, func(s *sqlite.Stmt) {
		name := s.ColumnText(0)
		pid, err := strconv.ParseUint(strings.TrimPrefix(name, "python_trace_"), 10, 64)
		if err != nil || pid == 0 {
			c.add("table %s: the suffix is no process id", name)
			return
		}
		rows, digits := 0, 0
		c.each(`SELECT "StartTime(ns)", "EndTime(ns)", "Process Id", "Thread Id", "FuncInfo" FROM "`+name+`"`, func(s *sqlite.Stmt) {
			rows++
			if uint64(s.ColumnInt64(2)) != pid {
				c.add("table %s: row of process %s", name, s.ColumnText(2))
			}
			for i := range 2 {
				text := s.ColumnText(i)
				stamp, err := strconv.ParseInt(text, 10, 64)
				if err != nil || stamp <= 0 {
					c.add("table %s: time %q", name, text)
					continue
				}
				if digits == 0 {
					digits = len(text)
				} else if digits != len(text) {
					c.add("table %s: times of %d and %d digits are compared as text", name, digits, len(text))
				}
				c.newest = max(c.newest, stamp)
			}
		})
		if rows == 0 {
			c.add("table %s is empty", name)
		}
	})
}

func (c *checker) times() {
	if c.shown == 0 {
		c.add("no row has a device")
	} else if len(c.born) == 0 {
		c.add("no MALLOC: there is nothing to draw")
	} else if c.newest <= c.oldest {
		c.add("all rows have one timestamp")
	}
}
