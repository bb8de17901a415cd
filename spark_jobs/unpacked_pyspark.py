"""Import PySpark from its files, not from Spark's zip of them: imported first of all in each process that Spark starts.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of the Python that it starts. Python keeps no compiled modules of a zip, so
that the driver and the parent of the workers each compiled PySpark anew in each run, which takes 0.7 seconds of a processor for each of the two.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

ZIP = Path("python", "lib", "pyspark.zip")


def unpacked(path: Sequence[str]) -> Path | None:
    """Return the directory that holds the files of the zip on this path, unpacked; None without a zip or without its files.

    They are the `pyspark` package itself, where Spark was installed by pip, or in `python` of a downloaded Spark.
    """
    for home in (Path(entry).parents[2] for entry in path if Path(entry).parts[-3:] == ZIP.parts):
        for package in (home, home / "python" / "pyspark"):
            if package.name == "pyspark" and (package / "__init__.py").is_file():
                return package.parent
    return None


def prefer_unpacked() -> None:
    """Import `pyspark` from its files where the path of this process begins with the zip; its submodules then follow the package.

    The path is afterwards as it was: nothing else may come from another place than before.
    """
    if directory := unpacked(sys.path):
        sys.path.insert(0, str(directory))
        try:
            import_module("pyspark")
        finally:
            sys.path.remove(str(directory))


prefer_unpacked()
