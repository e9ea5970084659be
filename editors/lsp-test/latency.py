"""A client that does nothing but wait: what an answer takes without the time to decode it."""

import json
import os
import subprocess

PART = """fn f{n}(texts: list<string>, limit: int) -> dict {{
  var found = {{}}
  for text in texts {{
    let key = text.trim().lower()
    if key.len() > limit {{
      found[key] = (found[key] ?? 0) + 1
    }}
  }}
  return found
}}
"""


class Wire:
    """A server and its pipes."""

    def __init__(self, command):
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last = 0

    def send(self, message):
        """Writes a message."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.server.stdin.flush()

    def read(self):
        """The next message, as bytes."""
        length = None
        while line := self.server.stdout.readline().strip():
            name, value = line.split(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length is not None, "the server has ended"
        return self.server.stdout.read(length)

    def ask(self, method, params):
        """Asks, and waits for the answer."""
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        marks = (b'"id":%d,' % self.last, b'"id":%d}' % self.last)
        while True:
            body = self.read()
            if b'"method":' not in body[:200]:
                assert any(mark in body[:60] or mark in body[-60:] for mark in marks), body[:200]
                return body
            message = json.loads(body)
            if "id" in message:
                self.send({"id": message["id"], "result": None})

    def begin(self):
        """Greets the server."""
        formats = {"requests": {"full": True}, "tokenTypes": [], "tokenModifiers": [], "formats": ["relative"]}
        capabilities = {"textDocument": {"semanticTokens": formats}}
        self.ask("initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": capabilities})
        self.send({"method": "initialized", "params": {}})

    def end(self):
        """Ends the server."""
        self.ask("shutdown", None)
        self.send({"method": "exit"})
        self.server.wait(10)
