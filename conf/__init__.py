"""A study: one YAML file, checked by pydantic models."""

from conf.load import load_study
from conf.schema import Study

__all__ = ["Study", "load_study"]
