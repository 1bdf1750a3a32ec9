"""The lab: what would have happened, by the very code that runs live.

Nothing here touches a fleet, a store or a running plane; time is what a recording says it is.
"""
