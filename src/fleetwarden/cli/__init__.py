"""What people type: one module per group of commands, each turning a request into a call and an answer into words.

Nothing is decided here, and no rule is known here: commands ask a running plane over HTTP, or `app` where none runs.  A
command imports what it needs when it runs, so that `--help` and a quick question stay quick.
"""

from fleetwarden.cli.application import app
from fleetwarden.cli.entry import main

__all__ = ["app", "main"]
