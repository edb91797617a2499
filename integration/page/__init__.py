"""The live page in a headless Chromium: what needs a browser to be seen. Pages as such are tested in tests/page."""
