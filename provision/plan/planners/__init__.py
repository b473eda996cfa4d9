"""plan/planners."""
