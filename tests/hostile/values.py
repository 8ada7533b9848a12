"""The corpus: JSON texts, raw bodies and parameter values that have broken services elsewhere.

They are texts, not values, for most of them no JSON library would write.
"""

from __future__ import annotations

import gzip
import json
from typing import Final

DEPTH: Final = 10_000
LARGE: Final = 10 * 1024 * 1024

# What may stand in the place of any value of a body.
JSON_TEXTS: Final[dict[str, str]] = {
    "NUL": r'"a\u0000b"',
    "a lone low surrogate": r'"x\udfff"',
    "a noncharacter": r'"\uffff"',
    "a right-to-left override": r'"\u202egnp.exe"',
    "a combining pile": json.dumps("e" + "\u0301" * 5000),
    "a look-alike of runs": r'"ru\u0578s"',
    "a full-width slash": r'"\uff0fetc\uff0fpasswd"',
    "a path that leaves": '"../../../../etc/passwd"',
    "markup": '"<script>alert(1)</script>"',
    "SQL": '"\'; DROP TABLE events; --"',
    "a format string": '"%s%n{0}{{7*7}}${jndi:ldap://x}"',
    "a line break and a header": r'"a\r\nX-Injected: yes"',
    "an escape sequence": r'"\u001b[2J\u0007"',
    "blank text": '"   "',
    "empty text": '""',
    "long text": json.dumps("A" * 100_000),
    "null": "null",
    "true": "true",
    "a negative": "-1",
    "minus zero": "-0",
    "a fraction": "0.1",
    "a whole fraction": "1.0",
    "2 to the 53rd, and one": str(2**53 + 1),
    "2 to the 63rd": str(2**63),
    "minus 2 to the 64th": str(-(2**64)),
    "400 digits": "1" + "0" * 400,
    "a number beneath a double": "1e-999",
    "an empty list": "[]",
    "an empty object": "{}",
    "a list of null": "[null]",
    "a long list": json.dumps([0] * 20_000),
    "an object of many members": json.dumps({f"k{at}": at for at in range(5000)}),
    "a member twice": '{"a":1,"a":2}',
    "a member with NUL": r'{"a\u0000":1}',
    "a member without a name": '{"":1}',
    "a prototype": '{"__proto__":{"admin":true},"constructor":{"prototype":{"admin":true}}}',
    "nesting of 65": "[" * 65 + "]" * 65,
}

# What no parser may let in, wherever it stands.
MALFORMED_TEXTS: Final[dict[str, str]] = {
    "a lone high surrogate": r'"\ud800"',
    "surrogates the wrong way round": r'"\udc00\ud800"',
    "5000 digits": "9" * 5000,
    "a number beyond a double": "1e999",
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "a leading zero": "007",
    "a hexadecimal": "0x1F",
    "a member twice, once escaped": r'{"a":1,"\u0061":2}',
    "a member with a surrogate": r'{"\ud800":1}',
    "nesting of 10,000": "[" * DEPTH + "]" * DEPTH,
    "objects in objects": '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "nesting that never closes": "[" * DEPTH,
    "a comment": '/* a */ "a"',
    "single quotes": "'a'",
    "a trailing comma": "[1,]",
}

