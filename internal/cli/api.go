package cli

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"memscope/internal/config"
	"memscope/internal/output"
)

// once are the options that the first use in a process decides (contract 1.10).
var once = []string{"format", "output-path", "watch"}

// API understands the options that a program gives itself, through config() or ms_config. Each text begins with the working
// directory, for a relative output path, followed by name=value; parts end with a NUL byte. Names are those of the command line.
// Every text starts from the defaults, but for what can be set only once: that stays as it is in old, which is nil at the first
// text. fixed says that old's can change no more; what asks for something else is dropped then, with a notice, but must be right. An
// error is one line; notices are lines for the user, with prefix.
func API(text string, old *config.Config, fixed bool) (cfg config.Config, notices []string, err error) {
	parts := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	p := &parser{req: request{config: config.Default()}, events: config.Default().DumpEvents, outputPath: defaultOutput}
	p.req.config.Mode = config.Deferred
	if old != nil {
		keepOnce(&p.req.config, old)
		p.outputPath = old.OutputPath
	}
	given, dropped := map[string]bool{}, map[string]string{}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		o := findExact(name)
		if o == nil || !o.takesValue() {
			return cfg, nil, fmt.Errorf("%s is not an option", shown(name))
		}
		decides := o.name
		if o.instead != "" {
			decides = o.instead
		}
		if slices.Contains(once, decides) && (fixed || given[decides]) {
			dropped[decides] = value
			continue
		}
		given[decides] = true
		if err := p.apply(o, value); err != nil {
			return cfg, nil, err
		}
	}
	p.derive()
	dir := func() (string, error) {
		if parts[0] == "" {
			return "", fs.ErrNotExist
		}
		return parts[0], nil
	}
	if err := p.resolveOutput(dir); err != nil && (given["output-path"] || parts[0] != "") {
		return cfg, nil, err
	}
	if err := p.resolvePrograms(dir); err != nil {
		return cfg, nil, err
	}
	if err := p.drop(dropped, dir); err != nil {
		return cfg, nil, err
	}
	for _, line := range p.req.notices {
		notices = append(notices, "[msmemscope] Warn: "+line)
	}
	if given["output-path"] {
		if err := output.Check(p.req.config.OutputPath); err != nil {
			return cfg, nil, err
		}
		for _, risk := range output.Risks(p.req.config.OutputPath) {
			notices = append(notices, "[msmemscope] Warn: "+risk)
		}
	}
	return p.req.config, notices, nil
}

// keepOnce takes over what can be set only once.
func keepOnce(c, old *config.Config) {
	c.Format, c.OutputPath, c.Watch = old.Format, old.OutputPath, old.Watch
}

// drop says which values of options that can be set only once have no effect, and what stays in force.
func (p *parser) drop(values map[string]string, dir func() (string, error)) error {
	if len(values) == 0 {
		return nil
	}
	wanted := &parser{req: request{config: p.req.config}, outputPath: p.req.config.OutputPath}
	for _, name := range once {
		if value, is := values[name]; is {
			if err := wanted.apply(findExact(name), value); err != nil {
				return err
			}
		}
	}
	if err := wanted.resolveOutput(dir); err != nil {
		return err
	}
	p.notice(`Config:"format","output_path","watch" can only be set once.`)
	c, other := &p.req.config, &wanted.req.config
	for _, is := range []struct {
		option  string
		differs bool
		now     string
	}{
		{"format", c.Format != other.Format, map[config.Format]string{config.CSV: "csv", config.DB: "db"}[c.Format]},
		{"output-path", c.OutputPath != other.OutputPath, c.OutputPath},
		{"watch", c.Watch != other.Watch, watchText(c.Watch)},
	} {
		if is.differs {
			p.notice(`%s stays %s; %q is not used.`, strings.ReplaceAll(is.option, "-", "_"), is.now, shown(values[is.option]))
		}
	}
	return nil
}
