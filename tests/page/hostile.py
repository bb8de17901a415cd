"""Texts that do harm where they are not shown as text, for everything that people, records and other programs may say."""

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">'\"`{{7*7}}${7*7}{%x%}"
"""A text that takes over a page that does not escape it."""
CONTROL = "\x1b[2J\x9b31m\r\nbatch 99: published\u202egnp\u200b\u2028\x07\x7f"
"""A text that controls a terminal, and forges lines there. A page that shows it as it is reads otherwise than it is."""
HOSTILE_RUN = f"javascript:document.title='taken'//{HOSTILE}{CONTROL}".replace("\r\n", "")
"""Without line breaks: Airflow itself finds no address that holds one."""
HOSTILE_FOLDER = "Wrong\"><img src=x onerror=document.title='taken'>{{7*7}}'\\\x1b[31m\u202e"
"""The name of a folder that declares no pipeline. It is shown as one with a mistake."""
