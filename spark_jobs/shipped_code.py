"""Send the code of the driver to the executors of a cluster, before the first task.

Law: a task runs the code of its driver. An executor may have no Tideline, or another version of it: that would decode, count and stage by other
rules than those with which the driver publishes, and no count would say so.

What is compiled, such as pyarrow, is not sent: it is installed where executors run. A `transform.py` travels within the tasks.
"""

import os
import site
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyspark
from pyspark import SparkContext, SparkFiles

import tideline

FOLDER = "tideline_code"
"""The folder in which an executor unpacks it, below the one that it works in."""
_PYTHONPATH = "PYTHONPATH"


def ship(context: SparkContext) -> None:
    """Let the executors import Tideline, and the modules that the transform has imported, from files of this driver. Do it once for each context.

    Executors of a local master share the files of the driver already.

    Args:
        context: The context, after the import of the transform, and before a function of Python is given to Spark: it keeps the paths that it had.
    """
    if context.master.partition("[")[0] == "local" or FOLDER in context.environment.get(_PYTHONPATH, ""):
        return
    folder = Path(SparkFiles.getRootDirectory(), "shipped")  # Spark deletes it with the session
    folder.mkdir()
    archive = folder / f"{FOLDER}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
        for file, place in sorted({*_own(), *_of_transforms()}):
            opened.write(file, place)
    context.addArchive(f"{archive}#{FOLDER}")
    # First on the path of the Python that executors start, so before whatever they have installed.
    paths = [f"./{FOLDER}", *filter(None, [context.environment.get(_PYTHONPATH)])]
    context.environment[_PYTHONPATH] = os.pathsep.join(paths)


def _own() -> Iterator[tuple[Path, str]]:
    """Yield the files of Tideline, and where they stand in the archive."""
    for root in tideline.__path__:
        # `spark_jobs` is a link in a checkout.
        for folder, _, names in os.walk(root, followlinks=True):
            for name in names:
                file = Path(folder, name)
                if file.suffix != ".pyc":
                    yield file, str("tideline" / file.relative_to(root))


def _of_transforms() -> Iterator[tuple[Path, str]]:
    """Yield the modules that stand in no installation, such as those beside the DAGs, and where they stand in the archive."""
    installed = _installations()
    for name, module in list(sys.modules.items()):
        spec = module.__spec__ if isinstance(module, ModuleType) else None
        if spec is None or spec.origin is None or not spec.has_location or name.partition(".")[0] == "tideline":
            continue
        file = Path(spec.origin)
        *above, last = name.split(".")
        is_package = spec.submodule_search_locations is not None
        parts = (*above, last, "__init__.py") if is_package else (*above, f"{last}.py")
        # The file of a transform, or of the program itself, has another name than the module.
        if file.parts[-len(parts) :] == parts and not _is_below(file, installed):
            yield file, "/".join(parts)


def _is_below(file: Path, folders: set[Path]) -> bool:
    """Return whether a file stands in one of the folders, also by a link."""
    return any(one.is_relative_to(folder) for one in (file, file.resolve()) for folder in folders)


def _installations() -> set[Path]:
    standard = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    found = [*standard, *site.getsitepackages(), site.getusersitepackages(), *pyspark.__path__]
    # Those of the system too, below which an environment stands that was made with --system-site-packages.
    found += [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    return {path for one in found if one for path in (Path(one), Path(one).resolve())}
