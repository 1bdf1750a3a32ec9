"""One module per revision, oldest first in the chain of `down_revision`.  A published one is never changed."""

__all__: list[str] = []
