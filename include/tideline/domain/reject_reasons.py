"""Format the reason of a reject as one short line that is safe to print, whatever text a record or an error contains."""

MAX_REASON = 500  # characters


def one_line(text: str) -> str:
    r"""Return the first characters of `text`, with each unprintable character as an escape such as `\n` or `\x1b`.

    Without this a record could add lines to a task's log. And half of a surrogate pair cannot be stored: it would fail
    the batch.
    """
    text = text[:MAX_REASON]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return text[:MAX_REASON]


def of_error(error: BaseException) -> str:
    """Return the type of an error and the first line of its message."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001 - an error class of a transform, whose __str__ raises
        lines = []
    return one_line(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)
