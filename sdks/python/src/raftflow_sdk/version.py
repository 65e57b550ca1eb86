"""The version of this SDK."""

VERSION = "0.5.0"
SDK = f"python/{VERSION}"
