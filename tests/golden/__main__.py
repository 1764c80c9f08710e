"""`python -m tests.golden`: ask every question and compare with the stored answers; see `--help`."""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported
os.environ.setdefault("MPLBACKEND", "Agg")

if __name__ == "__main__":
    from tests.golden.command import main

    sys.exit(main(sys.argv[1:]))
