# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_nvpair_proxy_global_optspecs
    string join \n socket= json v/verbose q/quiet color= h/help V/version
end

function __fish_nvpair_proxy_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_nvpair_proxy_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_nvpair_proxy_using_subcommand
    set -l cmd (__fish_nvpair_proxy_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -s V -l version -d 'Print version'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "serve" -d 'Run the daemon in the foreground'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "status" -d 'Show facades, nodes and their load, scheduler and counts'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "select" -d 'Pin a facade to one node, or let it choose again'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "set-port" -d 'Move a facade to another port; it is remembered'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "workloads" -d 'Show recent and live requests, or the timeline of one'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "models" -d 'Show the models of all nodes'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "providers" -d 'Show the providers that the gateway falls back to'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "route" -d 'Show where a request for a model would go now, and why'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "nodes" -d 'Show nodes, add some, remove some'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "keys" -d 'Make, list and revoke the keys that callers from other machines show'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "agent" -d 'Join the engine on this machine to a gateway\'s node pool'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "doctor" -d 'Look for what may be wrong on this machine, each finding with its remedy'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "replay" -d 'Ask what would happen with recorded requests now, or send such requests again'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "config" -d 'Check, show, find or reload the configuration'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "healthcheck" -d 'Exit 0 if the daemon serves, for container and supervisor probes'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "generate" -d 'Write completions/ and man/, or print a unit for systemd or launchd'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l ipc -d 'Be driven by a parent that listens on this socket; implies --broker' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l config -d 'Configuration file; a named one must exist' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l engine -d 'Enable this engine\'s facade only (repeatable); a port here beats the remembered one' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l node -d 'Add a node (repeatable), such as ollama=http://tower.lan:11434' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l cluster-dir -d 'Folder of the cluster\'s certificates and pins' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l response-header-timeout -d 'Longest wait for an answer\'s header and its first content, such as 5m; 0 = no limit [env: NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT] [default: 30m]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l max-request-bytes -d 'Largest inference request that is kept for another try, such as 64MiB [default: 128MiB]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l alias -d 'Listen on one more loopback address (repeatable), such as ollama=127.0.0.1:11434' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l log-level -d 'Threshold of the log [env: NVPAIR_LOG_LEVEL] [default: info; warn where a person starts it, without a parent and with a terminal on stderr]' -r -f -a "debug\t''
info\t''
warn\t''
error\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l log-format -d 'Form of the log [default: text]' -r -f -a "text\t''
json\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l broker -d 'Be driven by a parent: JSON-RPC lines on stdin and stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l demo -d 'Start sample engines and route to them; nothing is saved'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l no-control-socket -d 'Do without the control socket; status and the others then cannot work'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand status" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand status" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand status" -l watch -d 'Show it again every second, until Ctrl-C; redrawn in place on a terminal'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand status" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand status" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand status" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -l auto -d 'Remove the pin'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand set-port" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand set-port" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand set-port" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand set-port" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand set-port" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand set-port" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l engine -d 'Only this facade' -r -f -a "ollama\t''
lmstudio\t''
llamacpp\t''
gateway\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l state -d 'Only those in this state' -r -f -a "queued\t''
running\t''
completed\t''
failed\t''
cancelled\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l model -d 'Only those for this model' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l node -d 'Only those on this node, by id or by a name that only one node has' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l limit -d 'At most so many, newest first [default: 50]; with --follow, rows on a terminal; with --export, the newest [default: all]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l export -d 'Write the records of finished ones to FILE, for `replay`; - writes them to stdout' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l follow -d 'Show changes as they happen, until Ctrl-C: on a terminal the newest ones in place, in a pipe a line for each change from now on'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -l engine -d 'Only this facade' -r -f -a "ollama\t''
lmstudio\t''
llamacpp\t''
gateway\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -l loaded -d 'Only models that some node has in memory'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand models" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand providers" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand providers" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand providers" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand providers" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand providers" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand providers" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -l engine -d 'Engine of the facade' -r -f -a "ollama\t''
lmstudio\t''
llamacpp\t''
gateway\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -l model -d 'Model, as a request would name it' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "list" -d 'Show the nodes of all facades, where they are and how they are'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "add" -d 'Add a node: it is probed, used while it answers, and there again after a restart'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "remove" -d 'Remove a node that was added'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "drain" -d 'Let a pool node finish what it has, and give it nothing new'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "resume" -d 'Use a drained pool node again'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "reset" -d 'Close the circuit breakers of a pool node'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "keys" -d 'Make, list and revoke the keys that workers register with'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and not __fish_seen_subcommand_from list add remove drain resume reset keys help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -l engine -d 'Only this facade' -r -f -a "ollama\t''
lmstudio\t''
llamacpp\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -l watch -d 'Show them again every second, until Ctrl-C; redrawn in place on a terminal'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l name -d 'Its id instead of the host\'s name' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l model -d 'A model it has (repeatable) [default: it is asked]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l slots -d 'Requests it runs side by side [default: it is asked, else 1]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l weight -d 'How much of the traffic it gets beside the others [default: 1]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l api-key-file -d 'File with the key it wants; `-` reads it from stdin. Never written on a command line, where others can read it' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -l engine -d 'The facade it belongs to; needed where several have it' -r -f -a "ollama\t''
lmstudio\t''
llamacpp\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -l wait -d 'Return when nothing runs on it any more'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from resume" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from resume" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from resume" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from resume" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from resume" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from reset" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from reset" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from reset" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from reset" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from reset" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from reset" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -f -a "create" -d 'Make a key for one node; it is shown this once, with the command that uses it'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -f -a "list" -d 'Show the keys there are, without what is secret of them'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -f -a "revoke" -d 'End a key at once; its node is put out'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from keys" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show the nodes of all facades, where they are and how they are'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a node: it is probed, used while it answers, and there again after a restart'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a node that was added'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "drain" -d 'Let a pool node finish what it has, and give it nothing new'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Use a drained pool node again'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "reset" -d 'Close the circuit breakers of a pool node'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "keys" -d 'Make, list and revoke the keys that workers register with'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -f -a "create" -d 'Make a key; it is shown this once'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -f -a "list" -d 'Show the keys there are, without what is secret of them'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -f -a "revoke" -d 'End a key: its next request is refused'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and not __fish_seen_subcommand_from create list revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -l allow -d 'What it may use (repeatable, or separated by commas)' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -l requests-per-minute -d 'Requests it may make in a minute [default: no limit]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -l tokens-per-day -d 'Tokens it may use in a day of UTC [default: no limit]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from list" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from list" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from revoke" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from revoke" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from revoke" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from revoke" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from revoke" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a key; it is shown this once'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show the keys there are, without what is secret of them'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'End a key: its next request is refused'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand keys; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l proxy-addr -d 'Registry of the gateway; port 9090 where none is given' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l node-id -d 'The node this is, as the key names it' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l engine -d 'What serves here' -r -f -a "ollama\t''
lmstudio\t''
llamacpp\t''
vllm\t''
tgi\t''
openai\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l endpoint -d 'Where gateways reach the engine' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l engine-url -d 'Where the agent reaches it [default: http://127.0.0.1 and the engine\'s usual port]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l node-key-file -d 'File with the node key, readable for its owner alone; without it NODE_KEY is read' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l proxy-fingerprint -d 'The registry\'s certificate has this digest' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l proxy-ca -d 'The registry\'s certificate is vouched for by those in this PEM file' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l max-concurrency -d 'Requests it runs side by side [default: what llama.cpp tells, else 1]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l base-weight -d 'Its share of the traffic, beside the other nodes\' [default: its concurrency]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l listen -d 'Take requests here, pass them to the engine and count them' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l drain-timeout -d 'How long requests under way may take at the end' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l sweep-interval -d 'How often the gateways look who drains: their `sweep_interval` [env: NODE_SWEEP_INTERVAL] [default: as the gateway tells]' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l log-format -d 'Form of the log on stderr' -r -f -a "text\t''
json\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand agent" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -l config -d 'Configuration file, as of serve' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -l cluster-dir -d 'Folder of the cluster\'s certificates and pins [default: the running daemon\'s]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l since -d 'Only what arrived in the last DURATION, such as 90s, 15m or 1h30m; of a FILE, in the last DURATION of the recording' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l last -d 'Only the newest N' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l engine -d 'Only this facade\'s' -r -f -a "ollama\t''
lmstudio\t''
llamacpp\t''
gateway\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l speed -d 'Let requests follow each other X times as fast as recorded, 0.01 to 1000' -r
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l send -d 'Send requests and measure, instead of only deciding'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -f -a "check" -d 'Name every problem of a configuration file; exit 2 if there is an error'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -f -a "show" -d 'Print the settings that would be in force, each with where it comes from'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -f -a "path" -d 'Print where files are looked for, and which are there'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -f -a "schema" -d 'Print the JSON Schema of the file, for editors and pipelines'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -f -a "reload" -d 'Let the running daemon read its configuration again; exit 2 if it is invalid'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and not __fish_seen_subcommand_from check show path schema reload help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from check" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from check" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from check" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from check" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from show" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from show" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from path" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from path" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from path" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from path" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from path" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from path" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from schema" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from schema" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from schema" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from schema" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from schema" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from reload" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from reload" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from reload" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from reload" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from reload" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Name every problem of a configuration file; exit 2 if there is an error'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "show" -d 'Print the settings that would be in force, each with where it comes from'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "path" -d 'Print where files are looked for, and which are there'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "schema" -d 'Print the JSON Schema of the file, for editors and pipelines'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "reload" -d 'Let the running daemon read its configuration again; exit 2 if it is invalid'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand healthcheck" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand healthcheck" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand healthcheck" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand healthcheck" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand healthcheck" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand healthcheck" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand completions" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand completions" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand completions" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand completions" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand completions" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -l check -d 'Write nothing; fail if anything there is out of date'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -a "systemd" -d 'Print a hardened unit for systemd'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -a "launchd" -d 'Print a property list for launchd (macOS)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and not __fish_seen_subcommand_from systemd launchd help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -l binary -d 'The binary that it starts [default: this one]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -l user -d 'A unit for your own user; the default'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -l system -d 'A unit for the machine, with a user of its own that systemd makes'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -l agent -d 'A unit for the agent of a pool node instead of the daemon'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from systemd" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -l binary -d 'The binary that it starts [default: this one]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -l log -d 'The file it logs to [default: ~/Library/Logs/nvpair-proxy.log]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -l socket -d 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]' -r -F
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -l color -d 'When to use colour; `auto` also obeys NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -l json -d 'Print one JSON document and nothing else on stdout'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -s v -l verbose -d 'Say more; for `serve` and `agent`, log at debug'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -s q -l quiet -d 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from launchd" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from help" -f -a "systemd" -d 'Print a hardened unit for systemd'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from help" -f -a "launchd" -d 'Print a property list for launchd (macOS)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand generate; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "serve" -d 'Run the daemon in the foreground'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "status" -d 'Show facades, nodes and their load, scheduler and counts'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "select" -d 'Pin a facade to one node, or let it choose again'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "set-port" -d 'Move a facade to another port; it is remembered'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "workloads" -d 'Show recent and live requests, or the timeline of one'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "models" -d 'Show the models of all nodes'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "providers" -d 'Show the providers that the gateway falls back to'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "route" -d 'Show where a request for a model would go now, and why'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "nodes" -d 'Show nodes, add some, remove some'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "keys" -d 'Make, list and revoke the keys that callers from other machines show'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "agent" -d 'Join the engine on this machine to a gateway\'s node pool'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "doctor" -d 'Look for what may be wrong on this machine, each finding with its remedy'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "replay" -d 'Ask what would happen with recorded requests now, or send such requests again'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "config" -d 'Check, show, find or reload the configuration'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "healthcheck" -d 'Exit 0 if the daemon serves, for container and supervisor probes'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "completions" -d 'Print the completion script of a shell'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "generate" -d 'Write completions/ and man/, or print a unit for systemd or launchd'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and not __fish_seen_subcommand_from serve status select set-port workloads models providers route nodes keys agent doctor replay config healthcheck completions generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from nodes" -f -a "list" -d 'Show the nodes of all facades, where they are and how they are'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from nodes" -f -a "add" -d 'Add a node: it is probed, used while it answers, and there again after a restart'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from nodes" -f -a "remove" -d 'Remove a node that was added'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from nodes" -f -a "drain" -d 'Let a pool node finish what it has, and give it nothing new'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from nodes" -f -a "resume" -d 'Use a drained pool node again'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from nodes" -f -a "reset" -d 'Close the circuit breakers of a pool node'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from nodes" -f -a "keys" -d 'Make, list and revoke the keys that workers register with'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from keys" -f -a "create" -d 'Make a key; it is shown this once'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from keys" -f -a "list" -d 'Show the keys there are, without what is secret of them'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from keys" -f -a "revoke" -d 'End a key: its next request is refused'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Name every problem of a configuration file; exit 2 if there is an error'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "show" -d 'Print the settings that would be in force, each with where it comes from'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "path" -d 'Print where files are looked for, and which are there'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "schema" -d 'Print the JSON Schema of the file, for editors and pipelines'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "reload" -d 'Let the running daemon read its configuration again; exit 2 if it is invalid'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from generate" -f -a "systemd" -d 'Print a hardened unit for systemd'
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand help; and __fish_seen_subcommand_from generate" -f -a "launchd" -d 'Print a property list for launchd (macOS)'

# Names that only a running daemon knows.
function __fish_nvpair_proxy_live
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    command $words[1] complete -- $words[2..-1] "$current" 2>/dev/null
end

complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select" -f -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l model -x -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand workloads" -l node -x -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand route" -l model -x -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from add" -f -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from remove" -f -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from drain" -f -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from resume" -f -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand nodes; and __fish_seen_subcommand_from reset" -f -a "(__fish_nvpair_proxy_live)"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand select; and not __fish_seen_subcommand_from ollama lmstudio llamacpp" -f -a "ollama lmstudio llamacpp"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand set-port; and not __fish_seen_subcommand_from ollama lmstudio llamacpp gateway" -f -a "ollama lmstudio llamacpp gateway"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand healthcheck; and not __fish_seen_subcommand_from ollama lmstudio llamacpp gateway" -f -a "ollama lmstudio llamacpp gateway"
complete -c nvpair-proxy -n "__fish_nvpair_proxy_using_subcommand completions; and not __fish_seen_subcommand_from bash elvish fish powershell zsh" -f -a "bash elvish fish powershell zsh"
