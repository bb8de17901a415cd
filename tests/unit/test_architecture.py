"""Architecture rules: which package may import which, where SQL may be, and the maximum length of files and functions."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tideline.settings import PROJECT
from tideline.statements import statement

PACKAGE = PROJECT / "include" / "tideline"
STACK = PROJECT / "include" / "tideline_stack"
DEMO = PROJECT / "include" / "tideline_demo"
SHIPPED = [
    path for folder in ("include", "spark_jobs", "dags", "plugins") for path in sorted((PROJECT / folder).rglob("*.py"))
]
QUERIES = [
    path
    for folder in (PACKAGE, DEMO, PROJECT / "spark_jobs")
    for path in sorted(folder.rglob("*.sql"))
    if path.parent.name != "migrations"
]


FLOORS = (
    {"tideline", "tideline.domain"},
    {"tideline.declaration"},
    {"tideline.kafka", "tideline.ledger"},
    {"tideline.formats", "tideline.registry"},
    {"tideline.formats.avro", "tideline.formats.protobuf"},
    {"tideline.formats.debezium"},
    {"tideline.formats.kinds"},
    {"tideline.records"},
    {"tideline.spark_jobs.readers", "tideline.state", "tideline.sinks"},
    {"tideline.sinks.delta", "tideline.sinks.kafka", "tideline.sinks.postgres"},
    {"tideline.sinks.kinds"},
    {"tideline.flow"},
    {"tideline.inspection"},
    {"tideline.metrics"},
    {"tideline.airflow"},
    {"tideline.deployment", "tideline.spark_jobs"},
    {"tideline.authoring"},
    {"tideline.reports", "dags", "tideline.transforms", "tideline.testing"},
    {"tideline.cli", "tideline.web"},
    {"plugins", "tideline_stack"},
    {"tideline_demo"},
)
"""The packages by layer, from the bottom up. `tideline` holds what every other package may import: errors, settings, redaction.

`flow` stands above the sinks: a verb is never called by a sink, so that a sink can be read and tried by itself.
"""
CLIENTS = {"AdminClient", "Consumer", "Producer"}
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def relative(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def loaded_by(*modules: str) -> set[str]:
    """Return the top-level modules that a fresh Python has loaded after it has imported `modules`."""
    names = "{name.split('.')[0] for name in sys.modules}"
    code = f"import sys; before = {names}; import {', '.join(modules)}; print(*({names} - before))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def module_of(path: Path) -> str:
    """Return the name under which a file is imported. The folder spark_jobs is a package of tideline, by a link."""
    name = relative(path).removeprefix("include/").rpartition(".")[0].replace("/", ".")
    return f"tideline.{name}" if name.startswith("spark_jobs.") else name


def room_of(module: str) -> str:
    """Return the innermost package of a module; empty for a module of other projects."""
    while module and module not in FLOOR_OF:
        module = module.rpartition(".")[0]
    return module


def test_no_room_imports_from_its_own_floor_or_from_one_above():
    """So each package can be read and tested with only the layers below it."""
    wrong = []
    for path in SHIPPED:
        module = module_of(path)
        room = room_of(module)
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            others = {room_of(name) for name in names} - {room, ""}
            wrong += [f"{module} imports {other}" for other in others if room and FLOOR_OF[other] >= FLOOR_OF[room]]
    assert wrong == []


def test_no_files_import_each_other_in_a_circle():
    """Else none of them can be read, or tried, without the others."""
    modules = {module_of(path): path for path in SHIPPED}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        graph[module] = (names & set(modules)) - {module}
    TopologicalSorter(graph).prepare()  # raises a CycleError that names them


def test_a_program_begins_at_the_end_of_its_file():
    """A function that is defined below is not there yet when the program runs, and is there for every test that imports the file."""
    wrong = []
    for path in SHIPPED:
        *before, _ = tree(path).body or [None]
        wrong += [
            relative(path) for node in before if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        ]
    assert wrong == []


def test_every_package_stands_on_a_floor():
    packages = {module_of(path).removesuffix(".__init__") for path in SHIPPED if path.name == "__init__.py"}
    assert packages - {"tideline.cli.commands", "tideline.reports.checks"} == set(FLOOR_OF) - {
        "dags",
        "plugins",
        "tideline.formats.kinds",
        "tideline.sinks.kinds",
        "tideline.transforms",
        "tideline.testing",
    }


def test_there_is_one_package():
    """Airflow puts the folder of DAGs on the path, and many shops have a folder `spark_jobs` there, which would be imported in place of ours."""
    assert (PACKAGE / "spark_jobs").resolve() == PROJECT / "spark_jobs"
    assert [relative(path) for path in SHIPPED if "spark_jobs" in imported(path)] == []


def test_only_a_sink_and_its_section_know_which_kind_of_output_they_are():
    """So a new kind is a section, a folder and an entry. Authoring begins with the section of a table."""
    rooms = ("declaration", "sinks", "authoring")
    knows = re.compile(
        r"isinstance\([^)]*\b(Postgres|Kafka|Delta)Sink\b|case (Postgres|Kafka|Delta)Sink\(|sink\.kind\s*(==|!=|in\b)"
    )
    files = [path for path in SHIPPED if not any(path.is_relative_to(PACKAGE / room) for room in rooms)]
    assert [relative(path) for path in files if knows.search(path.read_text(encoding="utf-8"))] == []


def test_no_two_public_classes_have_one_name():
    """Else a reader has to look at the imports of each file to know which one is meant."""
    files: dict[str, list[str]] = {}
    for path in SHIPPED:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files.setdefault(node.name, []).append(relative(path))
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_the_domain_knows_the_standard_library_only():
    modules = [f"tideline.domain.{path.stem}" for path in (PACKAGE / "domain").glob("*.py") if path.stem != "__init__"]
    assert loaded_by(*modules) <= {"tideline", *sys.stdlib_module_names}


def test_parsing_dags_loads_nothing_heavy():
    """Airflow imports the declarations every few seconds, in every process that runs a task."""
    heavy = {"pyarrow", "pandas", "numpy", "confluent_kafka", "psycopg2", "pyspark", "adbc_driver_postgresql"}
    assert not loaded_by("tideline.declaration.pipelines") & heavy


def test_the_verbs_load_no_library_of_the_job():
    """Each of Airflow's tasks would spend half a second of processor time on them."""
    assert not loaded_by("tideline.flow") & {"pyarrow", "pandas", "pyspark", "deltalake", "adbc_driver_postgresql"}


