package feed

import (
	"encoding/json"
	"math"
	"strconv"

	"memscope/internal/dump/cells"
	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// appendLine appends an event as a JSON object and a line feed. Its members are the columns of a row, but for the call stacks;
// ID, Timestamp(ns), Process Id and Thread Id are numbers (null for N/A), Attr is an object of texts.
func appendLine(b []byte, ev *event.Event, id uint64) []byte {
	var scratch [64]byte
	b = strconv.AppendUint(append(b, `{"ID":`...), id, 10)
	b = appendText(append(b, `,"Event":`...), cells.Kind(ev))
	b = appendText(append(b, `,"Event Type":`...), cells.Type(ev))
	b = appendText(append(b, `,"Name":`...), string(cells.AppendName(scratch[:0], ev)))
	b = strconv.AppendInt(append(b, `,"Timestamp(ns)":`...), ev.Stamp, 10)
	b = appendID(append(b, `,"Process Id":`...), ev.PID)
	b = appendID(append(b, `,"Thread Id":`...), ev.TID)
	b = appendText(append(b, `,"Device Id":`...), string(cells.AppendDevice(scratch[:0], ev.Device)))
	b = appendText(append(b, `,"Ptr":`...), string(cells.AppendPtr(scratch[:0], ev)))
	b = read.AppendJSON(append(b, `,"Attr":`...), cells.AppendAttr(nil, ev))
	return append(b, "}\n"...)
}

func appendID(b []byte, id uint64) []byte {
	if id == math.MaxUint64 {
		return append(b, "null"...)
	}
	return strconv.AppendUint(b, id, 10)
}

// appendText appends a JSON string.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(err) // a string always encodes
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
