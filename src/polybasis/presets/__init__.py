"""Hyperparameters of models for data sets, a TOML file each: published by their authors or tuned on validation data."""
