"""Where services run, one package a substrate, and the dry run that stands in for all of them.

A substrate's observer reads and never changes; its actuator changes one target, once per key, and decides nothing.
"""
