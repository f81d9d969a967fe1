"""Damage to the bytes of a file, and to the values of a JSON document, drawn from a seed."""

import copy
import json

LENGTHS = [n.to_bytes(size, "little") for n in (0, 1, 0x7F, 0xFF) for size in (1, 2)]
LENGTHS += [n.to_bytes(4, order) for n in (0, 2**31 - 1, 2**31, 2**32 - 1) for order in ("little", "big")]
LENGTHS += [n.to_bytes(8, order) for n in (2**63 - 1, 2**64 - 1, 2**40) for order in ("little", "big")]
STRANGE = [None, True, -1, 0, 1, 1e308, -1e308, float("nan"), float("inf"), 2**70, "", "x", "../../etc", "<b>", [], {},
           [[]], {"a": 1}, [1] * 100, "\ud800", 3.5]  # fmt: skip


def damaged(content: bytes, rng) -> bytes:
    """The content with one to three changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(CHANGES)(bytearray(content), rng)
    return bytes(content)


def _place(content, rng, size=1):
    return rng.randrange(max(1, len(content) - size + 1))


def _flip_bits(content, rng):
    for _ in range(rng.choice((1, 1, 4, 20))):
        if content:
            content[_place(content, rng)] ^= 1 << rng.randrange(8)
    return content


def _overwrite(content, rng):
    size = rng.choice((1, 4, 64))
    at = _place(content, rng, size)
    content[at : at + size] = rng.randbytes(size)
    return content


def _cut(content, rng):
    return content[: _place(content, rng)]


def _zero(content, rng):
    size = rng.choice((1, 16, 512, 4096))
    at = _place(content, rng, size)
    content[at : at + size] = bytes(len(content[at : at + size]))
    return content


def _splice(content, rng):
    """Copy a piece of the file to another place, over the bytes there or in front of them."""
    a, b, size = _place(content, rng), _place(content, rng), rng.choice((4, 30, 300))
    content[b : b + (size if rng.random() < 0.5 else 0)] = content[a : a + size]
    return content


def _remove(content, rng):
    at = _place(content, rng)
    del content[at : at + rng.choice((1, 4, 100))]
    return content


def _length(content, rng):
    """Replace some bytes, which may be a length, by an extreme one."""
    value = rng.choice(LENGTHS)
    at = _place(content, rng, len(value))
    content[at : at + len(value)] = value
    return content


def _insert(content, rng):
    at = _place(content, rng)
    content[at:at] = rng.randbytes(rng.choice((1, 8, 200)))
    return content


CHANGES = (_flip_bits, _flip_bits, _overwrite, _cut, _zero, _splice, _remove, _length, _insert)


def damaged_json(text: str, rng) -> str:
    """The document with one to three of its values replaced, removed or added."""
    document = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return json.dumps(rng.choice(STRANGE))
        holder, key = rng.choice(places)
        if rng.random() < 0.2:
            del holder[key]
        elif rng.random() < 0.1 and isinstance(holder, dict):
            holder["unknown"] = copy.deepcopy(rng.choice(STRANGE))
        else:
            holder[key] = copy.deepcopy(rng.choice(STRANGE))
    return json.dumps(document)


def _places(value):
    """Every (container, key) of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
