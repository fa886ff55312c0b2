"""Prefect flows: the study, each stage alone, their deployments and the command line."""

from flows.environment import prepare

prepare()
