"""Putting it together: the composition root, and one function per thing that a person or an agent can ask.

Only this layer knows concrete classes.  Web and CLI translate to and from it, so that roles and attribution
are checked once, here.
"""
