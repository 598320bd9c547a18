"""`python -m polybasis`, which is what torchrun starts."""

from polybasis.cli import main

main()
