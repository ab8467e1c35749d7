"""What a job's starter reports to: its shadow task in the schedd, or what stands for one."""

from __future__ import annotations

from typing import TypeAlias

from daemons.starter.local_link import LocalLink
from daemons.starter.shadow_link import ShadowLink

Link: TypeAlias = ShadowLink | LocalLink
