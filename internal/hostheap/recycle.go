package hostheap

import "sync/atomic"

// recycleMost bounds the stacks of one round; the next beat takes more.
const recycleMost = 16384

// recycle hands the ids of stacks without live blocks back to the hook (hostheap.h, "Stacks"). What they had counts as unknown from then on.
func (r *Recorder) recycle(w *window) {
	t := r.tables
	h := t.Header()
	spares := slice[uint32](t, t.h.Spares_at, uint64(t.h.Spares))
	room := int(t.h.Spares) - int(h.Spare_head-atomic.LoadUint32(&h.Spare_tail))
	if room > int(t.h.Spares)/2 {
		room = min(room, recycleMost)
	} else {
		room = 0 // the hook has enough
	}
	type chosen struct {
		id    uint32
		place *uint64
		entry uint64
	}
	var dead []chosen
	for id := StackFirst; id < len(w.now) && len(dead) < room; id++ {
		c := w.now[id]
		if c.LiveBlocks() > 0 || id >= len(w.previous) || w.previous[id].LiveBlocks() > 0 || c != w.previous[id] {
			continue
		}
		place, entry := t.findIndex(uint32(id))
		if place == nil || !atomic.CompareAndSwapUint64(place, entry, entry&^StackMost) {
			continue // free already, or never entered
		}
		dead = append(dead, chosen{uint32(id), place, entry})
	}
	if len(dead) == 0 {
		return
	}
	if r.settle() > 0 { // somebody may still use any of them
		for _, d := range dead {
			atomic.CompareAndSwapUint64(d.place, d.entry&^StackMost, d.entry)
		}
		return
	}
	now := t.Counters(nil)
	for _, d := range dead {
		c := now[d.id]
		if c.Allocs != c.Frees {
			atomic.CompareAndSwapUint64(d.place, d.entry&^StackMost, d.entry)
			continue
		}
		var base Counts
		if int(d.id) < len(w.base) {
			base = w.base[d.id]
		}
		w.folded.Add(c.Sub(base))
		for len(w.base) <= int(d.id) {
			w.base = append(w.base, Counts{})
		}
		w.base[d.id] = c
		w.series.forget(d.id)
		w.now[d.id] = Counts{}
		w.recycled++
		spares[h.Spare_head&(t.h.Spares-1)] = d.id
		atomic.AddUint32(&h.Spare_head, 1)
	}
}

// findIndex is the place of a stack in the index, and what is in it; nil when it has none.
func (t *Tables) findIndex(id uint32) (*uint64, uint64) {
	rec := at[Stack](t, t.h.Stacks_at+uint64(id)*uint64(t.h.Stack_bytes))
	index := slice[uint64](t, t.h.Index_at, uint64(t.h.Index))
	if rec == nil || index == nil {
		return nil, 0
	}
	hash := atomic.LoadUint64(&rec.Hash)
	want := hash&^StackMost | uint64(id)
	mask := uint64(t.h.Index - 1)
	for i := range uint64(t.h.Index) {
		place := &index[(hash+i)&mask]
		switch entry := atomic.LoadUint64(place); entry {
		case want:
			return place, entry
		case 0:
			return nil, 0
		}
	}
	return nil, 0
}
