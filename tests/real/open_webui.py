"""The part `open-webui` of `run`: a real Open WebUI > the gateway > a real llama-server, then its provider.

The whole package with PyTorch and its CUDA libraries is 3.6 GB to download; without PyTorch, which chatting does not need,
it is 0.6 GB (1.7 GB installed). So it is left out, by uv, since pip cannot; and the part runs at night only.
Owns Open WebUI's installation and process. By hand, with a browser in the end, the same is:

  nvpair-proxy serve --config FILE --engine gateway=4000        FILE as `gateway.config` makes it
  python3.11 -m venv w && w/bin/pip install uv && echo "torch ; sys_platform == 'never'" >no-torch
  uv pip install --python w/bin/python --override no-torch open-webui==0.12.4
  env DATA_DIR=$PWD/data WEBUI_AUTH=False OFFLINE_MODE=True ENABLE_OLLAMA_API=False RAG_EMBEDDING_ENGINE=openai \\
    OPENAI_API_BASE_URL=http://127.0.0.1:4000/v1 OPENAI_API_KEY=none w/bin/open-webui serve --host 127.0.0.1 --port 8990
  http://127.0.0.1:8990: pick `quick`, write something; kill the llama-server of `den`, write again
"""
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

from common import free_ports, need, once, until
from gateway import HERE_NAME, NODE, PROVIDER, THEIR_NAME, VIRTUAL, Gateway

PART = "open-webui"
PACKAGES = ["uv==0.13.9", "open-webui==0.12.4"]


def install():
    def commands(dest):
        python, override = str(dest / "bin" / "python"), dest / "no-torch.txt"
        write = f"open({str(override)!r}, 'w').write(\"torch ; sys_platform == 'never'\\n\")"
        return [[sys.executable, "-m", "venv", "--clear", str(dest)],
                [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", PACKAGES[0]],
                [python, "-c", write],
                [str(dest / "bin" / "uv"), "pip", "install", "-q", "--no-cache", "--python", python,
                 "--override", str(override), PACKAGES[1]]]
    need((3, 11) <= sys.version_info < (3, 13), f"it wants Python 3.11 or 3.12, this is {sys.version.split()[0]}")
    return once(PART, PACKAGES, sys.version, commands) / "bin" / "open-webui"


class WebUi:
    """Its process, and its API as its own page uses it."""

    def __init__(self, rig, gateway):
        self.rig, self.gateway = rig, gateway
        self.port, self.token = free_ports(1)[0], None

    def start(self):
        began = time.monotonic()
        command = install()
        installed = time.monotonic()
        data = self.rig.dir / PART
        data.mkdir()
        env = self.rig.env | {
            "DATA_DIR": str(data), "HOME": str(data), "WEBUI_AUTH": "False", "WEBUI_SECRET_KEY": "of-a-test",
            "OFFLINE_MODE": "True", "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "true",
            "ENABLE_VERSION_UPDATE_CHECK": "False", "ENABLE_OLLAMA_API": "False", "RAG_EMBEDDING_ENGINE": "openai",
            "OPENAI_API_BASE_URL": f"http://127.0.0.1:{self.gateway.port}/v1", "OPENAI_API_KEY": "none", "NO_PROXY": "*"}
        with open(self.rig.dir / f"{PART}.log", "ab") as log:
            self.rig.procs[PART] = subprocess.Popen(
                [str(command), "serve", "--host", "127.0.0.1", "--port", str(self.port)],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=data)

        def healthy():
            need(self.rig.procs[PART].poll() is None, f"it exited; see {PART}.log")
            return True, self.call("/health")
        until("Open WebUI's health", 300, healthy)
        self.token = self.call("/api/v1/auths/signin", {"email": "", "password": ""})["token"]
        return f"installed in {installed - began:.0f} s, ready {time.monotonic() - installed:.0f} s later"

    def open(self, path, body=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers), timeout=120)

    def call(self, path, body=None):
        with self.open(path, body) as r:
            return json.load(r)

    def models(self):
        ids = {m["id"] for m in self.call("/api/models?refresh=true")["data"]}
        need({VIRTUAL, HERE_NAME} <= ids, f"its menu has {ids}")
        return f"{len(ids)} in its menu"

    def ask(self, stream):
        return self.open("/api/chat/completions", {
            "model": VIRTUAL, "stream": stream, "max_tokens": 12,
            "messages": [{"role": "user", "content": "Write one sentence about the sea."}]})

    def chat(self, wanted):
        with self.ask(False) as r:
            answer = json.load(r)
        need(answer["model"] == wanted, f"answered by {answer['model']}, not {wanted}")
        text = answer["choices"][0]["message"]["content"]
        need(text, "no content")
        return f"{text!r} by {wanted}"

    def stream(self, wanted):
        with self.ask(True) as r:
            lines = [line[6:].strip() for line in r if line.startswith(b"data: ")]
        need(lines and lines[-1] == b"[DONE]", f"its end is {lines[-1:]}")
        events = [json.loads(line) for line in lines[:-1]]
        need({e["model"] for e in events} == {wanted}, f"not by {wanted} alone")
        parts = [c["delta"]["content"] for e in events for c in e["choices"] if c["delta"].get("content")]
        need(len(parts) > 1, f"{len(parts)} chunks with content")
        return f"{len(parts)} chunks by {wanted}"

    def stop(self):
        if process := self.rig.procs.pop(PART, None):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def part(rig, tally):
    gateway = Gateway(rig)
    ui = WebUi(rig, gateway)
    try:
        if not (tally.check(PART, "gateway", gateway.start) and tally.check(PART, "ready", ui.start)):
            return
        tally.check(PART, "models", ui.models)
        tally.check(PART, f"chat-{NODE}", lambda: ui.chat(HERE_NAME))
        tally.check(PART, f"stream-{NODE}", lambda: ui.stream(HERE_NAME))
        rig.engines("kill", gateway.node)
        tally.check(PART, f"stream-{PROVIDER}", lambda: ui.stream(THEIR_NAME))
        tally.check(PART, f"chat-{PROVIDER}", lambda: ui.chat(THEIR_NAME))
    finally:
        ui.stop()
        tally.check(PART, "ends-on-sigterm", gateway.stop)
