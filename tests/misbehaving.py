"""An OpenAI-compatible server on loopback that misbehaves as told, and counts what it sees."""

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: What a rule makes of a request: status, headers, body; or a misdeed by its name.
Reply = tuple[int, dict[str, str], str] | str
#: Body of the request, how often this very body was seen before → reply, or None to answer well.
Rule = Callable[[dict, int], Reply | None]


def error(status: int, message: str, **fields: object) -> Reply:
    """An error as OpenAI's servers word it."""
    return status, {}, json.dumps({"error": {"message": message, **fields}})


def answer(body: dict, **over: object) -> dict:
    """A whole reply: it tells prompt and seed back."""
    text = f"{body['messages'][-1]['content']}|{body.get('seed')}"
    choice: dict = {"index": 0, "message": {"role": "assistant", "content": text}}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": "a", "logprob": -0.5}] * 3}
    choice["finish_reason"] = "stop"
    choice.update(over)
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


@dataclass
class Server:
    """What the server does, and what it saw.

    Args:
        rule: asked before each answer.
        models: ids it lists; None: it has no such list.
        card: more fields of each listed model.
        key: the API key it wants.
        seconds: every answer takes so long.
    """

    rule: Rule = lambda body, seen: None
    models: list[str] | None = field(default_factory=lambda: ["served"])
    card: dict = field(default_factory=dict)
    key: str | None = None
    seconds: float = 0.0
    bodies: list[dict] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> "Server":
        owner = self

        class Handler(_Handler):
            server_of_ours = owner

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        self.released = threading.Event()
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_ours: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        ours = self.server_of_ours
        if not self._keyed():
            return
        if ours.models is None or not self.path.endswith("/models"):
            self._send(error(404, "Not Found"))
            return
        data = [{"id": name, "object": "model", **ours.card} for name in ours.models]
        self._send((200, {}, json.dumps({"object": "list", "data": data})))

    def do_POST(self) -> None:
        ours = self.server_of_ours
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._keyed():
            return
        with ours.lock:
            seen = ours.bodies.count(body)
            ours.bodies.append(body)
            ours.times.append(time.monotonic())
            ours.at_once += 1
            ours.most_at_once = max(ours.most_at_once, ours.at_once)
        try:
            if ours.seconds:
                time.sleep(ours.seconds)
            reply = ours.rule(body, seen) or (200, {}, json.dumps(answer(body)))
        finally:
            # Before the reply: its reader may ask the next thing before this thread runs again.
            with ours.lock:
                ours.at_once -= 1
        if isinstance(reply, str):
            self._misbehave(reply, json.dumps(answer(body)))
        else:
            self._send(reply)

    def _keyed(self) -> bool:
        key = self.server_of_ours.key
        sent = self.headers.get("Authorization")
        if key is None or sent == f"Bearer {key}":
            return True
        self._send(error(401, f"Incorrect API key provided: {sent}"))
        return False

    def _send(self, reply: Reply) -> None:
        status, headers, text = reply
        data = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _misbehave(self, how: str, text: str) -> None:
        self.close_connection = True
        if how == "hang":
            self.server_of_ours.released.wait(60)
        elif how == "trickle":
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            for byte in text.encode():
                if self.server_of_ours.released.wait(0.05):
                    return
                try:
                    self.wfile.write(bytes([byte]))
                except OSError:
                    return
        elif how == "cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode()[: len(text) // 2])
        elif how == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            raise ValueError(how)
