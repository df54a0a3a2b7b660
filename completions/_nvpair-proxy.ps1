
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
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
            [CompletionResult]::new('route', 'route', [CompletionResultType]::ParameterValue, 'Show where a request for a model would go now, and why')
            [CompletionResult]::new('replay', 'replay', [CompletionResultType]::ParameterValue, 'Ask what would happen with recorded requests now, or send such requests again')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Check, show, find or reload the configuration')
            [CompletionResult]::new('healthcheck', 'healthcheck', [CompletionResultType]::ParameterValue, 'Exit 0 if the daemon serves, for container and supervisor probes')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;status' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Show it again every second, until Ctrl-C; redrawn in place on a terminal')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;select' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--auto', '--auto', [CompletionResultType]::ParameterName, 'Remove the pin')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;set-port' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;show' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;path' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;schema' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;config;reload' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
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
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;completions' {
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colour; `auto` also obeys NO_COLOR')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON document and nothing else on stdout')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more; for `serve`, log at debug')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say less: no confirmations; for `serve`, log warnings and errors only')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'nvpair-proxy;help' {
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Run the daemon in the foreground')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show facades, nodes and their load, scheduler and counts')
            [CompletionResult]::new('select', 'select', [CompletionResultType]::ParameterValue, 'Pin a facade to one node, or let it choose again')
            [CompletionResult]::new('set-port', 'set-port', [CompletionResultType]::ParameterValue, 'Move a facade to another port; it is remembered')
            [CompletionResult]::new('workloads', 'workloads', [CompletionResultType]::ParameterValue, 'Show recent and live requests, or the timeline of one')
            [CompletionResult]::new('models', 'models', [CompletionResultType]::ParameterValue, 'Show the models of all nodes')
            [CompletionResult]::new('route', 'route', [CompletionResultType]::ParameterValue, 'Show where a request for a model would go now, and why')
            [CompletionResult]::new('replay', 'replay', [CompletionResultType]::ParameterValue, 'Ask what would happen with recorded requests now, or send such requests again')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Check, show, find or reload the configuration')
            [CompletionResult]::new('healthcheck', 'healthcheck', [CompletionResultType]::ParameterValue, 'Exit 0 if the daemon serves, for container and supervisor probes')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
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
        'nvpair-proxy;help;route' {
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
        'nvpair-proxy;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
