"""Telling people: the seam for notifiers, and a way to tell something of one's own through it.

Thin names over the layers.  Give a notifier of your own to `set_default_notifier`, or to `Plane(…, notifier=…)`.
"""

from fleetwarden.app.injection import send_notification, set_default_notifier
from fleetwarden.ports.system import Notice, Notifier

__all__ = ["Notice", "Notifier", "send_notification", "set_default_notifier"]
