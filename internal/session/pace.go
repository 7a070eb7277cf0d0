package session

import (
	"runtime"
	"sync"
)

// pace is on how many processors the Go of a collector runs. With more than one, each wake-up wakes another thread that looks for work
// and finds none: a third of the time and of the switches of a collector that has little to do, and on a busy machine it is the
// target that they are taken from. So there is one while nobody is in a hurry. The zero value leaves all as it is.
type pace struct {
	mu      sync.Mutex
	all     int // processors
	hurried int // those who are in a hurry
}

// slow begins with one processor.
func (p *pace) slow() { p.all = runtime.GOMAXPROCS(1) }

// hurry gives the caller all processors, until it calls rest.
func (p *pace) hurry() { p.change(1) }

func (p *pace) rest() { p.change(-1) }

func (p *pace) change(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.hurried > 0
	p.hurried += by
	switch now := p.hurried > 0; {
	case p.all <= 1 || now == before:
	case now:
		runtime.GOMAXPROCS(p.all)
	default:
		runtime.GOMAXPROCS(1)
	}
}
