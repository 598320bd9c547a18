"""Settings for models on data sets, a TOML file each: as published, or tuned here on validation data."""
