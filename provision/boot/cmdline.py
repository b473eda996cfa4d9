"""The kernel command line: an ordered multimap that renders back byte for byte.

The kernel splits at white space outside double quotes, takes the part before the first ``=`` as
the name, treats ``-`` and ``_`` in names alike, and stops at a bare ``--`` (the rest belongs to init).
"""

from __future__ import annotations

from dataclasses import dataclass

SPACES = " \t\n\v\f\r"


@dataclass(frozen=True)
class Token:
    """One parameter as it stands, with the white space before it."""

    raw: str
    lead: str = ""

    @property
    def name(self) -> str:
        """Name without quotes, as written."""
        return self._unquoted.partition("=")[0]

    @property
    def key(self) -> str:
        """Name for comparison: dashes are underscores to the kernel."""
        return canonical(self.name)

    @property
    def value(self) -> str | None:
        """Value without its quotes; ``None`` where there is no ``=``."""
        _, equals, value = self._unquoted.partition("=")
        if not equals:
            return None
        if value.startswith('"'):
            value = value[1:]
            value = value.removesuffix('"')
        return value

    @property
    def _unquoted(self) -> str:
        if not self.raw.startswith('"'):
            return self.raw
        return self.raw[1:].removesuffix('"')


@dataclass(frozen=True)
class Cmdline:
    """All parameters in order.  ``tail`` is the white space after the last one."""

    tokens: tuple[Token, ...] = ()
    tail: str = ""

    @classmethod
    def parse(cls, text: str) -> Cmdline:
        """Read any text; nothing is refused and ``parse(x).render() == x``."""
        tokens: list[Token] = []
        position = 0
        while True:
            start = _skip_spaces(text, position)
            if start == len(text):
                return cls(tuple(tokens), text[position:])
            end = _token_end(text, start)
            tokens.append(Token(text[start:end], text[position:start]))
            position = end

    def render(self) -> str:
        return "".join(t.lead + t.raw for t in self.tokens) + self.tail

    @property
    def kernel(self) -> tuple[Token, ...]:
        """The parameters before a bare ``--``: those that the kernel reads."""
        for index, token in enumerate(self.tokens):
            if token.raw == "--":
                return self.tokens[:index]
        return self.tokens

    def all(self, name: str) -> tuple[Token, ...]:
        """Return every occurrence of ``name`` in order."""
        key = canonical(name)
        return tuple(t for t in self.kernel if t.key == key)

    def values(self, name: str) -> tuple[str | None, ...]:
        return tuple(t.value for t in self.all(name))

    def last(self, name: str) -> Token | None:
        """Return the last occurrence: the one that wins for most parameters."""
        found = self.all(name)
        return found[-1] if found else None

    def has(self, token: str) -> bool:
        """Whether ``name`` or ``name=value`` stands there, dashes and quotes aside."""
        want = Token(token)
        return any(t.value == want.value for t in self.all(want.name))

    def add(self, token: str) -> Cmdline:
        """Return this line with ``token`` behind the last kernel parameter."""
        count = len(self.kernel)
        added = Token(token, " " if count else "")
        rest = self.tokens[count:]
        if rest and not rest[0].lead:
            rest = (Token(rest[0].raw, " "), *rest[1:])
        return Cmdline((*self.tokens[:count], added, *rest), self.tail)

    def remove(self, token: str, *, keep: int = 0) -> Cmdline:
        """Return this line without any occurrence of ``name`` or ``name=value`` but the first ``keep``."""
        want = Token(token)
        gone = {id(t) for t in [t for t in self.all(want.name) if t.value == want.value][keep:]}
        kept: list[Token] = []
        lead_lost: str | None = None
        for token_ in self.tokens:
            if id(token_) in gone:
                if not kept and lead_lost is None:
                    lead_lost = token_.lead
                continue
            kept.append(Token(token_.raw, lead_lost) if lead_lost is not None else token_)
            lead_lost = None
        return Cmdline(tuple(kept), self.tail)


def canonical(name: str) -> str:
    """Return a parameter's name as the kernel compares it."""
    return name.replace("-", "_")


def _skip_spaces(text: str, position: int) -> int:
    while position < len(text) and text[position] in SPACES:
        position += 1
    return position


def _token_end(text: str, position: int) -> int:
    quoted = False
    while position < len(text) and (quoted or text[position] not in SPACES):
        if text[position] == '"':
            quoted = not quoted
        position += 1
    return position