# What may come in the place of a whole body, whatever it was to be.
RAW_BODIES: Final[dict[str, bytes]] = {
    "nothing": b"",
    "blanks": b" \r\n\t ",
    "NUL alone": b"\0",
    "bytes that are no UTF-8": b'{"a":"\xff\xfe"}',
    "an overlong slash": b'{"a":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "a cut character": b'{"a":"\xf0\x9f',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-32": '{"a":1}'.encode("utf-32"),
    "half an object": b'{"a":',
    "two objects": b"{}{}",
    "an object and rubbish": b"{} x",
    "a form": b"a=1&b=2",
    "XML": b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
    "gzip": gzip.compress(b"{}"),
    "a text of 10 MB": b'{"a":"' + b"A" * LARGE + b'"}',
    "10 MB of brackets": b"[" * LARGE,
    "1 MiB of members": b'{"a":1' + b',"a":1' * 170_000 + b"}",
    "a mebibyte of digits": b"1" * (1024 * 1024),
    **{f"as a whole, {name}": text.encode() for name, text in JSON_TEXTS.items()},
    **{f"as a whole, {name}": text.encode() for name, text in MALFORMED_TEXTS.items()},
    **{
        f"in a member, {name}": f'{{"a":{text}}}'.encode() for name, text in MALFORMED_TEXTS.items()
    },
}

# What may stand in the place of a path segment or a query value, percent-encoded.
PARAMETERS: Final[dict[str, str]] = {
    "NUL": "a%00b",
    "bytes that are no UTF-8": "%ff%fe",
    "an overlong slash": "%c0%af",
    "a surrogate in UTF-8": "%ed%a0%80",
    "an escaped slash": "a%2fb",
    "an escaped escape": "a%252fb",
    "a path that leaves": "..%2f..%2f..%2fetc%2fpasswd",
    "a path that leaves, with backslashes": "..%5c..%5cetc",
    "a bad escape": "%zz",
    "half an escape": "a%",
    "a line break": "a%0d%0aX-Injected:%20yes",
    "a look-alike": "r%D5%B8n_1",
    "an emoji": "%F0%9F%92%A9",
    "a right-to-left override": "%E2%80%AEa",
    "blanks": "%20%20",
    "a negative": "-1",
    "many digits": "9" * 400,
    "2 to the 63rd": str(2**63),
    "an exponent": "1e3",
    "an underscore in a number": "1_0",
    "Arabic digits": "%D9%A1",
    "no number": "NaN",
    "a wildcard": "%25",
    "SQL": "'%20OR%20'1'='1",
    "a list": "[]",
    "an id of another kind": "key_01890000-0000-7000-8000-000000000000",
    "an id in capitals": "RUN_01890000-0000-7000-8000-000000000000",
    "an id and more": "run_01890000-0000-7000-8000-000000000000x",
    "a long one": "a" * 20_000,
}

# Headers that every route reads, or that a library beneath it might.
HEADERS: Final[dict[str, tuple[str, bytes]]] = {
    "a key that is empty": ("Idempotency-Key", b""),
    "a key of blanks": ("Idempotency-Key", b"   "),
    "a key of 256": ("Idempotency-Key", b"k" * 256),
    "a key of 60,000": ("Idempotency-Key", b"k" * 60_000),
    "a key that is no ASCII": ("Idempotency-Key", "schlüssel".encode()),
    "a key with a tabulator": ("Idempotency-Key", b"a\tb"),
    "a key that is no UTF-8": ("Idempotency-Key", b"\xff\xfe"),
    "a key of SQL": ("Idempotency-Key", b"'; DROP TABLE idempotency_keys; --"),
    "another content encoding": ("Content-Encoding", b"gzip"),
    "an unknown content encoding": ("Content-Encoding", b"zip-bomb"),
    "another content type": ("Content-Type", b"text/xml"),
    "no content type": ("Content-Type", b""),
    "a content type of rubbish": ("Content-Type", b";;;=,\xff"),
    "JSON in another charset": ("Content-Type", b"application/json; charset=utf-16"),
    "a form without a boundary": ("Content-Type", b"multipart/form-data"),
    "a form with a long boundary": ("Content-Type", b"multipart/form-data; boundary=" + b"b" * 999),
    "an Accept of rubbish": ("Accept", b"\xff/;q=,,;"),
    "an Accept of many": ("Accept", b"a/b;q=0.1," * 4000),
    "a q that is no number": ("Accept", b"application/json;q=NaN"),
    "a wait that is no number": ("Prefer", b"wait=NaN, wait=-1, wait=" + b"9" * 400),
    "an If-Match of rubbish": ("If-Match", b'W/"\xff'),
    "an event id that is no number": ("Last-Event-ID", b"1e3"),
    "an event id beyond all": ("Last-Event-ID", b"9" * 400),
    "a request id that breaks lines": ("X-Request-Id", b'a"\tb\xff'),
    "a request id that is long": ("X-Request-Id", b"r" * 60_000),
    "another host": ("Host", b"evil.example\xff"),
    "a foreign origin": ("Origin", b"null"),
    "a method to override": ("X-HTTP-Method-Override", b"DELETE"),
    "another length": ("X-Content-Length", b"-1"),
    "a range": ("Range", b"bytes=0-0,-1,9999999999999999999-"),
}
