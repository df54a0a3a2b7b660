"""Dialects of `clients` for an address that is the gateway: what the openai SDK makes of its errors, audio, llm, LangChain.

Imported by the Python that has the SDKs. `kit` is what `clients` gives each dialect: options, checks, the chat's messages.
The models `locked`, `limited`, `rested` and `whisper` are those of `gateway.py`'s providers.
"""
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

UPLOAD = 5 * 1024 * 1024


def sdk(kit):
    import openai
    c = openai.OpenAI(base_url=kit.base + "/v1", api_key=kit.o.api_key, max_retries=0, timeout=kit.o.timeout,
                      http_client=openai.DefaultHttpxClient(trust_env=False))
    need = kit.need

    def ask(model, messages=kit.messages, **more):
        return c.chat.completions.create(model=model, messages=messages, max_tokens=3, **more)

    def retrieve():
        listed = {m.id: m for m in c.models.list()}
        one = c.models.retrieve(kit.model())
        need(one == listed[kit.model()], f"{one} is not what the list says")
        need(one.object == "model" and one.created > 1_500_000_000, str(one))
        return f"{one.id} of {one.owned_by}"

    def served_by():
        r = c.chat.completions.with_raw_response.create(model=kit.model(), messages=kit.messages, max_tokens=3)
        who = r.headers.get("x-nvpair-node")
        need(kit.o.served_by in (None, who), f"{who}, not {kit.o.served_by}")
        need(r.parse().choices[0].message.content, "no content")
        return f"{who}, whose model is called {r.parse().model}"

    def raised(kind, call, *words, after=None):
        """The SDK's own exception for that status, with a sentence that a person can act on."""
        try:
            call()
        except openai.APIStatusError as e:
            need(type(e) is kind, f"{type(e).__name__}: {e}")
            text = (e.body or {}).get("message") if isinstance(e.body, dict) else None
            need(isinstance(text, str) and all(w in text for w in words), f"it says {text or e!r}, not {words}")
            wait = e.response.headers.get("retry-after")
            need(after is None or (wait or "").isdecimal() and after[0] <= int(wait) <= after[1], f"Retry-After {wait}")
            return f"{type(e).__name__} {e.status_code}: {text}" + (f" (Retry-After {wait})" if wait else "")
        raise AssertionError("no error")

    def transcription():
        # What looks like another model's field inside the file is the file's own business.
        fake = b'\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n'
        data = random.Random(5).randbytes(UPLOAD // 2) + fake
        data += random.Random(6).randbytes(UPLOAD - len(data))
        r = c.audio.transcriptions.create(model="whisper", file=("sea \u00fc.wav", data), language="en", temperature=0.5)
        told = json.loads(r.text)
        need(told.pop("file").endswith(".wav"), "the file's name is lost")
        wanted = {"model": "whisper-large-v3", "language": "en", "temperature": "0.5", "bytes": UPLOAD,
                  "sha256": hashlib.sha256(data).hexdigest()}
        need(told == wanted, f"{told}, not {wanted}")
        return f"{UPLOAD} bytes, sha256 {told['sha256'][:12]}\u2026, model {told['model']}"

    unreadable = [{"role": "user", "content": {"no": "such form"}}]
    kit.run("gateway", [
        ("retrieve", retrieve),
        ("served-by", served_by),
        ("not-found", lambda: raised(openai.NotFoundError, lambda: c.models.retrieve("no/such model"), "no/such model")),
        ("no-route", lambda: raised(openai.NotFoundError, lambda: c.files.list(), "/v1/files", "/v1/chat/completions")),
        ("bad-request", lambda: raised(openai.BadRequestError, lambda: ask(kit.model(), unreadable), "content")),
        ("no-model", lambda: raised(openai.BadRequestError, lambda: ask(" "), "model")),
        ("unknown-model", lambda: raised(openai.InternalServerError, lambda: ask("smollm3"), "smollm3", "smollm2")),
        ("provider-wants-another-key", lambda: raised(openai.AuthenticationError, lambda: ask("locked"), "Key")),
        ("rate-limit", lambda: raised(openai.RateLimitError, lambda: ask("limited"), "slow down", after=(1, 1))),
        ("all-rest", lambda: raised(openai.InternalServerError, lambda: ask("rested"), "rested", after=(1700, 1800))),
        ("transcription", transcription)])


def llm(kit):
    """Simon Willison's command, its model added the way its documentation has it."""
    need = kit.need
    with tempfile.TemporaryDirectory(prefix="nvpair-llm-") as home:
        models = [{"model_id": name, "model_name": model, "api_base": kit.base + "/v1", "api_key_name": "gateway"}
                  for name, model in (("ours", kit.model()), ("nobodys", "no-such-model-xyz"))]
        # JSON is YAML.
        Path(home, "extra-openai-models.yaml").write_text(json.dumps(models))
        Path(home, "keys.json").write_text(json.dumps({"gateway": kit.o.api_key}))
        env = os.environ | {"LLM_USER_PATH": home, "NO_PROXY": "*", "HOME": home}

        def call(*args):
            command = [str(Path(sys.executable).with_name("llm")), *args]
            return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=2 * kit.o.timeout)

        def prompt(*more):
            r = call("-m", "ours", "-o", "max_tokens", str(kit.o.max_tokens), "-u", *more, "Write one sentence about the sea.")
            need(r.returncode == 0 and r.stdout.strip(), f"exit {r.returncode}: {r.stderr[-300:]}")
            need("output" in r.stderr, f"no usage: {r.stderr!r}")
            return f"{r.stdout.strip()!r}, {r.stderr.strip()}"

        def listed():
            r = call("models")
            need(r.returncode == 0 and "ours" in r.stdout, f"exit {r.returncode}: {r.stderr[-300:]}")
            return next(line for line in r.stdout.splitlines() if "ours" in line)

        def goes_on():
            r = call("-m", "ours", "-c", "-o", "max_tokens", "4", "And the sky?")
            need(r.returncode == 0 and r.stdout.strip(), f"exit {r.returncode}: {r.stderr[-300:]}")
            return repr(r.stdout.strip())

        def unknown():
            r = call("-m", "nobodys", "hello")
            need(r.returncode == 1 and "no-such-model-xyz" in r.stderr and "Traceback" not in r.stderr,
                 f"exit {r.returncode}: {r.stderr[-300:]}")
            return r.stderr.strip()
        kit.run("llm", [("list", listed), ("chat", lambda: prompt("--no-stream")), ("stream", prompt),
                        ("continue", goes_on), ("unknown-model", unknown)])