def test_only_the_rooms_of_airflow_and_of_its_page_import_it():
    """Everything else can be used and tested without Airflow."""
    found = {relative(p) for p in PACKAGE.rglob("*.py") if "airflow" in imported(p)}
    assert "include/tideline/airflow/tasks.py" in found
    assert [path for path in found if not re.fullmatch(r"include/tideline/(airflow|web)/\w+\.py", path)] == []


def test_spark_is_imported_by_the_job_and_by_transforms_only():
    """The set-up job that fills the class-data archive may import it too: the archive is about Spark's classes. Sinks do not need it."""
    allowed = re.compile(
        r"spark_jobs/.*|include/tideline/(records/)?transforms\.py|include/pipelines/[^/]+/transform\.py|include/tideline_stack/class_archive_job\.py"
    )
    assert [relative(p) for p in SHIPPED if "pyspark" in imported(p) and not allowed.fullmatch(relative(p))] == []


@pytest.mark.parametrize("driver", ["psycopg2", "confluent_kafka"])
def test_the_domain_the_declarations_and_the_verbs_know_no_driver(driver):
    """They define what is done; the ledger and the broker define how."""
    inner = [
        *(PACKAGE / "domain").glob("*.py"),
        *(PACKAGE / "flow").glob("*.py"),
        *(PACKAGE / "declaration").glob("*.py"),
        PACKAGE / "errors.py",
    ]
    assert [relative(path) for path in inner if driver in imported(path)] == []


def test_kafka_clients_print_no_lines_of_their_own():
    """Their lines would appear in progress output and in JSON documents. Set-up is excepted: its output is a log file."""
    makers = {
        path
        for path in SHIPPED
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLIENTS
    }
    # `LOOKING` of kafka/records.py has that setting too.
    noisy = {
        path for path in makers if not re.search(r'"log_level": 0|[*]{2}LOOKING', path.read_text(encoding="utf-8"))
    }
    assert {relative(path) for path in noisy} == {"include/tideline_stack/class_archive.py"}
    assert len(makers) > len(noisy)


def test_no_shipped_file_is_longer_than_500_lines():
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SHIPPED}
    assert {path: lines for path, lines in lengths.items() if lines > 500} == {}


def test_no_function_is_longer_than_45_lines():
    """The docstring does not count: documenting an argument must be free."""
    long = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in SHIPPED
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > 45
    ]
    assert long == []


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    docstring = function.body[0] if ast.get_docstring(function) else None
    return function.end_lineno - function.lineno + 1 - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)


def statements_of(path: Path) -> dict[str, str]:
    """Return the statements of one SQL file, by name."""
    package = module_of(path).rpartition(".")[0]
    names = re.findall(r"^-- name: (\w+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: statement(package, name) for name in names}


def test_every_statement_has_a_name_a_comment_and_less_than_70_lines():
    found = {(relative(path), name): text for path in QUERIES for name, text in statements_of(path).items()}
    assert len(found) > 200
    assert [where for where, text in found.items() if not text.startswith("-- ") or text.count("\n") >= 70] == []
    assert [relative(path) for path in QUERIES if not path.read_text(encoding="utf-8").startswith("-- name: ")] == []


def test_the_statements_of_a_module_lie_beside_it():
    """So a reader finds them, and one that is no longer used is noticed. The queries of the demo are one file."""
    unused = [
        f"{relative(path)}: {name}"
        for path in QUERIES
        if not path.is_relative_to(DEMO)
        for name in statements_of(path)
        if f'"{name}"' not in path.with_suffix(".py").read_text(encoding="utf-8")
    ]
    assert unused == []


def test_only_the_ledger_runs_statements_of_the_ledger():
    """What others want has a name in Python, with its types. Sinks and readers compose statements of their own."""
    verb = re.compile(r"\bledger\.(rows|row|run)\(\s*[\"']")
    files = [path for path in SHIPPED if not path.is_relative_to(PACKAGE / "ledger")]
    assert [relative(path) for path in files if verb.search(path.read_text(encoding="utf-8"))] == []


def test_sql_is_kept_in_files():
    """In Python they would have no name and no comment. The local stack's statements to its own server are no verbs."""
    statement = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE|WITH)\s+\S")
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SHIPPED
        if not path.is_relative_to(STACK)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and statement.match(node.value)
    ]
    assert found == []
