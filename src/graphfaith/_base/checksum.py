"""Checksums of what is kept in files, because safetensors and JSON read a damaged number as another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def checksum_of(text: str, tensors: Mapping[str, Tensor] | None = None) -> str:
    """Return a checksum of a text and of tensors by name, as hexadecimal digits.

    >>> checksum_of("a") == checksum_of("a", {}), checksum_of("a") == checksum_of("b")
    (True, False)
    """
    digest = hashlib.blake2b(repr(text).encode(), digest_size=16)
    for name, value in sorted((tensors or {}).items()):
        digest.update(repr((name, str(value.dtype), tuple(value.shape))).encode())
        flat = value.detach().reshape(-1)
        if flat.numel():
            # A tensor with a single number may have any stride, and bytes need one of 1.
            flat = flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)
            digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
