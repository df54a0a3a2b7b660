
use builtin;
use str;

set edit:completion:arg-completer[nvpair-proxy] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'nvpair-proxy'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'nvpair-proxy'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand serve 'Run the daemon in the foreground'
            cand status 'Show facades, nodes and their load, scheduler and counts'
            cand select 'Pin a facade to one node, or let it choose again'
            cand set-port 'Move a facade to another port; it is remembered'
            cand workloads 'Show recent and live requests, or the timeline of one'
            cand models 'Show the models of all nodes'
            cand providers 'Show the providers that the gateway falls back to'
            cand route 'Show where a request for a model would go now, and why'
            cand nodes 'Show nodes, add some, remove some'
            cand keys 'Make, list and revoke the keys that callers from other machines show'
            cand agent 'Join the engine on this machine to a gateway''s node pool'
            cand doctor 'Look for what may be wrong on this machine, each finding with its remedy'
            cand replay 'Ask what would happen with recorded requests now, or send such requests again'
            cand config 'Check, show, find or reload the configuration'
            cand healthcheck 'Exit 0 if the daemon serves, for container and supervisor probes'
            cand completions 'Print the completion script of a shell'
            cand generate 'Write completions/ and man/, or print a unit for systemd or launchd'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;serve'= {
            cand --ipc 'Be driven by a parent that listens on this socket; implies --broker'
            cand --config 'Configuration file; a named one must exist'
            cand --engine 'Enable this engine''s facade only (repeatable); a port here beats the remembered one'
            cand --node 'Add a node (repeatable), such as ollama=http://tower.lan:11434'
            cand --cluster-dir 'Folder of the cluster''s certificates and pins'
            cand --response-header-timeout 'Longest wait for an answer''s header and its first content, such as 5m; 0 = no limit [env: NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT] [default: 30m]'
            cand --max-request-bytes 'Largest inference request that is kept for another try, such as 64MiB [default: 128MiB]'
            cand --alias 'Listen on one more loopback address (repeatable), such as ollama=127.0.0.1:11434'
            cand --log-level 'Threshold of the log [env: NVPAIR_LOG_LEVEL] [default: info; warn where a person starts it, without a parent and with a terminal on stderr]'
            cand --log-format 'Form of the log [default: text]'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --broker 'Be driven by a parent: JSON-RPC lines on stdin and stdout'
            cand --demo 'Start sample engines and route to them; nothing is saved'
            cand --no-control-socket 'Do without the control socket; status and the others then cannot work'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;status'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --watch 'Show it again every second, until Ctrl-C; redrawn in place on a terminal'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;select'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --auto 'Remove the pin'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;set-port'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;workloads'= {
            cand --engine 'Only this facade'
            cand --state 'Only those in this state'
            cand --model 'Only those for this model'
            cand --node 'Only those on this node, by id or by a name that only one node has'
            cand --limit 'At most so many, newest first [default: 50]; with --follow, rows on a terminal; with --export, the newest [default: all]'
            cand --export 'Write the records of finished ones to FILE, for `replay`; - writes them to stdout'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --follow 'Show changes as they happen, until Ctrl-C: on a terminal the newest ones in place, in a pipe a line for each change from now on'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;models'= {
            cand --engine 'Only this facade'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --loaded 'Only models that some node has in memory'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;providers'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;route'= {
            cand --engine 'Engine of the facade'
            cand --model 'Model, as a request would name it'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand list 'Show the nodes of all facades, where they are and how they are'
            cand add 'Add a node: it is probed, used while it answers, and there again after a restart'
            cand remove 'Remove a node that was added'
            cand drain 'Let a pool node finish what it has, and give it nothing new'
            cand resume 'Use a drained pool node again'
            cand reset 'Close the circuit breakers of a pool node'
            cand keys 'Make, list and revoke the keys that workers register with'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;nodes;list'= {
            cand --engine 'Only this facade'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --watch 'Show them again every second, until Ctrl-C; redrawn in place on a terminal'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;add'= {
            cand --name 'Its id instead of the host''s name'
            cand --model 'A model it has (repeatable) [default: it is asked]'
            cand --slots 'Requests it runs side by side [default: it is asked, else 1]'
            cand --weight 'How much of the traffic it gets beside the others [default: 1]'
            cand --api-key-file 'File with the key it wants; `-` reads it from stdin. Never written on a command line, where others can read it'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;remove'= {
            cand --engine 'The facade it belongs to; needed where several have it'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;drain'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --wait 'Return when nothing runs on it any more'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;resume'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;reset'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;keys'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand create 'Make a key for one node; it is shown this once, with the command that uses it'
            cand list 'Show the keys there are, without what is secret of them'
            cand revoke 'End a key at once; its node is put out'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;nodes;keys;create'= {
            cand --node-id 'The one node it speaks for'
            cand --allow 'A network, address or host where the node may serve (repeatable, or separated by commas)'
            cand --model 'A model it may advertise, `*` for any text (repeatable, or separated by commas) [default: all]'
            cand --engine 'Its engine, for the command that is printed'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;keys;list'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;keys;revoke'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;nodes;keys;help'= {
            cand create 'Make a key for one node; it is shown this once, with the command that uses it'
            cand list 'Show the keys there are, without what is secret of them'
            cand revoke 'End a key at once; its node is put out'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;nodes;keys;help;create'= {
        }
        &'nvpair-proxy;nodes;keys;help;list'= {
        }
        &'nvpair-proxy;nodes;keys;help;revoke'= {
        }
        &'nvpair-proxy;nodes;keys;help;help'= {
        }
        &'nvpair-proxy;nodes;help'= {
            cand list 'Show the nodes of all facades, where they are and how they are'
            cand add 'Add a node: it is probed, used while it answers, and there again after a restart'
            cand remove 'Remove a node that was added'
            cand drain 'Let a pool node finish what it has, and give it nothing new'
            cand resume 'Use a drained pool node again'
            cand reset 'Close the circuit breakers of a pool node'
            cand keys 'Make, list and revoke the keys that workers register with'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;nodes;help;list'= {
        }
        &'nvpair-proxy;nodes;help;add'= {
        }
        &'nvpair-proxy;nodes;help;remove'= {
        }
        &'nvpair-proxy;nodes;help;drain'= {
        }
        &'nvpair-proxy;nodes;help;resume'= {
        }
        &'nvpair-proxy;nodes;help;reset'= {
        }
        &'nvpair-proxy;nodes;help;keys'= {
            cand create 'Make a key for one node; it is shown this once, with the command that uses it'
            cand list 'Show the keys there are, without what is secret of them'
            cand revoke 'End a key at once; its node is put out'
        }
        &'nvpair-proxy;nodes;help;keys;create'= {
        }
        &'nvpair-proxy;nodes;help;keys;list'= {
        }
        &'nvpair-proxy;nodes;help;keys;revoke'= {
        }
        &'nvpair-proxy;nodes;help;help'= {
        }
        &'nvpair-proxy;keys'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand create 'Make a key; it is shown this once'
            cand list 'Show the keys there are, without what is secret of them'
            cand revoke 'End a key: its next request is refused'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;keys;create'= {
            cand --allow 'What it may use (repeatable, or separated by commas)'
            cand --requests-per-minute 'Requests it may make in a minute [default: no limit]'
            cand --tokens-per-day 'Tokens it may use in a day of UTC [default: no limit]'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;keys;list'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;keys;revoke'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;keys;help'= {
            cand create 'Make a key; it is shown this once'
            cand list 'Show the keys there are, without what is secret of them'
            cand revoke 'End a key: its next request is refused'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;keys;help;create'= {
        }
        &'nvpair-proxy;keys;help;list'= {
        }
        &'nvpair-proxy;keys;help;revoke'= {
        }
        &'nvpair-proxy;keys;help;help'= {
        }
        &'nvpair-proxy;agent'= {
            cand --proxy-addr 'Registry of the gateway; port 9090 where none is given'
            cand --node-id 'The node this is, as the key names it'
            cand --engine 'What serves here'
            cand --endpoint 'Where gateways reach the engine'
            cand --engine-url 'Where the agent reaches it [default: http://127.0.0.1 and the engine''s usual port]'
            cand --node-key-file 'File with the node key, readable for its owner alone; without it NODE_KEY is read'
            cand --proxy-fingerprint 'The registry''s certificate has this digest'
            cand --proxy-ca 'The registry''s certificate is vouched for by those in this PEM file'
            cand --max-concurrency 'Requests it runs side by side [default: what llama.cpp tells, else 1]'
            cand --base-weight 'Its share of the traffic, beside the other nodes'' [default: its concurrency]'
            cand --listen 'Take requests here, pass them to the engine and count them'
            cand --drain-timeout 'How long requests under way may take at the end'
            cand --sweep-interval 'How often the gateways look who drains: their `sweep_interval` [env: NODE_SWEEP_INTERVAL] [default: as the gateway tells]'
            cand --log-format 'Form of the log on stderr'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;doctor'= {
            cand --config 'Configuration file, as of serve'
            cand --cluster-dir 'Folder of the cluster''s certificates and pins [default: the running daemon''s]'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;replay'= {
            cand --since 'Only what arrived in the last DURATION, such as 90s, 15m or 1h30m; of a FILE, in the last DURATION of the recording'
            cand --last 'Only the newest N'
            cand --engine 'Only this facade''s'
            cand --speed 'Let requests follow each other X times as fast as recorded, 0.01 to 1000'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --send 'Send requests and measure, instead of only deciding'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;config'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand check 'Name every problem of a configuration file; exit 2 if there is an error'
            cand show 'Print the settings that would be in force, each with where it comes from'
            cand path 'Print where files are looked for, and which are there'
            cand schema 'Print the JSON Schema of the file, for editors and pipelines'
            cand reload 'Let the running daemon read its configuration again; exit 2 if it is invalid'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;config;check'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;config;show'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;config;path'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;config;schema'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;config;reload'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;config;help'= {
            cand check 'Name every problem of a configuration file; exit 2 if there is an error'
            cand show 'Print the settings that would be in force, each with where it comes from'
            cand path 'Print where files are looked for, and which are there'
            cand schema 'Print the JSON Schema of the file, for editors and pipelines'
            cand reload 'Let the running daemon read its configuration again; exit 2 if it is invalid'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;config;help;check'= {
        }
        &'nvpair-proxy;config;help;show'= {
        }
        &'nvpair-proxy;config;help;path'= {
        }
        &'nvpair-proxy;config;help;schema'= {
        }
        &'nvpair-proxy;config;help;reload'= {
        }
        &'nvpair-proxy;config;help;help'= {
        }
        &'nvpair-proxy;healthcheck'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;completions'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;generate'= {
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --check 'Write nothing; fail if anything there is out of date'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand systemd 'Print a hardened unit for systemd'
            cand launchd 'Print a property list for launchd (macOS)'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;generate;systemd'= {
            cand --binary 'The binary that it starts [default: this one]'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --user 'A unit for your own user; the default'
            cand --system 'A unit for the machine, with a user of its own that systemd makes'
            cand --agent 'A unit for the agent of a pool node instead of the daemon'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;generate;launchd'= {
            cand --binary 'The binary that it starts [default: this one]'
            cand --log 'The file it logs to [default: ~/Library/Logs/nvpair-proxy.log]'
            cand --socket 'Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]'
            cand --color 'When to use colour; `auto` also obeys NO_COLOR'
            cand --json 'Print one JSON document and nothing else on stdout'
            cand -v 'Say more; for `serve` and `agent`, log at debug'
            cand --verbose 'Say more; for `serve` and `agent`, log at debug'
            cand -q 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand --quiet 'Say less: no confirmations; for `serve` and `agent`, log warnings and errors only'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'nvpair-proxy;generate;help'= {
            cand systemd 'Print a hardened unit for systemd'
            cand launchd 'Print a property list for launchd (macOS)'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;generate;help;systemd'= {
        }
        &'nvpair-proxy;generate;help;launchd'= {
        }
        &'nvpair-proxy;generate;help;help'= {
        }
        &'nvpair-proxy;help'= {
            cand serve 'Run the daemon in the foreground'
            cand status 'Show facades, nodes and their load, scheduler and counts'
            cand select 'Pin a facade to one node, or let it choose again'
            cand set-port 'Move a facade to another port; it is remembered'
            cand workloads 'Show recent and live requests, or the timeline of one'
            cand models 'Show the models of all nodes'
            cand providers 'Show the providers that the gateway falls back to'
            cand route 'Show where a request for a model would go now, and why'
            cand nodes 'Show nodes, add some, remove some'
            cand keys 'Make, list and revoke the keys that callers from other machines show'
            cand agent 'Join the engine on this machine to a gateway''s node pool'
            cand doctor 'Look for what may be wrong on this machine, each finding with its remedy'
            cand replay 'Ask what would happen with recorded requests now, or send such requests again'
            cand config 'Check, show, find or reload the configuration'
            cand healthcheck 'Exit 0 if the daemon serves, for container and supervisor probes'
            cand completions 'Print the completion script of a shell'
            cand generate 'Write completions/ and man/, or print a unit for systemd or launchd'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'nvpair-proxy;help;serve'= {
        }
        &'nvpair-proxy;help;status'= {
        }
        &'nvpair-proxy;help;select'= {
        }
        &'nvpair-proxy;help;set-port'= {
        }
        &'nvpair-proxy;help;workloads'= {
        }
        &'nvpair-proxy;help;models'= {
        }
        &'nvpair-proxy;help;providers'= {
        }
        &'nvpair-proxy;help;route'= {
        }
        &'nvpair-proxy;help;nodes'= {
            cand list 'Show the nodes of all facades, where they are and how they are'
            cand add 'Add a node: it is probed, used while it answers, and there again after a restart'
            cand remove 'Remove a node that was added'
            cand drain 'Let a pool node finish what it has, and give it nothing new'
            cand resume 'Use a drained pool node again'
            cand reset 'Close the circuit breakers of a pool node'
            cand keys 'Make, list and revoke the keys that workers register with'
        }
        &'nvpair-proxy;help;nodes;list'= {
        }
        &'nvpair-proxy;help;nodes;add'= {
        }
        &'nvpair-proxy;help;nodes;remove'= {
        }
        &'nvpair-proxy;help;nodes;drain'= {
        }
        &'nvpair-proxy;help;nodes;resume'= {
        }
        &'nvpair-proxy;help;nodes;reset'= {
        }
        &'nvpair-proxy;help;nodes;keys'= {
            cand create 'Make a key for one node; it is shown this once, with the command that uses it'
            cand list 'Show the keys there are, without what is secret of them'
            cand revoke 'End a key at once; its node is put out'
        }
        &'nvpair-proxy;help;nodes;keys;create'= {
        }
        &'nvpair-proxy;help;nodes;keys;list'= {
        }
        &'nvpair-proxy;help;nodes;keys;revoke'= {
        }
        &'nvpair-proxy;help;keys'= {
            cand create 'Make a key; it is shown this once'
            cand list 'Show the keys there are, without what is secret of them'
            cand revoke 'End a key: its next request is refused'
        }
        &'nvpair-proxy;help;keys;create'= {
        }
        &'nvpair-proxy;help;keys;list'= {
        }
        &'nvpair-proxy;help;keys;revoke'= {
        }
        &'nvpair-proxy;help;agent'= {
        }
        &'nvpair-proxy;help;doctor'= {
        }
        &'nvpair-proxy;help;replay'= {
        }
        &'nvpair-proxy;help;config'= {
            cand check 'Name every problem of a configuration file; exit 2 if there is an error'
            cand show 'Print the settings that would be in force, each with where it comes from'
            cand path 'Print where files are looked for, and which are there'
            cand schema 'Print the JSON Schema of the file, for editors and pipelines'
            cand reload 'Let the running daemon read its configuration again; exit 2 if it is invalid'
        }
        &'nvpair-proxy;help;config;check'= {
        }
        &'nvpair-proxy;help;config;show'= {
        }
        &'nvpair-proxy;help;config;path'= {
        }
        &'nvpair-proxy;help;config;schema'= {
        }
        &'nvpair-proxy;help;config;reload'= {
        }
        &'nvpair-proxy;help;healthcheck'= {
        }
        &'nvpair-proxy;help;completions'= {
        }
        &'nvpair-proxy;help;generate'= {
            cand systemd 'Print a hardened unit for systemd'
            cand launchd 'Print a property list for launchd (macOS)'
        }
        &'nvpair-proxy;help;generate;systemd'= {
        }
        &'nvpair-proxy;help;generate;launchd'= {
        }
        &'nvpair-proxy;help;help'= {
        }
    ]
    $completions[$command]
}
