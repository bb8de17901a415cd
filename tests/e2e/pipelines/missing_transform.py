"""A mistake that is found before anything is read."""

import a_module_that_does_not_exist  # type: ignore[import-not-found]  # noqa: F401 - that is the mistake
