package query

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/read"
	"memscope/internal/dump/spool"
	"memscope/internal/dump/stacks"
	"memscope/internal/event"
	"memscope/internal/symbol"
)

// isSpool tells whether a directory is the spool of a process.
func isSpool(dir string) bool {
	segments, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
	return filepath.Base(dir) == spool.Dir && len(segments) > 0
}

// unspool writes the events of a spool to a temporary CSV file. dropped is the number of bytes that were no whole block.
func unspool(dir string) (path string, dropped int64, err error) {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return "", 0, err
	}
	defer parent.Close()
	r, err := spool.Open(parent, filepath.Base(dir))
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	f, err := read.CreateTemp("", "memscope_spool_*.csv")
	if err != nil {
		return "", 0, err
	}
	table, err := stacks.Open(r.Root(), symbol.New())
	if err != nil {
		return "", 0, errors.Join(err, f.Close(), read.RemoveTemp(f.Name()))
	}
	defer table.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	w.WriteString(csvfile.Header + "\n")
	err = errors.Join(writeRows(w, r, table), w.Flush(), f.Close())
	if err != nil {
		read.RemoveTemp(f.Name())
		return "", 0, err
	}
	return f.Name(), r.Dropped(), nil
}

func writeRows(w *bufio.Writer, r *spool.Reader, table *stacks.Table) error {
	var ev event.Event
	var row []byte
	for at := r.First(); ; {
		block, err := r.Load(at, spool.End)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for err = r.Next(&ev); err == nil; err = r.Next(&ev) {
			row = csvfile.AppendRow(row[:0], &ev, ev.Seq, table)
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		if err != io.EOF {
			return err
		}
		at = block.End
	}
}