def langchain(kit):
    os.environ |= {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
    import httpx
    import openai
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings
    need = kit.need
    options = {"base_url": kit.base + "/v1", "api_key": kit.o.api_key, "max_retries": 0, "timeout": kit.o.timeout,
               "http_client": httpx.Client(trust_env=False, timeout=kit.o.timeout)}

    def chat(model=None, **more):
        return ChatOpenAI(model=model or kit.model(), max_tokens=kit.o.max_tokens, temperature=0, **options, **more)

    def invoke():
        r = chat().invoke("Write one sentence about the sea.")
        need(r.content and r.usage_metadata["output_tokens"] > 0, str(r))
        return f"{r.content!r}, {r.usage_metadata['output_tokens']} tokens of {r.response_metadata['model_name']}"

    def stream():
        parts = [p for p in chat(stream_usage=True).stream("Write one sentence about the sea.")]
        whole = parts[0]
        for p in parts[1:]:
            whole += p
        need(len([p for p in parts if p.content]) > 1, f"{len(parts)} chunks")
        need(whole.usage_metadata and whole.response_metadata.get("finish_reason"), f"no usage or no end: {whole}")
        return f"{len(parts)} chunks, {whole.usage_metadata['output_tokens']} tokens, {whole.response_metadata['finish_reason']}"

    def batch():
        r = chat().batch(["one", "two", "three", "four"])
        need(len(r) == 4 and all(x.content for x in r), str(r))
        return f"{len(r)} answers"

    def embeddings():
        # Without its tokenizer, which it would fetch, it sends text.
        e = OpenAIEmbeddings(model=kit.o.embed_model or kit.model(), check_embedding_ctx_length=False, **options)
        r = e.embed_documents(["a", "b"])
        need(len(r) == 2 and len(r[0]) > 1 and r[0] != r[1], "not two vectors")
        return f"{len(r)} vectors of {len(r[0])}"

    def unknown():
        try:
            chat("no-such-model-xyz").invoke("hello")
        except openai.APIStatusError as e:
            need("no-such-model-xyz" in str(e), str(e))
            return f"status {e.status_code}: {e}"
        raise AssertionError("no error for a model that does not exist")
    kit.run("langchain", [("chat", invoke), ("stream", stream), ("batch", batch), ("embeddings", embeddings),
                          ("unknown-model", unknown)])


DIALECTS = {"gateway": sdk, "llm": llm, "langchain": langchain}
