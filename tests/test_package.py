import tightdp


def test_version_has_one_home():
    from importlib.metadata import version

    assert tightdp.__version__ == version("tightdp")
