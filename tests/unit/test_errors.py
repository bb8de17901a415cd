import pickle

import pytest

from tideline.errors import FatalError
from tideline.kafka.passing import PassingError
from tideline.sinks.outside import ForgottenError


@pytest.mark.parametrize(
    "error",
    [
        FatalError("The table is gone.", next_step="Create it."),
        PassingError("No leader.", next_step="Wait.", entry="retryable"),
        ForgottenError("Sent twice?", next_step="Look.", entry="forgotten", fence=7),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_reaches_another_process_whole(error):
    error.add_note("of attempt 3")
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert str(received) == str(error)
    assert vars(received) == vars(error)
