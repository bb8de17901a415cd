"""`make demo`: load ad impressions, let a run fail and retry it, load hours and a batch again, and account for each record.

It starts the stack unless it is up. The other shipped pipelines are `make tour`.
"""

import sys

from tideline.errors import TidelineError
from tideline_demo import failures, loads
from tideline_demo.stage import TIDELINE, DemoStage, opened
from tideline_stack.up import up


def main() -> int:
    """Run the demo; return 0 only when every record is accounted for."""
    try:
        return demo()
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def demo() -> int:
    """Play the demo, and say what to try next.

    Returns:
        0 when every record is accounted for, else 1.

    Raises:
        FatalError: A step failed that must succeed.
        RetryableError: The stack did not come up, or Kafka or Airflow did not answer in time.
    """
    up()
    with opened() as stage:
        problems = stage.judge(play(stage))
        stage.say_login()
        print(f"  Try next  {TIDELINE} doctor                 (is everything in order?)")
        print(f"            {TIDELINE} coverage impressions   (was anything left out?)")
        print("            make tour   (the other pipelines: from topic to topic, a Delta table, upserts, states)")
        print("            make down   (stop everything; the data stays)")
    return 1 if problems else 0


def play(stage: DemoStage) -> list[str]:
    """Load, fail, retry, load again, and compare the result with what was sent. Return a line for each difference."""
    sent = loads.send(stage)
    loads.load(stage)
    number = failures.fail_and_retry(stage, sent)
    failures.load_hours_again(stage)
    failures.load_batch_again(stage, number)
    return loads.account(stage, sent)


if __name__ == "__main__":
    sys.exit(main())
