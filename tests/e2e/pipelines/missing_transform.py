"""A mistake that is found before anything is read."""

import a_module_that_nobody_has  # noqa: F401 - that is the mistake
