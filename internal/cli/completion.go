package cli

import (
	"fmt"
	"strings"
)

func (p *parser) setCompletion(shell string) error {
	switch shell {
	case "bash", "zsh", "fish":
		p.req.action, p.req.text = showCompletion, shell
		return nil
	}
	return refused("completion", shell, "bash, zsh, fish")
}

// completion is the script for a shell; questions are those of dump.
func completion(shell string, questions []string) string {
	words := strings.Join(append(questions[:len(questions):len(questions)], "recover"), " ")
	switch shell {
	case "bash":
		return bashCompletion(words)
	case "zsh":
		return zshCompletion(words)
	}
	return fishCompletion(words)
}

// words of an option that has a list of them.
var completionWords = map[string]string{
	"events": "alloc free launch access none", "device": "npu cpu npu:0 npu:1 npu:2 npu:3 npu:4 npu:5 npu:6 npu:7", "collect-mode": "immediate deferred",
	"level": "op kernel", "analysis": "leaks decompose inefficient oom none", "format": "csv db", "log-level": "debug info warning error",
	"completion": "bash zsh fish",
}

// shownOptions are the options of the help.
func shownOptions() (out []*option) {
	for _, o := range options {
		if o.group != hidden && o.instead == "" {
			out = append(out, o)
		}
	}
	return out
}

// bashCompletion: our options and their words in front of the program, after that what bash would offer for the program.
func bashCompletion(questions string) string {
	var names, cases strings.Builder
	for _, o := range shownOptions() {
		names.WriteString("--" + o.name)
		if o.takesValue() {
			names.WriteByte('=')
		}
		names.WriteByte(' ')
		if words := completionWords[o.name]; words != "" {
			fmt.Fprintf(&cases, "        --%s) words='%s' ;;\n", o.name, words)
		}
	}
	return fmt.Sprintf(`# bash completion for msmemscope:  source <(msmemscope --completion=bash)
_msmemscope() {
    local line="${COMP_LINE:0:COMP_POINT}" cur words='' option i word
    COMPREPLY=()
    cur="${line##*[[:space:]]}"
    # The first word that is no option of ours is the program; what follows it is not for us to complete.
    local -a before
    read -r -a before <<<"${line%%"$cur"}"
    for ((i = 1; i < ${#before[@]}; i++)); do
        word="${before[i]}"
        case "$word" in
        --) _msmemscope_program "$((i + 1))"; return ;;
        dump)
            if ((i == 1)); then
                ((${#before[@]} == 2)) && words='%[3]s'
                COMPREPLY=($(compgen -W "$words" -- "$cur"))
                ((${#COMPREPLY[@]})) || COMPREPLY=($(compgen -f -- "$cur"))
                return
            fi
            _msmemscope_program "$i"; return ;;
        -*) ;;
        *) _msmemscope_program "$i"; return ;;
        esac
    done
    case "$cur" in
    --*=*)
        option="${cur%%%%=*}"
        cur="${cur#*=}"
        local list=''
        [[ "$cur" == *,* ]] && list="${cur%%,*},"
        case "$option" in
%[2]s        --output-path|--input-path) COMPREPLY=($(compgen -f -- "$cur")); compopt -o filenames; return ;;
        esac
        COMPREPLY=($(compgen -P "$list" -W "$words" -- "${cur##*,}")) ;;
    -*)
        COMPREPLY=($(compgen -W '%[1]s' -- "$cur"))
        [[ ${#COMPREPLY[@]} == 1 && "${COMPREPLY[0]}" == *= ]] && compopt -o nospace ;;
    *)
        COMPREPLY=($(compgen -W 'dump' -- "$cur") $(compgen -c -- "$cur")) ;;
    esac
}
_msmemscope_program() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}
complete -o default -F _msmemscope msmemscope
`, strings.TrimSpace(names.String()), cases.String(), questions)
}

func zshCompletion(questions string) string {
	var specs strings.Builder
	for _, o := range shownOptions() {
		about := strings.NewReplacer("[", "(", "]", ")", ":", " ", "'", "").Replace(strings.Join(o.help, " "))
		switch words := completionWords[o.name]; {
		case words != "":
			fmt.Fprintf(&specs, "        '--%s=[%s]:%s:_values -s , %s %s' \\\n", o.name, about, strings.ToLower(o.arg), strings.ToLower(o.arg), strings.ReplaceAll(words, "npu:", "npu\\:"))
		case o.arg == "DIR" || o.arg == "A,B":
			fmt.Fprintf(&specs, "        '--%s=[%s]:%s:_files' \\\n", o.name, about, strings.ToLower(o.arg))
		case o.takesValue():
			fmt.Fprintf(&specs, "        '--%s=[%s]:%s:' \\\n", o.name, about, strings.ToLower(o.arg))
		default:
			fmt.Fprintf(&specs, "        '--%s[%s]' \\\n", o.name, about)
		}
	}
	return fmt.Sprintf(`#compdef msmemscope
# zsh completion for msmemscope:  source <(msmemscope --completion=zsh)
_msmemscope() {
    if [[ ${words[2]} == dump ]]; then
        if (( CURRENT == 3 )); then
            compadd %[2]s
        else
            _files
        fi
        return
    fi
    _arguments -S \
%[1]s        '(-):program:{ compadd dump; _command_names -e }' \
        '*::arguments:_normal'
}
compdef _msmemscope msmemscope
`, specs.String(), questions)
}

func fishCompletion(questions string) string {
	var out strings.Builder
	out.WriteString("# fish completion for msmemscope:  msmemscope --completion=fish | source\n")
	const first = "'test (count (commandline -opc)) -eq 1'"
	fmt.Fprintf(&out, "complete -c msmemscope -n %s -a dump -d 'answer a question about dumps'\n", first)
	fmt.Fprintf(&out, "complete -c msmemscope -n 'test (commandline -opc)[2] = dump' -a '%s'\n", questions)
	for _, o := range shownOptions() {
		fmt.Fprintf(&out, "complete -c msmemscope -l %s", o.name)
		if o.short != 0 {
			fmt.Fprintf(&out, " -s %c", o.short)
		}
		if words := completionWords[o.name]; words != "" {
			fmt.Fprintf(&out, " -x -a '%s'", words)
		} else if o.takesValue() {
			out.WriteString(" -r")
		}
		fmt.Fprintf(&out, " -d '%s'\n", strings.ReplaceAll(o.help[0], "'", ""))
	}
	return out.String()
}
