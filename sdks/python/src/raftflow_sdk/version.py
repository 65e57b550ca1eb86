"""The version of this SDK."""

VERSION = "0.3.0"
SDK = f"python/{VERSION}"
