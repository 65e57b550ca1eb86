"""A module that hosts nothing."""
