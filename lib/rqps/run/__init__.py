"""Runs: one is measured into a folder by `measure.measure`, those of a study in turn by `run_study.run_study`."""
