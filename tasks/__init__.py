"""The stages, as plain functions: preprocess, train, explain, evaluate, time, report."""
