"""What requests to language models will use, and what their responses state."""

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

BYTES_PER_TOKEN = 4
MOST_KEPT = 4 << 20  # bytes of a line or document
TEXT = re.compile(rb'"(?:text|content|delta|partial_json|thinking|arguments)": ?"')
STATES = re.compile(rb'"usage": ?\{|"error"')
FAILED = re.compile(rb"event: ?error\b")
LAST = re.compile(rb'data: ?(\[DONE\]|\{"type": ?"(message_stop|response\.(completed|incomplete))")')


@dataclass(frozen=True)
class Estimate:
    """What is known of a request before it is sent. input is a quarter of its bytes. most is its max_tokens; 0: it has none."""

    input: int
    most: int


@dataclass
class Usage:
    """What a response states, in tokens. The prompt has input + cache_read + cache_write.

    If a stream was cut, output is at least a quarter of the bytes of its text.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0


def estimate(body: bytes) -> Estimate:
    """Estimates a request by its body."""
    words = _object(body)
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    return Estimate(-(-len(body) // BYTES_PER_TOKEN), max(_count(words, name) for name in names))


class UsageReader:
    """Reads what a response of Anthropic or OpenAI, or of an API like theirs, states of its use, as its bytes pass."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._events = headers.get("content-type", "").startswith("text/event-stream")
        encoding = headers.get("content-encoding", "identity")
        self._zip = None if encoding == "identity" else zlib.decompressobj(47)  # of gzip and deflate; others are not read
        self.rest, self._usage = b"", Usage()
        self.failure = b""  # the document that says that the call has failed, although its status is a success
        self._text, self._known, self._ended, self.failed = 0, False, False, False

    def read(self, part: bytes) -> None:
        if self._zip is not None:
            try:
                part = self._zip.decompress(part)
            except zlib.error:
                return
        lines = part.split(b"\n") if self._events else [part]
        lines[0] = self.rest + lines[0]
        self.rest = lines.pop()  # what is not complete yet
        if len(self.rest) > MOST_KEPT:
            self.rest = b""
        for line in lines:
            if found := TEXT.search(line):
                text = line[found.end() :].replace(rb"\\", b"__").replace(rb"\"", b"__")  # in time that grows with the length
                self._text += len(text.split(b'"', 1)[0])
            self._ended = self._ended or LAST.match(line) is not None
            self.failed = self.failed or FAILED.match(line) is not None
            if STATES.search(line):
                self._state(line[line.find(b"{") :])

    def end(self) -> Usage | None:
        """What was stated when no more bytes come. None: the tokens of the prompt were not."""
        if not self._events:
            self._state(self.rest)
        if not self._known:
            return None
        if not self._ended:
            self._usage.output = max(self._usage.output, -(-self._text // BYTES_PER_TOKEN))
        return self._usage

    def _state(self, text: bytes) -> None:
        """Takes in what a document states. Events repeat counts, which grow."""
        document = _object(text)
        holders = (document, document.get("message"), document.get("response"))
        errors = (x.get(name) for x in holders if isinstance(x, dict) for name in ("error", "errors"))
        if document.get("type") == "error" or any(e is not None for e in errors):
            self.failed, self.failure = True, text
        stated = next((x["usage"] for x in holders if isinstance(x, dict) and isinstance(x.get("usage"), dict)), None)
        if stated is None:
            return
        parts = stated.get("input_tokens_details") or stated.get("prompt_tokens_details")  # of the input
        parts = parts if isinstance(parts, dict) else {}
        cached, written = _count(parts, "cached_tokens"), _count(parts, "cache_write_tokens")
        use = self._usage
        use.input = max(use.input, _count(stated, "input_tokens", "prompt_tokens") - cached - written)
        use.cache_read = max(use.cache_read, _count(stated, "cache_read_input_tokens") + cached)
        use.cache_write = max(use.cache_write, _count(stated, "cache_creation_input_tokens") + written)
        use.output = max(use.output, _count(stated, "output_tokens", "completion_tokens"))
        self._known = self._known or "input_tokens" in stated or "prompt_tokens" in stated


def _object(text: bytes) -> dict[str, object]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _count(stated: Mapping[str, object], *names: str) -> int:
    return max((n for name in names if isinstance(n := stated.get(name), int)), default=0)
