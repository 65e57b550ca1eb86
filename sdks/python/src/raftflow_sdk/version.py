"""The version of this SDK."""

VERSION = "0.1.0"
SDK = f"python/{VERSION}"
