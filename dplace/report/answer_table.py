"""The table of whatever ``place`` or ``simulate`` answers."""

from rich.console import RenderableType

from dplace.report.answer import PlaceAnswer, SimulateAnswer
from dplace.report.graph_answer import GraphAnswer
from dplace.report.graph_table import graph_table
from dplace.report.table import place_table, simulate_table

__all__ = ["answer_table"]


def answer_table(answer: PlaceAnswer | SimulateAnswer | GraphAnswer) -> RenderableType:
    """Return an answer for people."""
    match answer:
        case PlaceAnswer():
            return place_table(answer)
        case SimulateAnswer():
            return simulate_table(answer)
        case GraphAnswer():
            return graph_table(answer)
