"""Small models, one for each situation that broke a tool of this kind, and where real ones lie.

``SITUATIONS`` has the small ones by name; situation.py says what one consists of. The other
files: external_data.py writes models whose weights lie in other files, broken.py what cannot be
read at all, random_models.py draws graphs, real_models.py finds or exports models that people
use, plain_session.py runs the whole model to compare with.
"""

from collections.abc import Callable

from tests.zoo import (
    containers,
    control_flow,
    dtypes,
    functions,
    initializers,
    interfaces,
    names,
    quantised,
    rules,
    wiring,
)
from tests.zoo.situation import Feeds, Situation

__all__ = ["SITUATIONS", "Feeds", "Situation"]

_ROOMS = (
    control_flow,
    functions,
    initializers,
    interfaces,
    names,
    containers,
    dtypes,
    quantised,
    wiring,
    rules,
)

SITUATIONS: dict[str, Callable[[], Situation]] = {
    situation.__name__: situation for room in _ROOMS for situation in room.SITUATIONS
}
"""Every situation by its name, such as ``if_reads_two_outer_values`` or ``RULE_1_...``."""
