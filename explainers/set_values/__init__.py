"""Values of sets of players: weights, exact and sampled estimators, tables, and values over samples."""
