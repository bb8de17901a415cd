"""Spark's errors are assigned to their cause: a class path without jars is not reported as an error of the columns."""

from uuid import uuid4

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PythonException

from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Attempt
from tideline.spark_jobs.spark_errors import explained

ATTEMPT = Attempt(
    pipeline="ads", batch_id=7, identity=uuid4(), kind=BatchKind.LIVE, fence=1, attempt=uuid4(), attempt_id=1, ranges=()
)


@pytest.mark.parametrize(
    ("said", "cause", "entry"),
    [
        (
            "Failed to find data source: kafka. Please deploy the application as per the deployment section of Structured Streaming.",
            "ads batch 7 attempt 1: Spark has no reader for Kafka",
            "environment",
        ),
        (
            "[AMBIGUOUS_REFERENCE] Reference `id` is ambiguous",
            "ads batch 7 attempt 1: Spark cannot resolve the columns",
            "transform",
        ),
    ],
)
def test_what_spark_cannot_analyse_is_distinguished(said, cause, entry):
    with pytest.raises(FatalError, match=cause) as caught, explained(ATTEMPT, lambda: None):
        raise AnalysisException(message=said)
    assert caught.value.entry == entry


@pytest.mark.parametrize(
    "name", ["tideline.ledger.database_errors.RefusedStatementError", "tideline.errors.FatalError"]
)
def test_what_the_database_has_refused_in_an_executor_is_not_tried_again(name):
    told = f"Traceback (most recent call last):\n{name}: the ledger's database refused: x\n  Next: correct x\n  More: docs/runbook.md#ledger-refuses"
    with pytest.raises(FatalError, match="ads batch 7 attempt 1: the ledger's database refused: x") as caught:  # noqa: SIM117
        with explained(ATTEMPT, lambda: None):
            raise PythonException(message=told)
    assert (caught.value.next_step, caught.value.entry) == ("correct x", "ledger-refuses")


OF_ANOTHER_SPARK = """An error occurred while calling o176.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
java.lang.NoClassDefFoundError: org/apache/spark/sql/execution/streaming/StreamExecution$
	at org.apache.spark.sql.kafka010.KafkaBatchReaderFactory$.createReader(KafkaBatchPartitionReader.scala:49)
"""


def test_jars_of_another_spark_are_named_and_not_tried_again():
    said = r"ads batch 7 attempt 1: the jars that read Kafka do not fit Spark \d.*NoClassDefFoundError(.|\n)*tideline jars FOLDER"
    with pytest.raises(FatalError, match=said), explained(ATTEMPT, lambda: None):
        raise Py4JError(OF_ANOTHER_SPARK)


def test_a_class_that_could_not_be_initialized_once_is_tried_again():
    """It may have been for want of memory, and says nothing of versions."""
    said = OF_ANOTHER_SPARK.replace("Error: org/", "Error: Could not initialize class org/")
    with pytest.raises(RetryableError, match="Spark failed"), explained(ATTEMPT, lambda: None):
        raise Py4JError(said)


IN_A_TASK = """Traceback (most recent call last):
  File "/spark/app-1/0/tideline_code/tideline/formats/json_validation.py", line 17, in <module>
    import orjson
ModuleNotFoundError: No module named 'orjson'
"""
AT_THE_START = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
Error from python worker:
  python3: Error while finding module specification for 'tideline.spark_jobs' (ModuleNotFoundError: No module named 'pyarrow.lib')
"""


@pytest.mark.parametrize(
    ("raised", "module"),
    [(PythonException(message=IN_A_TASK), "orjson"), (Py4JError(AT_THE_START), "pyarrow.lib")],
    ids=["a task", "the parent of workers"],
)
def test_a_module_that_executors_lack_is_named_and_not_waited_for(raised, module):
    said = rf"ads batch 7 attempt 1: the Python of executors has no module {module}\n.*install it where executors run"
    with pytest.raises(FatalError, match=said), explained(ATTEMPT, lambda: None):
        raise raised


def test_a_module_that_a_task_could_do_without_is_not_blamed():
    handled = f"{IN_A_TASK}\nDuring handling of the above exception, another exception occurred:\n\n"
    raised = PythonException(message=f'{handled}  File "transform.py", line 1, in frame\nValueError: no price')
    with pytest.raises(RetryableError, match="Spark failed: ValueError: no price"), explained(ATTEMPT, lambda: None):
        raise raised
