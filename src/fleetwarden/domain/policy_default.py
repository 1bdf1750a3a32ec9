"""The text of the policy that ships: what holds where nobody has written one, or where what was written is broken.

It stands here as a constant because the decision to fall back on it may not depend on a file that can be missing.  The
same bytes ship as `data/action-policy.default.yml` for people to read and copy; a test compares the two, and another
one that `policy.SHIPPED` is what this text says.
"""

from __future__ import annotations

__all__ = ["SHIPPED_TEXT"]

SHIPPED_TEXT = """\
# The action policy that ships with fleetwarden. It decides where no policy.yml is given, and where the one that is
# given cannot be used: whatever changes the fleet waits for a person; only what changes nothing goes ahead.
#
# Start your own from a copy. A rule is for a kind and a target (globs), and may be narrowed by group, source, substrate
# and direction. The most specific rule decides; at a tie the stricter one. A rule's rate_limit, blast_radius or
# maintenance_window replaces the default's.
version: 1

defaults:
  tier: approval_required                          # auto | auto_notify | approval_required | forbidden
  rate_limit: {max: 3, window_s: 3600}             # of one kind on one target; past it: denied
  blast_radius: {max_targets: 3, window_s: 3600}   # targets of one kind; past it: a person is asked

rules:
  - {kind: diagnose, target: "*", tier: auto}
  - {kind: noop, target: "*", tier: auto}
  - {kind: notify, target: "*", tier: auto}

options:
  watch_scale_down: false      # watch a service after it was scaled down, as after scaling up
  allow_self_approval: false   # true lets the one who asked for an action approve it
  approval_expires_s: 86400    # how long an approval waits for a person
"""
