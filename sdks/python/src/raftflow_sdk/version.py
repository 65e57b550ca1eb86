"""The version of this SDK."""

VERSION = "0.4.0"
SDK = f"python/{VERSION}"
