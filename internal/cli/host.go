package cli

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"memscope/internal/config"
)

func (p *parser) setHostLeakMode(value string) error {
	switch value {
	case "summary":
		p.req.config.HostLeakDetail = false
	case "event":
		p.req.config.HostLeakDetail = true
	default:
		return refused("host-leak-mode", value, "summary, event")
	}
	p.host = append(p.host, "host-leak-mode")
	return nil
}

func (p *parser) setBlockThreshold(value string) error {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		return refused("block-size-threshold", value, "a number of bytes from 0 on")
	}
	p.req.config.BlockThreshold = n
	p.host = append(p.host, "block-size-threshold")
	return nil
}

// setSampleRate rounds up to a power of two (contract 6.2).
func (p *parser) setSampleRate(value string) error {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || n == 0 {
		return refused("sample-rate", value, "a number from 1 on")
	}
	rate := uint32(config.MostSampleRate)
	if n < config.MostSampleRate {
		rate = 1 << bits.Len64(n-1)
	}
	if uint64(rate) != n {
		p.notice("--sample-rate=%s becomes %d, a power of two up to %d", shown(value), rate, config.MostSampleRate)
	}
	p.req.config.SampleRate = rate
	p.host = append(p.host, "sample-rate")
	return nil
}

func (p *parser) setPID(value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n <= 0 {
		return refused("pid", value, "a process id")
	}
	p.req.action, p.req.pid = attach, int(n)
	return nil
}

func (p *parser) setServeShell(value string) error {
	err := p.setPID(value)
	p.req.action = serveShell
	return err
}

func (p *parser) setReleaseShell(value string) error {
	p.req.action, p.req.text = releaseShell, value
	return nil
}

func (p *parser) setCommand(value string) error {
	p.req.command = &value
	return nil
}

// pairHost refuses options of the host heap and of the control channel that do not go together with the others.
func (p *parser) pairHost() error {
	r := &p.req
	switch {
	case r.command != nil && r.pid == 0:
		return errors.New("--command works only with --pid")
	case r.pid != 0 && (r.action != attach || len(r.inputs) > 0):
		return errors.New("--pid cannot be combined with --compare")
	case r.action == run && len(p.host) > 0 && r.config.Analysis != config.HostLeaks:
		return fmt.Errorf("--%s works only with --analysis=host-leaks", p.host[0])
	}
	return nil
}
