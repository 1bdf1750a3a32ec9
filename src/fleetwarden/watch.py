"""Watching a service after a change: beginning a watch of your own, and doing the steps of watches by hand.

Thin names over the layers.
"""

from fleetwarden.app.watch_asking import run_deploy_watch, watch_deploy
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail, Probe, WatchStatus

__all__ = ["DeployWatch", "OnFail", "Probe", "WatchStatus", "run_deploy_watch", "watch_deploy"]
