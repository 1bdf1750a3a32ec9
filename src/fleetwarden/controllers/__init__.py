"""Loops that read, ask the domain, and act through ports.

Controllers only propose.  One gate decides, one executor acts, and the store is the authority between them: any of
them may die between any two steps and another carries on.  No controller imports a store or an adapter, and only the
executor imports the actuation port.
"""
