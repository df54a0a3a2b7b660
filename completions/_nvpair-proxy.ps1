
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'nvpair-proxy' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'nvpair-proxy'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'nvpair-proxy' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Run the daemon in the foreground')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show facades, nodes and their load, scheduler and counts')
            [CompletionResult]::new('select', 'select', [CompletionResultType]::ParameterValue, 'Pin a facade to one node, or let it choose again')
            [CompletionResult]::new('set-port', 'set-port', [CompletionResultType]::ParameterValue, 'Move a facade to another port; it is remembered')
            [CompletionResult]::new('workloads', 'workloads', [CompletionResultType]::ParameterValue, 'Show recent and live requests, or the timeline of one')
            [CompletionResult]::new('models', 'models', [CompletionResultType]::ParameterValue, 'Show the models of all nodes')
            [CompletionResult]::new('providers', 'providers', [CompletionResultType]::ParameterValue, 'Show the providers that the gateway falls back to')
            [CompletionResult]::new('route', 'route', [CompletionResultType]::ParameterValue, 'Show where a request for a model would go now, and why')
            [CompletionResult]::new('nodes', 'nodes', [CompletionResultType]::ParameterValue, 'Show nodes, add some, remove some')
            [CompletionResult]::new('keys', 'keys', [CompletionResultType]::ParameterValue, 'Make, list and revoke the keys that callers from other machines show')
            [CompletionResult]::new('agent', 'agent', [CompletionResultType]::ParameterValue, 'Join the engine on this machine to a gateway''s node pool')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Look for what may be wrong on this machine, each finding with its remedy')
            [CompletionResult]::new('replay', 'replay', [CompletionResultType]::ParameterValue, 'Ask what would happen with recorded requests now, or send such requests again')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Check, show, find or reload the configuration')
            [CompletionResult]::new('healthcheck', 'healthcheck', [CompletionResultType]::ParameterValue, 'Exit 0 if the daemon serves, for container and supervisor probes')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Write completions/ and man/, or print a unit for systemd or launchd')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;serve' {
            [CompletionResult]::new('--ipc', '--ipc', [CompletionResultType]::ParameterName, 'Be driven by a parent that listens on this socket; implies --broker')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration file; a named one must exist')
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Enable this engine''s facade only (repeatable); a port here beats the remembered one')
            [CompletionResult]::new('--node', '--node', [CompletionResultType]::ParameterName, 'Add a node (repeatable), such as ollama=http://tower.lan:11434')
            [CompletionResult]::new('--cluster-dir', '--cluster-dir', [CompletionResultType]::ParameterName, 'Folder of the cluster''s certificates and pins')
            [CompletionResult]::new('--response-header-timeout', '--response-header-timeout', [CompletionResultType]::ParameterName, 'Longest wait for an answer''s header and its first content, such as 5m; 0 = no limit [env: NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT] [default: 30m]')
            [CompletionResult]::new('--max-request-bytes', '--max-request-bytes', [CompletionResultType]::ParameterName, 'Largest inference request that is kept for another try, such as 64MiB [default: 128MiB]')
            [CompletionResult]::new('--alias', '--alias', [CompletionResultType]::ParameterName, 'Listen on one more loopback address (repeatable), such as ollama=127.0.0.1:11434')
            [CompletionResult]::new('--log-level', '--log-level', [CompletionResultType]::ParameterName, 'Threshold of the log [env: NVPAIR_LOG_LEVEL] [default: info; warn where a person starts it, without a parent and with a terminal on stderr]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of the log [default: text]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Be driven by a parent: JSON-RPC lines on stdin and stdout')
            [CompletionResult]::new('--demo', '--demo', [CompletionResultType]::ParameterName, 'Start sample engines and route to them; nothing is saved')
            [CompletionResult]::new('--no-control-socket', '--no-control-socket', [CompletionResultType]::ParameterName, 'Do without the control socket; status and the others then cannot work')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;status' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Show it again every second, until Ctrl-C; redrawn in place on a terminal')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;select' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--auto', '--auto', [CompletionResultType]::ParameterName, 'Remove the pin')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;set-port' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;workloads' {
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Only this facade')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'Only those in this state')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Only those for this model')
            [CompletionResult]::new('--node', '--node', [CompletionResultType]::ParameterName, 'Only those on this node, by id or by a name that only one node has')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'At most so many, newest first [default: 50]; with --follow, rows on a terminal; with --export, the newest [default: all]')
            [CompletionResult]::new('--export', '--export', [CompletionResultType]::ParameterName, 'Write the records of finished ones to FILE, for `replay`; - writes them to stdout')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--follow', '--follow', [CompletionResultType]::ParameterName, 'Show changes as they happen, until Ctrl-C: on a terminal the newest ones in place, in a pipe a line for each change from now on')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;models' {
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Only this facade')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--loaded', '--loaded', [CompletionResultType]::ParameterName, 'Only models that some node has in memory')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;providers' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;route' {
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Engine of the facade')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Model, as a request would name it')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the nodes of all facades, where they are and how they are')
            [CompletionResult]::new('add', 'add', [CompletionResultType]::ParameterValue, 'Add a node: it is probed, used while it answers, and there again after a restart')
            [CompletionResult]::new('remove', 'remove', [CompletionResultType]::ParameterValue, 'Remove a node that was added')
            [CompletionResult]::new('drain', 'drain', [CompletionResultType]::ParameterValue, 'Let a pool node finish what it has, and give it nothing new')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Use a drained pool node again')
            [CompletionResult]::new('reset', 'reset', [CompletionResultType]::ParameterValue, 'Close the circuit breakers of a pool node')
            [CompletionResult]::new('keys', 'keys', [CompletionResultType]::ParameterValue, 'Make, list and revoke the keys that workers register with')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;nodes;list' {
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Only this facade')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Show them again every second, until Ctrl-C; redrawn in place on a terminal')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;add' {
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Its id instead of the host''s name')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'A model it has (repeatable) [default: it is asked]')
            [CompletionResult]::new('--slots', '--slots', [CompletionResultType]::ParameterName, 'Requests it runs side by side [default: it is asked, else 1]')
            [CompletionResult]::new('--weight', '--weight', [CompletionResultType]::ParameterName, 'How much of the traffic it gets beside the others [default: 1]')
            [CompletionResult]::new('--api-key-file', '--api-key-file', [CompletionResultType]::ParameterName, 'File with the key it wants; `-` reads it from stdin. Never written on a command line, where others can read it')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;remove' {
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'The facade it belongs to; needed where several have it')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;drain' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'Return when nothing runs on it any more')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;resume' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;reset' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;keys' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key for one node; it is shown this once, with the command that uses it')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the keys there are, without what is secret of them')
            [CompletionResult]::new('revoke', 'revoke', [CompletionResultType]::ParameterValue, 'End a key at once; its node is put out')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;nodes;keys;create' {
            [CompletionResult]::new('--node-id', '--node-id', [CompletionResultType]::ParameterName, 'The one node it speaks for')
            [CompletionResult]::new('--allow', '--allow', [CompletionResultType]::ParameterName, 'A network, address or host where the node may serve (repeatable, or separated by commas)')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'A model it may advertise, `*` for any text (repeatable, or separated by commas) [default: all]')
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Its engine, for the command that is printed')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;keys;list' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;keys;revoke' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;nodes;keys;help' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key for one node; it is shown this once, with the command that uses it')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the keys there are, without what is secret of them')
            [CompletionResult]::new('revoke', 'revoke', [CompletionResultType]::ParameterValue, 'End a key at once; its node is put out')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;nodes;keys;help;create' {
            break
        }
        'nvpair-proxy;nodes;keys;help;list' {
            break
        }
        'nvpair-proxy;nodes;keys;help;revoke' {
            break
        }
        'nvpair-proxy;nodes;keys;help;help' {
            break
        }
        'nvpair-proxy;nodes;help' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the nodes of all facades, where they are and how they are')
            [CompletionResult]::new('add', 'add', [CompletionResultType]::ParameterValue, 'Add a node: it is probed, used while it answers, and there again after a restart')
            [CompletionResult]::new('remove', 'remove', [CompletionResultType]::ParameterValue, 'Remove a node that was added')
            [CompletionResult]::new('drain', 'drain', [CompletionResultType]::ParameterValue, 'Let a pool node finish what it has, and give it nothing new')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Use a drained pool node again')
            [CompletionResult]::new('reset', 'reset', [CompletionResultType]::ParameterValue, 'Close the circuit breakers of a pool node')
            [CompletionResult]::new('keys', 'keys', [CompletionResultType]::ParameterValue, 'Make, list and revoke the keys that workers register with')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;nodes;help;list' {
            break
        }
        'nvpair-proxy;nodes;help;add' {
            break
        }
        'nvpair-proxy;nodes;help;remove' {
            break
        }
        'nvpair-proxy;nodes;help;drain' {
            break
        }
        'nvpair-proxy;nodes;help;resume' {
            break
        }
        'nvpair-proxy;nodes;help;reset' {
            break
        }
        'nvpair-proxy;nodes;help;keys' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key for one node; it is shown this once, with the command that uses it')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the keys there are, without what is secret of them')
            [CompletionResult]::new('revoke', 'revoke', [CompletionResultType]::ParameterValue, 'End a key at once; its node is put out')
            break
        }
        'nvpair-proxy;nodes;help;keys;create' {
            break
        }
        'nvpair-proxy;nodes;help;keys;list' {
            break
        }
        'nvpair-proxy;nodes;help;keys;revoke' {
            break
        }
        'nvpair-proxy;nodes;help;help' {
            break
        }
        'nvpair-proxy;keys' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key; it is shown this once')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the keys there are, without what is secret of them')
            [CompletionResult]::new('revoke', 'revoke', [CompletionResultType]::ParameterValue, 'End a key: its next request is refused')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;keys;create' {
            [CompletionResult]::new('--allow', '--allow', [CompletionResultType]::ParameterName, 'What it may use (repeatable, or separated by commas)')
            [CompletionResult]::new('--requests-per-minute', '--requests-per-minute', [CompletionResultType]::ParameterName, 'Requests it may make in a minute [default: no limit]')
            [CompletionResult]::new('--tokens-per-day', '--tokens-per-day', [CompletionResultType]::ParameterName, 'Tokens it may use in a day of UTC [default: no limit]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;keys;list' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;keys;revoke' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;keys;help' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key; it is shown this once')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the keys there are, without what is secret of them')
            [CompletionResult]::new('revoke', 'revoke', [CompletionResultType]::ParameterValue, 'End a key: its next request is refused')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;keys;help;create' {
            break
        }
        'nvpair-proxy;keys;help;list' {
            break
        }
        'nvpair-proxy;keys;help;revoke' {
            break
        }
        'nvpair-proxy;keys;help;help' {
            break
        }
        'nvpair-proxy;agent' {
            [CompletionResult]::new('--proxy-addr', '--proxy-addr', [CompletionResultType]::ParameterName, 'Registry of the gateway; port 9090 where none is given')
            [CompletionResult]::new('--node-id', '--node-id', [CompletionResultType]::ParameterName, 'The node this is, as the key names it')
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'What serves here')
            [CompletionResult]::new('--endpoint', '--endpoint', [CompletionResultType]::ParameterName, 'Where gateways reach the engine')
            [CompletionResult]::new('--engine-url', '--engine-url', [CompletionResultType]::ParameterName, 'Where the agent reaches it [default: http://127.0.0.1 and the engine''s usual port]')
            [CompletionResult]::new('--node-key-file', '--node-key-file', [CompletionResultType]::ParameterName, 'File with the node key, readable for its owner alone; without it NODE_KEY is read')
            [CompletionResult]::new('--proxy-fingerprint', '--proxy-fingerprint', [CompletionResultType]::ParameterName, 'The registry''s certificate has this digest')
            [CompletionResult]::new('--proxy-ca', '--proxy-ca', [CompletionResultType]::ParameterName, 'The registry''s certificate is vouched for by those in this PEM file')
            [CompletionResult]::new('--max-concurrency', '--max-concurrency', [CompletionResultType]::ParameterName, 'Requests it runs side by side [default: what llama.cpp tells, else 1]')
            [CompletionResult]::new('--base-weight', '--base-weight', [CompletionResultType]::ParameterName, 'Its share of the traffic, beside the other nodes'' [default: its concurrency]')
            [CompletionResult]::new('--listen', '--listen', [CompletionResultType]::ParameterName, 'Take requests here, pass them to the engine and count them')
            [CompletionResult]::new('--drain-timeout', '--drain-timeout', [CompletionResultType]::ParameterName, 'How long requests under way may take at the end')
            [CompletionResult]::new('--sweep-interval', '--sweep-interval', [CompletionResultType]::ParameterName, 'How often the gateways look who drains: their `sweep_interval` [env: NODE_SWEEP_INTERVAL] [default: as the gateway tells]')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of the log on stderr')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;doctor' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration file, as of serve')
            [CompletionResult]::new('--cluster-dir', '--cluster-dir', [CompletionResultType]::ParameterName, 'Folder of the cluster''s certificates and pins [default: the running daemon''s]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;replay' {
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only what arrived in the last DURATION, such as 90s, 15m or 1h30m; of a FILE, in the last DURATION of the recording')
            [CompletionResult]::new('--last', '--last', [CompletionResultType]::ParameterName, 'Only the newest N')
            [CompletionResult]::new('--engine', '--engine', [CompletionResultType]::ParameterName, 'Only this facade''s')
            [CompletionResult]::new('--speed', '--speed', [CompletionResultType]::ParameterName, 'Let requests follow each other X times as fast as recorded, 0.01 to 1000')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--send', '--send', [CompletionResultType]::ParameterName, 'Send requests and measure, instead of only deciding')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Name every problem of a configuration file; exit 2 if there is an error')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Print the settings that would be in force, each with where it comes from')
            [CompletionResult]::new('path', 'path', [CompletionResultType]::ParameterValue, 'Print where files are looked for, and which are there')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'Print the JSON Schema of the file, for editors and pipelines')
            [CompletionResult]::new('reload', 'reload', [CompletionResultType]::ParameterValue, 'Let the running daemon read its configuration again; exit 2 if it is invalid')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;config;check' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;show' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;path' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;schema' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;reload' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;help' {
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Name every problem of a configuration file; exit 2 if there is an error')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Print the settings that would be in force, each with where it comes from')
            [CompletionResult]::new('path', 'path', [CompletionResultType]::ParameterValue, 'Print where files are looked for, and which are there')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'Print the JSON Schema of the file, for editors and pipelines')
            [CompletionResult]::new('reload', 'reload', [CompletionResultType]::ParameterValue, 'Let the running daemon read its configuration again; exit 2 if it is invalid')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;config;help;check' {
            break
        }
        'nvpair-proxy;config;help;show' {
            break
        }
        'nvpair-proxy;config;help;path' {
            break
        }
        'nvpair-proxy;config;help;schema' {
            break
        }
        'nvpair-proxy;config;help;reload' {
            break
        }
        'nvpair-proxy;config;help;help' {
            break
        }
        'nvpair-proxy;healthcheck' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;completions' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;generate' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Write nothing; fail if anything there is out of date')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('systemd', 'systemd', [CompletionResultType]::ParameterValue, 'Print a hardened unit for systemd')
            [CompletionResult]::new('launchd', 'launchd', [CompletionResultType]::ParameterValue, 'Print a property list for launchd (macOS)')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;generate;systemd' {
            [CompletionResult]::new('--binary', '--binary', [CompletionResultType]::ParameterName, 'The binary that it starts [default: this one]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'A unit for your own user; the default')
            [CompletionResult]::new('--system', '--system', [CompletionResultType]::ParameterName, 'A unit for the machine, with a user of its own that systemd makes')
            [CompletionResult]::new('--agent', '--agent', [CompletionResultType]::ParameterName, 'A unit for the agent of a pool node instead of the daemon')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;generate;launchd' {
            [CompletionResult]::new('--binary', '--binary', [CompletionResultType]::ParameterName, 'The binary that it starts [default: this one]')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'The file it logs to [default: ~/Library/Logs/nvpair-proxy.log]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve` and `agent`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;generate;help' {
            [CompletionResult]::new('systemd', 'systemd', [CompletionResultType]::ParameterValue, 'Print a hardened unit for systemd')
            [CompletionResult]::new('launchd', 'launchd', [CompletionResultType]::ParameterValue, 'Print a property list for launchd (macOS)')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;generate;help;systemd' {
            break
        }
        'nvpair-proxy;generate;help;launchd' {
            break
        }
        'nvpair-proxy;generate;help;help' {
            break
        }
        'nvpair-proxy;help' {
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Run the daemon in the foreground')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show facades, nodes and their load, scheduler and counts')
            [CompletionResult]::new('select', 'select', [CompletionResultType]::ParameterValue, 'Pin a facade to one node, or let it choose again')
            [CompletionResult]::new('set-port', 'set-port', [CompletionResultType]::ParameterValue, 'Move a facade to another port; it is remembered')
            [CompletionResult]::new('workloads', 'workloads', [CompletionResultType]::ParameterValue, 'Show recent and live requests, or the timeline of one')
            [CompletionResult]::new('models', 'models', [CompletionResultType]::ParameterValue, 'Show the models of all nodes')
            [CompletionResult]::new('providers', 'providers', [CompletionResultType]::ParameterValue, 'Show the providers that the gateway falls back to')
            [CompletionResult]::new('route', 'route', [CompletionResultType]::ParameterValue, 'Show where a request for a model would go now, and why')
            [CompletionResult]::new('nodes', 'nodes', [CompletionResultType]::ParameterValue, 'Show nodes, add some, remove some')
            [CompletionResult]::new('keys', 'keys', [CompletionResultType]::ParameterValue, 'Make, list and revoke the keys that callers from other machines show')
            [CompletionResult]::new('agent', 'agent', [CompletionResultType]::ParameterValue, 'Join the engine on this machine to a gateway''s node pool')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Look for what may be wrong on this machine, each finding with its remedy')
            [CompletionResult]::new('replay', 'replay', [CompletionResultType]::ParameterValue, 'Ask what would happen with recorded requests now, or send such requests again')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Check, show, find or reload the configuration')
            [CompletionResult]::new('healthcheck', 'healthcheck', [CompletionResultType]::ParameterValue, 'Exit 0 if the daemon serves, for container and supervisor probes')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Write completions/ and man/, or print a unit for systemd or launchd')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'nvpair-proxy;help;serve' {
            break
        }
        'nvpair-proxy;help;status' {
            break
        }
        'nvpair-proxy;help;select' {
            break
        }
        'nvpair-proxy;help;set-port' {
            break
        }
        'nvpair-proxy;help;workloads' {
            break
        }
        'nvpair-proxy;help;models' {
            break
        }
        'nvpair-proxy;help;providers' {
            break
        }
        'nvpair-proxy;help;route' {
            break
        }
        'nvpair-proxy;help;nodes' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the nodes of all facades, where they are and how they are')
            [CompletionResult]::new('add', 'add', [CompletionResultType]::ParameterValue, 'Add a node: it is probed, used while it answers, and there again after a restart')
            [CompletionResult]::new('remove', 'remove', [CompletionResultType]::ParameterValue, 'Remove a node that was added')
            [CompletionResult]::new('drain', 'drain', [CompletionResultType]::ParameterValue, 'Let a pool node finish what it has, and give it nothing new')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Use a drained pool node again')
            [CompletionResult]::new('reset', 'reset', [CompletionResultType]::ParameterValue, 'Close the circuit breakers of a pool node')
            [CompletionResult]::new('keys', 'keys', [CompletionResultType]::ParameterValue, 'Make, list and revoke the keys that workers register with')
            break
        }
        'nvpair-proxy;help;nodes;list' {
            break
        }
        'nvpair-proxy;help;nodes;add' {
            break
        }
        'nvpair-proxy;help;nodes;remove' {
            break
        }
        'nvpair-proxy;help;nodes;drain' {
            break
        }
        'nvpair-proxy;help;nodes;resume' {
            break
        }
        'nvpair-proxy;help;nodes;reset' {
            break
        }
        'nvpair-proxy;help;nodes;keys' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key for one node; it is shown this once, with the command that uses it')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the keys there are, without what is secret of them')
            [CompletionResult]::new('revoke', 'revoke', [CompletionResultType]::ParameterValue, 'End a key at once; its node is put out')
            break
        }
        'nvpair-proxy;help;nodes;keys;create' {
            break
        }
        'nvpair-proxy;help;nodes;keys;list' {
            break
        }
        'nvpair-proxy;help;nodes;keys;revoke' {
            break
        }
        'nvpair-proxy;help;keys' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key; it is shown this once')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the keys there are, without what is secret of them')
            [CompletionResult]::new('revoke', 'revoke', [CompletionResultType]::ParameterValue, 'End a key: its next request is refused')
            break
        }
        'nvpair-proxy;help;keys;create' {
            break
        }
        'nvpair-proxy;help;keys;list' {
            break
        }
        'nvpair-proxy;help;keys;revoke' {
            break
        }
        'nvpair-proxy;help;agent' {
            break
        }
        'nvpair-proxy;help;doctor' {
            break
        }
        'nvpair-proxy;help;replay' {
            break
        }
        'nvpair-proxy;help;config' {
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Name every problem of a configuration file; exit 2 if there is an error')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Print the settings that would be in force, each with where it comes from')
            [CompletionResult]::new('path', 'path', [CompletionResultType]::ParameterValue, 'Print where files are looked for, and which are there')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'Print the JSON Schema of the file, for editors and pipelines')
            [CompletionResult]::new('reload', 'reload', [CompletionResultType]::ParameterValue, 'Let the running daemon read its configuration again; exit 2 if it is invalid')
            break
        }
        'nvpair-proxy;help;config;check' {
            break
        }
        'nvpair-proxy;help;config;show' {
            break
        }
        'nvpair-proxy;help;config;path' {
            break
        }
        'nvpair-proxy;help;config;schema' {
            break
        }
        'nvpair-proxy;help;config;reload' {
            break
        }
        'nvpair-proxy;help;healthcheck' {
            break
        }
        'nvpair-proxy;help;completions' {
            break
        }
        'nvpair-proxy;help;generate' {
            [CompletionResult]::new('systemd', 'systemd', [CompletionResultType]::ParameterValue, 'Print a hardened unit for systemd')
            [CompletionResult]::new('launchd', 'launchd', [CompletionResultType]::ParameterValue, 'Print a property list for launchd (macOS)')
            break
        }
        'nvpair-proxy;help;generate;systemd' {
            break
        }
        'nvpair-proxy;help;generate;launchd' {
            break
        }
        'nvpair-proxy;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
