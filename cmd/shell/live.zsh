# Names that only a running daemon knows.
(( $+functions[_nvpair-proxy_live] )) ||
_nvpair-proxy_live() {
    local -a names
    names=(${(f)"$(_call_program live ${(q)nvpair_proxy_words[1]} complete -- "${(@q)nvpair_proxy_words[2,-1]}" 2>/dev/null)"})
    compadd -a names
}

