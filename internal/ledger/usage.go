package ledger

import "memscope/internal/event"

// sums are live bytes by device, for one pool.
type sums struct {
	cards [64]int64
	other map[int32]int64
}

func (s *sums) add(device int32, size int64) {
	if uint32(device) < uint32(len(s.cards)) {
		s.cards[device] += size
		return
	}
	if s.other == nil {
		s.other = map[int32]int64{}
	}
	s.other[device] += size
}

func (s *sums) set(device int32, size int64) { s.add(device, size-s.get(device)) }

func (s *sums) get(device int32) int64 {
	if uint32(device) < uint32(len(s.cards)) {
		return s.cards[device]
	}
	return s.other[device]
}

// fillUsage completes the usage numbers of a row whose block has just been added to or taken from the sums.
//
// Used is the live bytes of the pool on the device (contract 9, row 60). For the framework pools that is what their
// tracer computes from region sizes too (abi.md 3.5), and it does not drift when a free is lost. Only the workspace pool
// differs: a region there carries what the pool has handed out in all, so the newest size is the number.
func (l *Ledger) fillUsage(ev *event.Event, b *Block) {
	s := &l.sums[b.Pool]
	if b.Pool == event.PTAWorkspace && ev.Kind == event.Malloc {
		s.set(b.Device, b.Size)
	}
	if used := s.get(b.Device); used < 0 {
		s.set(b.Device, 0)
	}
	ev.Used = s.get(b.Device)
	if b.Pool == event.Host {
		ev.Total = ev.Used
	}
}
