"""A public kit for tests of code that stands on fleetwarden: time, chance, a fleet and its files, all in memory.

Everything here is a real implementation of a port, small and obvious, with the truth kept where a test can read it.
Nothing sleeps, reads the machine's clock or rolls a die: a test says what time it is and what goes wrong.  The kit
never weakens what it stands in for: a fake actuator keeps the promises of its port, and what it is told to do wrong is
part of its record.
"""

from fleetwarden.testing.builders import (
    a_configuration,
    a_fleet,
    a_policy,
    a_request,
    a_service,
    an_instance,
    an_observation,
)
from fleetwarden.testing.configuration import FakeConfiguration
from fleetwarden.testing.signals import FakeSignals
from fleetwarden.testing.substrate import Answer, Delivery, Effect, FakeSubstrate
from fleetwarden.testing.system import FakeClock, FakeIds

__all__ = [
    "Answer",
    "Delivery",
    "Effect",
    "FakeClock",
    "FakeConfiguration",
    "FakeIds",
    "FakeSignals",
    "FakeSubstrate",
    "a_configuration",
    "a_fleet",
    "a_policy",
    "a_request",
    "a_service",
    "an_instance",
    "an_observation",
]
