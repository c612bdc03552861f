# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# oriel.bash - completion of the command lines of Oriel's tools, for bash.
#
# It is installed once under the name of each tool, where bash-completion looks for it.  Options are
# read from what the tool prints for --help, so they are always those of the tool.  Only words that
# stand for a value (operations, formats) are listed here; tests/tools/completion_test.sh compares
# them with the tools.

# _oriel_help TOOL: lines "OPTION VALUE" for each option; VALUE is its name in the text, or empty.
_oriel_help() {
	"$1" --help 2>/dev/null </dev/null | awk '/^ +-/ {
		n = 0
		for (i = 1; $i ~ /^-/; i++) {
			sub(/,$/, "", $i)
			sub(/\[=.*/, "", $i)
			name[++n] = $i
		}
		value = $i ~ /^([A-Z]+(\.[a-z]+)?|[0-9][|][0-9])$/ ? $i : ""
		for (j = 1; j <= n; j++)
			print name[j], value
	}'
}

# _oriel_words TOOL OPTION: the words that the value of the option can be.
_oriel_words() {
	case "$1 $2" in
	"oriel-perf --format") echo oriel nccl csv ;;
	"oriel-perf --split") echo uniform random skew ;;
	"oriel-perf --policy") echo by_size fastest no_sms default ;;
	"oriel-perf --algorithm") echo auto direct ring doubling ;;
	"oriel-perf --device") echo cpu cuda ;;
	"oriel-perf -c") echo 0 1 ;;
	esac
}

# _oriel_operands TOOL: words that are no options.
_oriel_operands() {
	case $1 in
	oriel-perf)
		echo all put get put_signal signal packet barrier sendrecv atomics completion \
			allgather alltoallv broadcast allreduce reducescatter
		;;
	esac
}

_oriel_reply() {
	local word
	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen "$@")
}

_oriel_files() {
	_oriel_reply -f -- "$1"
	compopt -o filenames 2>/dev/null
}

# _oriel_value TOOL OPTION VALUE CURRENT: completes the value of an option.
_oriel_value() {
	local words
	words=$(_oriel_words "$1" "$2")
	case $words,$3 in
	?*,*) _oriel_reply -W "$words" -- "$4" ;;
	,FILE*) _oriel_files "$4" ;;
	*) COMPREPLY=() ;; # a number, or a text that only the user knows
	esac
}

# _oriel_program LIST: index of the program in a command line of oriel-run, or nothing.
_oriel_program() {
	local i word
	for ((i = 1; i < COMP_CWORD + 1; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		--) echo $((i + 1)) && return ;;
		-*) grep -qE -- "^$word [A-Z]" <<<"$1" && i=$((i + 1)) ;;
		*) echo $i && return ;;
		esac
	done
}

# The command that oriel-run starts is completed like a command of its own.
_oriel_started() {
	local first=$1
	if [ "$COMP_CWORD" -eq "$first" ]; then
		_oriel_reply -c -- "${COMP_WORDS[COMP_CWORD]}"
		compopt -o filenames 2>/dev/null
		return
	fi
	COMP_WORDS=("${COMP_WORDS[@]:first}")
	COMP_CWORD=$((COMP_CWORD - first))
	case ${COMP_WORDS[0]##*/} in
	oriel-*) _oriel ;;
	*) _oriel_files "${COMP_WORDS[COMP_CWORD]}" ;;
	esac
}

_oriel() {
	local command=${COMP_WORDS[0]/#\~/$HOME} tool current previous list program=
	tool=${command##*/}
	current=${COMP_WORDS[COMP_CWORD]}
	previous=${COMP_WORDS[COMP_CWORD - 1]}
	list=$(_oriel_help "$command")
	case $tool in
	oriel-run | oshrun | oriel-oshrun) program=$(_oriel_program "$list") ;;
	esac
	if [ -n "$program" ] && [[ $current != -* || $COMP_CWORD -gt $program ]]; then
		_oriel_started "$program"
	elif [ "$COMP_CWORD" -gt 1 ] && grep -qE -- "^$previous [A-Z0-9]" <<<"$list"; then
		_oriel_value "$tool" "$previous" \
			"$(sed -n "s/^$previous //p" <<<"$list")" "$current"
	elif [[ $current == -* ]]; then
		_oriel_reply -W "$(cut -d' ' -f1 <<<"$list")" -- "$current"
	else
		case $tool in
		osh* | oriel-osh*) _oriel_files "$current" ;;
		*) _oriel_reply -W "$(_oriel_operands "$tool")" -- "$current" ;;
		esac
	fi
}

complete -F _oriel oriel-run oriel-info oriel-perf oriel-tune oriel-doctor oriel-trace \
	oshrun oshcc oshc++ oshcxx
complete -F _oriel oriel-oshrun oriel-oshcc oriel-oshc++ # their names in Debian packages
