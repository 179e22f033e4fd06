"""Headers of tar files that no program writes."""

import struct
import tarfile


def tar_head(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A member's header with any size, under a right checksum."""
    member = tarfile.TarInfo(name)
    member.type = kind
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[124:136] = (b"\xff" * 4 if size < 0 else b"\x80\0\0\0") + struct.pack(">q", size)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)
