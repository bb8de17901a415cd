"""What users of the package import, and nothing else, is public. The examples in its docstrings are carried out."""

import ast
import importlib
import textwrap
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tideline.declaration import pipelines
from tideline.records import transforms
from tideline.settings import PROJECT

PUBLIC = ("tideline.airflow.all_dags", "tideline.processors", "tideline.testing", "tideline.transforms")
DECLARATION = """\
description: The pipeline of an example
source:
  bootstrap_servers: nowhere:9092
  topics: [orders]
  value:
    format: json
    columns: COLUMNS
sink:
  table: shop.orders
"""
TARGET = """\
CREATE TABLE shop.orders (
  order_id bigint,
  amount numeric(12,2),
  kafka_topic_id uuid NOT NULL,
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  tideline_batch bigint NOT NULL,
  PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
)
"""


def examples(name: str) -> list[str]:
    """Return the blocks of code in the docstring of a module: paragraphs that are statements."""
    blocks: list[str] = []
    for paragraph in ast.get_docstring(ast.parse(source(name))).split("\n\n")[1:]:
        try:
            ast.parse(paragraph)
        except SyntaxError:
            if not paragraph.startswith("    "):  # words, and not the rest of the block before
                continue
        blocks.append(paragraph)
    return blocks


def source(name: str) -> str:
    return (PROJECT / "include" / name.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")


@pytest.fixture
def pipeline(tmp_path):
    """Return a function that writes the folder of a pipeline, and returns the names that a test beside it has."""

    def written(columns: str, *, more: str = "", transform: str = "") -> dict[str, object]:
        folder = tmp_path / "orders"
        folder.mkdir()
        (folder / "pipeline.yaml").write_text(DECLARATION.replace("COLUMNS", columns) + more)
        (folder / "target.sql").write_text(TARGET)
        if transform:
            (folder / "transform.py").write_text(transform)
        return {"__file__": str(folder / "test_orders.py")}

    return written


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_module_says_with_an_example_how_it_is_used(name):
    assert examples(name)


@pytest.mark.parametrize("name", PUBLIC[1:])
def test_a_public_module_says_what_is_public_in_it(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == module.__all__
    assert all(hasattr(module, public) for public in module.__all__)


def test_the_dag_file_of_the_example_is_the_one_that_is_shipped():
    [example] = examples("tideline.airflow.all_dags")
    shipped = (PROJECT / "dags" / "tideline_dags.py").read_text(encoding="utf-8")
    assert ast.unparse(ast.parse(example)) in ast.unparse(ast.parse(shipped))


def test_the_example_of_a_frame_is_a_transform(pipeline):
    there = pipeline("{offer_id: bigint}", transform="\n\n".join(examples("tideline.transforms")))
    found = transforms.load(pipelines.load(Path(there["__file__"]).parent))
    assert (found.frame is not None, found.records) == (True, None)


def test_the_example_of_a_trial_holds(pipeline):
    there = pipeline("{order_id: bigint, amount: 'decimal(12,2)'}")
    prelude = "from pathlib import Path\nfrom tideline.testing import run, trial\n"
    there["Decimal"] = Decimal
    exec(prelude + examples("tideline.testing")[0], there)


def test_the_examples_of_a_processor_and_of_its_test_hold(pipeline):
    there = pipeline(
        "{user_id: string, at: timestamp}",
        more=textwrap.dedent("""\
            state:
              key: user_id
              event_time: at
              lateness_minutes: 10
              columns: {clicks: bigint}
            """),
        transform="\n\n".join(examples("tideline.processors")),
    )
    begin = datetime(2026, 11, 21, 14, tzinfo=UTC)
    there["at"] = lambda minutes: begin + timedelta(minutes=minutes)
    prelude = "from pathlib import Path\nfrom tideline.testing import run, trial\n"
    exec(prelude + examples("tideline.testing")[-1], there)
    assert (there["rows"], [kept.value for kept in there["rows"].states]) == ([], [{"clicks": 2}])
