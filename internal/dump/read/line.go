package read

import (
	"bytes"
	"io"
	"os"
)

// Line is the number, from 1, of the line that begins at offset of a file.
func Line(path string, offset int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	line := int64(1)
	buf := make([]byte, chunkBytes)
	for rest := io.LimitReader(f, offset); ; {
		n, err := rest.Read(buf)
		line += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if err == io.EOF {
			return line, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
