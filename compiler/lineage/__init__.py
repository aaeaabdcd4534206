"""Events of OpenLineage about the jobs of `run` and the actions of `apply`."""
