"""The words that stand beside a rejected record: one short line that people and terminals can read, whatever a record or an error puts into it."""

MAX_REASON = 500  # characters


def one_line(text: str) -> str:
    r"""The first characters of `text`; what has no shape of its own as an escape such as `\n` or `\x1b`.

    Without this a record could write lines of its own into a task's log, and half a surrogate pair could not be stored: it would fail the batch.
    """
    text = text[:MAX_REASON]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return text[:MAX_REASON]


def of_error(error: BaseException) -> str:
    """An error's type and its first line."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001 - an error of a transform's own, which cannot say what it is
        lines = []
    return one_line(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)
