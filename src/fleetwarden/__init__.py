"""fleetwarden: a control plane where every change to a running fleet is a governed action."""

__version__ = "0.1.0"
