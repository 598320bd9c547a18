"""The state in which every script of the tutorials and the gallery starts."""

from __future__ import annotations

from typing import Any

import torch


def reset(gallery_conf: dict[str, Any], script: str) -> None:
    """Seeds torch, and lets figures have the colours of the site."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
