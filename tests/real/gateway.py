"""The part `gateway` of `run`: real clients > the gateway > a real llama-server, with others as its providers.

Real: three llama-servers (a node that chats, a node that embeds, a provider that wants its key), the openai, anthropic and
LangChain SDKs, the `llm` command, the kill -9. Ours: `Scripted`, a provider that limits when it is told to, and that takes
audio apart, for which no small real one can be had.
Owns those processes and what they must show; the clients' own checks are in `clients` and `gateway_clients.py`.
"""
import hashlib
import json
import subprocess
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from common import Stream, kill_under_load, need, sdk, until

PART, NODE, PROVIDER = "gateway", "den", "away"
HERE_NAME, THEIR_NAME, VIRTUAL, EMBED = "smollm2", "smollm2-away", "quick", "smollm2-embed"
KEY, SCRIPTED_KEY = "sk-key-of-away", "sk-key-of-scripted"
CHAT = "/v1/chat/completions"

# Three accounts of one service, so that the limit of one does not rest the others: name, our model, its model.
ACCOUNTS = [("limits", "limited", "limited-1"), ("rests", "rested", "limited-1800"), ("ears", "whisper", "whisper-large-v3")]



def config(node, embed, provider, scripted):
    """The gateway's file, by the ports of everything."""
    accounts = "".join(f"""
[[providers]]
name = "{name}"
base_url = "http://127.0.0.1:{scripted}/openai/v1"
api_key = "{SCRIPTED_KEY}"
models = {{ "{ours}" = "{theirs}" }}
""" for name, ours, theirs in ACCOUNTS)
    return f"""
response_headers = true

[[nodes]]
engine = "llamacpp"
name = "{NODE}"
url = "http://127.0.0.1:{node}"

[[nodes]]
engine = "llamacpp"
name = "vectors"
url = "http://127.0.0.1:{embed}"

[virtual_models]
{VIRTUAL} = ["{NODE}/{HERE_NAME}", "{PROVIDER}/{THEIR_NAME}"]

[[providers]]
name = "{PROVIDER}"
base_url = "http://127.0.0.1:{provider}/v1"
api_key = "${{AWAY_KEY}}"
models = {{ "{HERE_NAME}" = "{THEIR_NAME}", "only-away" = "{THEIR_NAME}" }}

[[providers]]
name = "wrong-key"
base_url = "http://127.0.0.1:{provider}/v1"
api_key = "sk-wrong"
models = ["locked"]
{accounts}"""


def form_parts(content_type, body):
    """A form's parts by name: (header lines, bytes). The file in it may hold anything but the boundary."""
    boundary = b"--" + content_type.split("boundary=", 1)[1].strip('"').encode()
    first, *parts = body.split(boundary)
    need(first == b"" and parts[-1].strip() == b"--", "a form starts and ends with its boundary")
    found = {}
    for part in parts[:-1]:
        need(part.startswith(b"\r\n") and part.endswith(b"\r\n"), "each part stands on lines of its own")
        head, _, content = part[2:-2].partition(b"\r\n\r\n")
        name = head.split(b'name="', 1)[1].split(b'"', 1)[0].decode()
        need(name not in found, f"{name!r} twice")
        found[name] = head, content
    return found


