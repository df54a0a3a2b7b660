
# Names that only a running daemon knows; everything else is above.
_nvpair_proxy_live() {
    local line="${COMP_LINE:0:COMP_POINT}" name value cut=""
    local -a words
    # Not COMP_WORDS: there `qwen3:8b` is three words.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    while [[ ${#words[@]} -gt 0 && ${words[0]} != "$1" ]]; do words=("${words[@]:1}"); done
    [[ ${#words[@]} -gt 1 ]] || return 1
    value="${words[${#words[@]} - 1]}"
    [[ $value == --*=* ]] && value="${value#*=}"
    # What stands before the last colon is a word of its own for readline, and is there already.
    [[ $value == *:* && $COMP_WORDBREAKS == *:* ]] && cut="${value%"${value##*:}"}"
    local names
    names="$("${1/#\~/$HOME}" complete -- "${words[@]:1}" 2>/dev/null)" || return 1
    # Nothing is better than the names of files.
    compopt +o bashdefault +o default 2>/dev/null
    while IFS= read -r name; do
        [[ -n $name && $name == "$value"* ]] && COMPREPLY+=("${name#"$cut"}")
    done <<<"$names"
    return 0
}

_nvpair_proxy_complete() {
    COMPREPLY=()
    _nvpair_proxy_live "$@" || _nvpair__proxy "$@"
}
