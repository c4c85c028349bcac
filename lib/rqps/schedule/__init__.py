"""The runs of a study in turn: what is missing, in which order, within a budget, and what happens when one fails."""
