
# Names that only a running daemon knows.
function __fish_nvpair_proxy_live
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    command $words[1] complete -- $words[2..-1] "$current" 2>/dev/null
end

