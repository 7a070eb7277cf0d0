package cli

import (
	"fmt"
	"strings"
)

// usage precedes an error about the command line.
const usage = `Usage: msmemscope [options] <program> [arguments]
       msmemscope [options] -- <program> [arguments]
       msmemscope --help shows all options.
`

const helpHead = `Usage: msmemscope [options] <program> [arguments]
       msmemscope [options] -- <program> [arguments]
       msmemscope --pid=PID [--command="display host_leak summary"]
       msmemscope --compare --input-path=A,B [--level=op|kernel]
       msmemscope dump <question> [options] <file or directory>...
       msmemscope dump recover <directory>
       source msmemscope --load-api-env[=npu|host]
       source msmemscope --unload-api-env

Runs a program, records where it allocates and frees memory of Ascend NPUs, reports
what leaked, and leaves a dump of all events.
`

const helpTail = `
Options stand before the program. After it, only --name=value with the full name of an
option above is still taken (with a notice); -- ends that, too. Long names may be
abbreviated while they stay unambiguous. Lists are separated by , or ，. The last
of several equal options counts, but --input-path adds to those before.

Offline:
  dump QUESTION ...          answer a question about dumps; dump --help lists them
  dump recover DIR           finish the dump of a run that was cut off; DIR is its
                             msmemscope_<pid>_<time>_ascend directory or the output path
  The word dump is ours: a program of that name is run as ./dump, or after --.

Sourced, in bash or zsh:
  --load-api-env[=npu]       prepare this shell, so that programs started from it carry
                             the hooks (default npu). They record when they start the
                             collection themselves: msmemscope.start() in Python, ms_start()
                             in C
  --load-api-env=host        the same for the host heap; windows are opened from Python or
                             by --pid. Until this shell ends, or unloads, a process waits
                             in the background for what is started from it
  --unload-api-env           undo it; do that when the work is done

Environment:
  ASCEND_HOME_PATH           CANN, where the real libraries are looked for
  ASCEND_RT_VISIBLE_DEVICES  read to tell which card a device number means
  LD_PRELOAD_PATH            where our libraries are (default: lib64 beside bin)
  MSMEMSCOPE_HEAP_BEAT_MS    milliseconds between two looks at the host heap, 10 to 60000
                             (default 1000)
  MSMEMSCOPE_HEAP_TOP        leak sites that a report of the host heap lists, 1 to 1024
                             (default 10)
  MSMEMSCOPE_WATCH_BYTES     bytes on disk after which a process dumps no more of what it
                             watches (default 17179869184)
  MSMEMSCOPE_RING_BYTES      bytes of the event buffer of each process, 1048576 to
                             1073741824 (default: a share of 200 MB)

--events=traceback is for scripts: msmemscope.config(events="traceback") in Python.

Exit status: that of the program, 128 + signal when it was killed, 127 when it was not
found, 126 when it could not be executed; 2 for a wrong command line, 1 when an offline
command fails.

Examples:
  msmemscope bash train.sh
  msmemscope --analysis=leaks --events=alloc,free --output-path=/home/user/output bash train.sh
  msmemscope --device=npu:0,npu:2 -- python3 train.py --lr 1
  msmemscope --analysis=host-leaks python3 train.py
  msmemscope --compare --input-path=before,after --level=op
  msmemscope dump peak memscopeDumpResults
  msmemscope dump recover memscopeDumpResults
`

// help is the text of --help: the options by group, then all that is no option.
func help() string {
	var b strings.Builder
	b.WriteString(helpHead)
	for g := group(1); g < groups; g++ {
		fmt.Fprintf(&b, "\n%s:\n", groupTitles[g])
		for _, o := range options {
			if o.group == g && o.instead == "" {
				writeOption(&b, o)
			}
		}
	}
	b.WriteString(helpTail)
	return b.String()
}

// writeOption writes one option, its help in a column of its own.
func writeOption(b *strings.Builder, o *option) {
	names := "    --" + o.name
	if o.short != 0 {
		names = fmt.Sprintf("-%c, --%s", o.short, o.name)
	}
	if o.takesValue() {
		names += "=" + o.arg
	}
	const column = 24
	if len(names) > column {
		fmt.Fprintf(b, "  %s\n", names)
		names = ""
	}
	for i, line := range o.help {
		if i > 0 {
			names = ""
		}
		fmt.Fprintf(b, "  %-24s %s\n", names, line)
	}
}
