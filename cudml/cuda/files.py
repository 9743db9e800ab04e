"""Files that are read as a whole or not at all.

They are written under another name and renamed, so that several processes may write one at once. Each ends with the
digest of what precedes it: a truncated or foreign file is noticed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

_DIGEST_BYTES = hashlib.sha256().digest_size


def read_whole(path: Path) -> bytes | None:
    """What `write_whole` wrote; None where there is no such file, or something else in it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    return body if body and hashlib.sha256(body).digest() == digest else None


def write_whole(path: Path, body: bytes) -> Path:
    """Makes or replaces the file, and the folder if need be. Others may read it as the user's umask says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(body + hashlib.sha256(body).digest())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return path
