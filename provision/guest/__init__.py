"""Driver, GSP, CUDA and P2P in a guest: values, verdicts, and the probe that reads them."""
