"""What the world must offer: small Protocols whose docstrings are the contract.

An implementation lives in `store` or `adapters`; a controller sees only these.  Each docstring says what must hold,
what may be raised, and who retries.  A port never names an implementation.
"""
