"""What is true and what should happen: values, rules and pure decisions.

Nothing in this package may read a clock, a file, a socket or a random number, or write a log line.  Whatever a rule
needs to know is an argument, whatever it decides is a return value.  That is what lets the simulation, the replay and
the live plane share one decision.
"""
