"""The paper's statements that can be computed, in its order: `STATEMENTS`, each with a check."""

from experiments.statements.base import (
    FALSE,
    HOLDS,
    SEVERITIES,
    SOUND,
    UNDECIDED,
    WITH_CONDITIONS,
    Evidence,
    Statement,
)
from experiments.statements.complexity import COMPLEXITY
from experiments.statements.composition import COMPOSITION
from experiments.statements.pooling import POOLING
from experiments.statements.reconstruction import RECONSTRUCTION
from experiments.statements.subspace import SUBSPACE

__all__ = [
    "FALSE",
    "HOLDS",
    "SEVERITIES",
    "SOUND",
    "STATEMENTS",
    "UNDECIDED",
    "WITH_CONDITIONS",
    "Evidence",
    "Statement",
]

STATEMENTS: tuple[Statement, ...] = (*RECONSTRUCTION, *POOLING, *COMPOSITION, *COMPLEXITY, *SUBSPACE)
