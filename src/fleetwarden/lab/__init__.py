"""The lab: what would have happened, by the very code that runs live.

Nothing here touches a fleet or a running plane, and nothing sleeps; time is what a recording or a fake clock says.
"""
