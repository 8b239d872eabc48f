"""Keeps passwords and keys out of the log, in whatever form they come by.

A secret is replaced wherever it occurs, whole or inside a word: as it is, percent-encoded (in a URL), escaped
(inside quotes), in base64, and as part of a longer base64 text, which is how `Authorization: Basic` carries a
password.

A secret that could be an ordinary word, such as `table`, is replaced where values are: after `=`, `:`, a quote, a
bracket, the name of an option or of a scheme of HTTP. In sentences and paths it stays: hiding it there would make the
log unreadable, and tell the secret by the gaps.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

SECRET_LENGTH_MIN = 4
"""Shorter values are left alone. They occur in ordinary words and numbers all over the log, so hiding them
would destroy it, and the pattern of stars would tell the value anyway."""

WORD_LENGTH_MAX, LETTERS_LENGTH_MAX = 7, 11
"""What could be an ordinary word: anything as short as this, and letters of one case as short as that."""

MASK = "******"

# Where a value begins, and what follows it. `>` and `<` enclose it in XML, as the errors of S3 do.
_VALUE_START = r"""([=:>"'`]\s?|[,(\[{]|\b(?:Basic|Bearer|Digest|Token)\s+|--[\w-]+\s+)"""
_VALUE_END = r"""(?=$|[\s"'`\\<>,;:&@/|)\]}]|[.!?](?:\s|$))"""

# A piece of base64 that is shorter than this would match ordinary words.
_FRAGMENT_LENGTH_MIN = 6

# Base64 writes 3 bytes as 4 characters, so a secret looks different at each offset modulo 3 within a longer
# text: this is the first character that is made of the secret's bits alone. The last one that shares bits
# with what follows is left out.
_FIRST_OWN_CHAR = (0, 2, 3)


class Redactor:
    """Replaces every form of the given secrets by `******`."""

    def __init__(self, secrets: Iterable[str]) -> None:
        anywhere, as_values = set[str](), set[str]()
        for secret in secrets:
            if len(secret) >= SECRET_LENGTH_MIN:
                (as_values if _could_be_a_word(secret) else anywhere).update(_readable_forms(secret))
                anywhere.update(_base64_forms(secret))
        self._anywhere = re.compile(_one_of(anywhere)) if anywhere else None
        self._values = re.compile(f"{_VALUE_START}(?:{_one_of(as_values)}){_VALUE_END}") if as_values else None

    def redact(self, text: str) -> str:
        if self._anywhere is not None:
            text = self._anywhere.sub(MASK, text)
        return text if self._values is None else self._values.sub(rf"\1{MASK}", text)


def _could_be_a_word(secret: str) -> bool:
    is_of_letters = secret.isalpha() and (secret[1:].islower() or secret.isupper())
    return len(secret) <= (LETTERS_LENGTH_MAX if is_of_letters else WORD_LENGTH_MAX)


def _one_of(forms: Iterable[str]) -> str:
    """Longest first, because an alternation takes the first branch that matches."""
    return "|".join(map(re.escape, sorted(forms, key=lambda form: (-len(form), form))))


def _readable_forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]


def _base64_forms(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(raw).decode("ascii")
        yield text
        yield text.rstrip("=")
        for offset in range(3):
            own = slice(_FIRST_OWN_CHAR[offset], (offset + len(raw)) * 8 // 6)
            fragment = encode(bytes(offset) + raw).decode("ascii")[own]
            if len(fragment) >= _FRAGMENT_LENGTH_MIN:
                yield fragment
