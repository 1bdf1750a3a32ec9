"""Files that people write, read into located trees and snapshots.

This is the only package that knows YAML.  It decides nothing: what a value means, and whether it may stand where it
stands, is asked of the domain.
"""
