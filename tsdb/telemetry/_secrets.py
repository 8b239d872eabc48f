"""Keeps passwords and keys out of the log, in whatever form they come by.

A secret is replaced wherever it occurs, whole or inside a word: as it is, percent-encoded (in a URL), escaped
(inside quotes), in base64, and as part of a longer base64 text, which is how `Authorization: Basic` carries a
password.
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

MASK = "******"

# A piece of base64 that is shorter than this would match ordinary words.
_FRAGMENT_LENGTH_MIN = 6

# Base64 writes 3 bytes as 4 characters, so a secret looks different at each offset modulo 3 within a longer
# text: this is the first character that is made of the secret's bits alone. The last one that shares bits
# with what follows is left out.
_FIRST_OWN_CHAR = (0, 2, 3)


class Redactor:
    """Replaces every form of the given secrets by `******`."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SECRET_LENGTH_MIN for form in _written_forms(secret)}
        # Longest first, because an alternation takes the first branch that matches.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def redact(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)


def _written_forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
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