class Scripted(BaseHTTPRequestHandler):
    """A provider under /openai/v1. Model limited-N: 429, come back in N seconds. Audio: tells what arrived."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, value, **headers):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get_all("Authorization") != [f"Bearer {SCRIPTED_KEY}"]:
            return self.reply(401, {"error": {"message": "this is not the key", "type": "invalid_request_error"}})
        try:
            if self.path == "/openai/v1/chat/completions":
                seconds = json.loads(body)["model"].removeprefix("limited-")
                error = {"message": "too many requests, slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
                return self.reply(429, {"error": error}, Retry_After=seconds)
            if self.path == "/openai/v1/audio/transcriptions":
                parts = form_parts(self.headers["Content-Type"], body)
                told = {name: content.decode() for name, (head, content) in parts.items() if b"filename=" not in head}
                head, file = parts["file"]
                told |= {"file": head.split(b'filename="', 1)[1].split(b'"', 1)[0].decode(), "bytes": len(file),
                         "sha256": hashlib.sha256(file).hexdigest()}
                return self.reply(200, {"text": json.dumps(told)})
        except Exception as e:                       # the client's check shows it
            return self.reply(500, {"error": {"message": f"{type(e).__name__}: {e}", "type": "server_error"}})
        return self.reply(404, {"error": {"message": f"no route {self.path}", "type": "invalid_request_error"}})


class Gateway:
    """A gateway, its node, its provider, and the scripted provider, which is a thread of ours."""

    def __init__(self, rig):
        self.rig, (self.node, self.provider, self.port) = rig, rig.gateway
        self.control = rig.dir / "gateway.sock"
        self.scripted = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        self.scripted.daemon_threads = True
        threading.Thread(target=self.scripted.serve_forever, daemon=True).start()

    def start_node(self):
        self.rig.engines("start", self.node, "--alias", HERE_NAME, "--parallel", 2)

    def start(self):
        self.start_node()
        self.rig.engines("start", self.provider, "--alias", THEIR_NAME, "--parallel", 2, "--", "--api-key", KEY)
        file = self.rig.dir / "gateway.toml"
        file.write_text(config(self.node, self.rig.emb, self.provider, self.scripted.server_port))
        self.rig.spawn("gateway", "--socket", self.control, "serve", "--config", file,
                       "--engine", f"gateway={self.port}", env={"AWAY_KEY": KEY})

        def listed():
            need(self.rig.procs["gateway"].poll() is None, "the gateway exited; see gateway.log")
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=5) as r:
                owners = {m["id"]: m["owned_by"] for m in json.load(r)["data"]}
            wanted = {VIRTUAL: "virtual", HERE_NAME: "llamacpp", EMBED: "llamacpp", "only-away": PROVIDER,
                      "locked": "wrong-key", **{ours: name for name, ours, _ in ACCOUNTS}}
            return owners == wanted, owners
        return until("every model with its owner in the gateway's list", 60, listed)

    def stop(self):
        """Ends them; another part may take their ports."""
        self.scripted.shutdown()
        self.scripted.server_close()
        if proxy := self.rig.procs.pop("gateway", None):
            proxy.terminate()
            try:
                need(proxy.wait(20) == 0, f"the gateway exits with {proxy.returncode} on SIGTERM")
            finally:
                proxy.kill()
        self.rig.engines("stop", f"{self.node},{self.provider}")

    def served_by(self, model=HERE_NAME):
        """Who answers a short request."""
        body = {"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
        one = Stream(self.port, CHAT, body, b'"choices"')
        one.run()
        need(one.whole(), f"status {one.status}, {one.error or one.body[:200]!r}")
        return one.headers["X-Nvpair-Node"]

    def tell(self, *args):
        r = subprocess.run([self.rig.bin, "--socket", str(self.control), "--json", *args], env=self.rig.env,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        need(r.returncode == 0, f"{args[0]} exit {r.returncode}: {r.stderr[-200:]}")
        return json.loads(r.stdout)


def key_is_checked(gateway):
    """Without its key the provider answers nobody, so whatever it answers had the key."""
    request = urllib.request.Request(f"http://127.0.0.1:{gateway.provider}{CHAT}", b"{}", {"Authorization": "Bearer none"})
    try:
        urllib.request.urlopen(request, timeout=10)
    except urllib.error.HTTPError as e:
        need(e.code == 401, f"status {e.code} without the key")
        return f"401 without it; {gateway.served_by('only-away')} answers through the gateway"
    raise AssertionError("the provider takes requests without its key")


def standing(gateway):
    """What `providers` shows after all that."""
    shown = {p["name"]: p for p in gateway.tell("providers")["providers"]}
    away, rests = shown[PROVIDER], shown["rests"]
    need(away["state"] == "ready" and away["requests"] > 0 and away["failures"] == 0, str(away))
    need(rests["state"] == "cooling_down" and rests["cool_down_ms"] > 600_000, str(rests))
    return f"{PROVIDER} {away['requests']} requests, rests for {rests['cool_down_ms'] // 1000} s more"


def sdks(gateway, tally, node, model, dialects):
    """A few answers, and by whom."""
    sdk(tally, f"{PART}-{node}", gateway.port, "--dialect", f"gateway,{dialects}", "--model", model,
        "--served-by", node, "--only", "chat,stream,served-by")


def part(rig, tally):
    gateway = Gateway(rig)
    try:
        if not tally.check(PART, "ready", gateway.start):
            return
        tally.check(PART, "the-providers-key-is-checked", lambda: key_is_checked(gateway))
        # Counting tokens is no route of the gateway's.
        sdk(tally, PART, gateway.port, "--dialect", "openai,anthropic,gateway,llm,langchain", "--model", VIRTUAL,
            "--embed-model", EMBED, "--skip", "count-tokens", "--served-by", NODE)
        tally.check(PART, "standing", lambda: standing(gateway))
        sdks(gateway, tally, NODE, HERE_NAME, "openai,anthropic")
        fallback(gateway, tally)
    finally:
        tally.check(PART, "ends-on-sigterm", gateway.stop)


def fallback(gateway, tally):
    """The node is killed: what has no output yet goes on to the provider, and new requests go there until it is back."""
    body = {"model": VIRTUAL, "stream": True, "max_tokens": 32, "ignore_eos": True,
            "messages": [{"role": "user", "content": "Write about the sea."}]}
    streams = kill_under_load(tally, f"{PART}-kill", gateway.port, CHAT, body, b"data: [DONE]", 2,
                              lambda: gateway.rig.engines("kill", gateway.node), "the provider")
    tally.check(f"{PART}-kill", "the-others-went-to-the-provider", lambda: went_over(streams))
    # Providers have no /v1/messages, so none for the anthropic SDK.
    sdks(gateway, tally, PROVIDER, VIRTUAL, "openai,llm,langchain")
    sdks(gateway, tally, PROVIDER, HERE_NAME, "openai")

    def back():
        gateway.start_node()
        return until("the node's next answer", 60, lambda: ((who := gateway.served_by(VIRTUAL)) == NODE, who))
    if tally.check(f"{PART}-kill", "comes-back", back):
        sdks(gateway, tally, NODE, VIRTUAL, "openai,anthropic,langchain")


def went_over(streams):
    whole = [s for s in streams if s.whole()]
    by = {who: sum(s.headers["X-Nvpair-Node"] == who for s in whole) for who in (NODE, PROVIDER)}
    models = {json.loads(line[6:])["model"] for s in whole if s.headers["X-Nvpair-Node"] == PROVIDER
              for line in s.body.split(b"\n") if line.startswith(b"data: {")}
    need(by[PROVIDER] > 0 and sum(by.values()) == len(whole), f"served by {by}")
    need(models == {THEIR_NAME}, f"the provider's answers name {models}")
    return f"whole ones served by {by}"
