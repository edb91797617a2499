"""`python -m kshim`."""

import sys

from kshim.cli.main import main

sys.exit(main())
