"""The scaling contract, schema_version "1": closed, immutable records of one elastic service and its changes.

These records are what other systems may rely on.  They never act, never read a clock, and an unknown field is an error;
whatever is added needs a new schema_version, with fixtures that show that old records still load.
"""
