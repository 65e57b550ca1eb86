"""The version that the SDK tells the server is that of its distribution."""

from importlib.metadata import version

from raftflow_sdk.version import SDK, VERSION


def test_the_version_is_the_distribution_s() -> None:
    assert version("raftflow-sdk") == VERSION
    assert f"python/{VERSION}" == SDK
