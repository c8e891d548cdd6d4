"""`python -m gridcount` is the command line."""

import sys

from gridcount.cli import main

sys.exit(main())
