"""The smallest declaration, with parts of it replaced, and the mistakes that are found in it."""

from pathlib import Path

import pytest

from tideline.declaration import pipelines
from tideline.errors import FatalError

SMALLEST = """\
description: Ad impressions
source:
  bootstrap_servers: {env: TEST_KAFKA}
  topics: [ad_impressions]
  value:
    format: json
    columns:
      impression_id: string
sink:
  table: ads.impressions
"""


def write(parent: Path, old: str = "", new: str = "", name: str = "impressions") -> Path:
    """Write one pipeline's folder, with `old` replaced by `new` in the smallest declaration. Return the folder."""
    assert old in SMALLEST
    folder = parent / name
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(SMALLEST.replace(old, new, 1) if old else SMALLEST + new)
    (folder / "target.sql").write_text("CREATE TABLE ads.impressions (impression_id text)")
    return folder


def mistakes(folder: Path) -> list[str]:
    """Return the mistakes of a declaration, each without the name of its file."""
    with pytest.raises(FatalError) as caught:
        pipelines.load(folder)
    return caught.value.problem.replace(f"{folder}/pipeline.yaml:", "").splitlines()
