"""The version of this SDK."""

VERSION = "0.2.0"
SDK = f"python/{VERSION}"
